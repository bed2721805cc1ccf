"""Claims about estimates over links: speeds as people write them, times and bytes of a round, and what is proposed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.link_estimate import LinkJob, LinkSpeeds, link_lines, parse_link
from fedap_core.errors import InvalidInput
from fedap_core.preprocessing import IMAGE_8BIT
from participant.record.model_file import make_initial, write_model
from protocol.encodings import Encoding
from protocol.tensors import Layout, WireTensor

LAYOUT = Layout((WireTensor(name="w", dtype="float32", shape=(64_000,)),))
"""256,000 bytes under f32; 1,000 blocks: 66,000 under int8, 34,000 under int4; 250 of 130 under coarse."""


def job(
    *,
    link: float,
    encoding: Encoding = "f32",
    shared: float | None = None,
    epoch_s: float | None = 10.0,
    epochs: int = 1,
    sealed: int = 0,
) -> LinkJob:
    speeds = LinkSpeeds(member=link, coordinator=shared, epoch_s=epoch_s)
    return LinkJob(
        shared=LAYOUT, once_bytes=500_000, members=10, rounds=40, epochs=epochs, encoding=encoding, speeds=speeds,
        sealed=sealed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "speed"), [("10Mbit/s", 1.25e6), ("1 Gbit/s", 1.25e8), ("64kbit/s", 8000.0), ("2.5MB/s", 2.5e6)]
)
def test_speeds_are_bytes_per_second(text: str, speed: float) -> None:
    assert parse_link("link", text) == speed


@pytest.mark.parametrize("text", ["", "10", "0Mbit/s", "10 furlongs", "-1Mbit/s", "10mbit"])
def test_a_speed_without_a_unit_or_above_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="10Mbit/s"):
        parse_link("link", text)


def test_a_round_takes_both_ways_over_the_slower_line() -> None:
    """512,000 bytes at 128,000 a second; ten members over one line of 1,024,000 a second need 5 s."""
    assert job(link=128_000).transfer_s("f32") == 4.0
    assert job(link=128_000, shared=1_024_000).transfer_s("f32") == 5.0
    assert job(link=128_000).run_bytes("int4", 40) == 500_000 + 40 * (34_000 + 66_000)


def test_a_fast_line_is_left_alone() -> None:
    *_, proposal = link_lines(job(link=1e9))
    assert proposal == "Proposal: leave it; transfers take 0% of a round."


def test_a_slow_line_gets_fewer_bytes_before_more_epochs() -> None:
    """f32 takes 5.12 s beside 10 s of training, a third of a round; coarse takes 0.65 s."""
    *_, proposal = link_lines(job(link=100_000))
    assert 'encoding = "coarse": 11 s a round' in proposal
    assert "epochs" not in proposal


def test_epochs_go_up_and_rounds_down_where_fewer_bytes_are_not_enough() -> None:
    """coarse takes 6.5 s a round; beside two epochs of 10 s that is a quarter. 40 rounds of one are 20 of two."""
    *_, proposal = link_lines(job(link=10_000))
    assert 'encoding = "coarse", rounds = 20, training.epochs = 2' in proposal
    assert "transfers take 25% instead of 84%" in proposal


def test_no_more_than_eight_epochs_are_proposed() -> None:
    *_, proposal = link_lines(job(link=100))
    assert "rounds = 5, training.epochs = 8" in proposal


def test_a_sealed_run_keeps_its_only_form() -> None:
    lines = list(link_lines(job(link=100_000, sealed=520_000)))
    assert not any("coarse" in line for line in lines)
    assert "rounds = 10, training.epochs = 4" in lines[-1]


def test_nothing_is_proposed_without_the_time_of_an_epoch() -> None:
    *_, proposal = link_lines(job(link=100_000, epoch_s=None))
    assert "--epoch-seconds" in proposal


def test_check_estimates_the_run_that_is_configured(tmp_path: Path) -> None:
    """LeNet-5 for 28 x 28 and 11 classes shares 44,511 values under FedAP: 696 blocks, 23,664 bytes up, 45,936 down."""
    classes = tuple(str(number) for number in range(11))
    spec, state = make_initial("lenet5", input_shape=(1, 28, 28), classes=classes, preprocessing=IMAGE_8BIT, seed=0)
    write_model(tmp_path / "initial.safetensors", spec, state)
    given = ["--run", "r", "--folder", str(tmp_path / "r"), "--initial", str(tmp_path / "initial.safetensors")]
    given += ["--member", "a", "--member", "b", "--rounds", "60", "--encoding", "int4"]
    checked = CliRunner().invoke(app, ["check", *given, "--link", "1Mbit/s", "--epoch-seconds", "5"])
    assert checked.exit_code == 0, checked.output
    assert "Link: 45.9 kB down and 23.7 kB up take 0.56 s of a round of 5.56 s" in checked.output
    assert "Proposal: leave it; transfers take 10% of a round." in checked.output
    refused = CliRunner().invoke(app, ["check", *given, "--epoch-seconds", "5"])
    assert isinstance(refused.exception, InvalidInput)
