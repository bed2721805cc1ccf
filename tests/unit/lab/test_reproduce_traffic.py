"""Claims about bytes: what is computed is the layout's arithmetic, and what was measured goes before it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedap_core.model_spec import ModelSpec
from fedap_core.preprocessing import IMAGE_8BIT
from fedap_core.strategies import make_strategy
from participant.record.model_file import make_initial
from scripts.report.traffic import computed, counted
from scripts.run.run_folder import RunFolder
from tests.support.cohorts import small_run
from tests.support.finished_runs import finish

BN_VALUES = 88
HEAD_VALUES = 935


@pytest.fixture(scope="module")
def spec() -> ModelSpec:
    """LeNet-5 for 28 x 28 and 11 classes.

    156 + 24 (conv, BN of 6) + 2416 + 64 (conv, BN of 16) + 30840 + 10164 + 935 values. Each of 22 BN channels has a
    weight, a bias, a running mean and variance: 88 of them; the two counters are integers and never travel.
    """
    classes = tuple(str(number) for number in range(11))
    made, _ = make_initial("lenet5", input_shape=(1, 28, 28), classes=classes, preprocessing=IMAGE_8BIT, seed=0)
    return made


def test_shared_values_travel_both_ways_in_four_bytes(spec: ModelSpec) -> None:
    values = 156 + 24 + 2416 + 64 + 30840 + 10164 + 935
    assert computed(spec, make_strategy("fedavg")).per_round == 8 * values
    assert computed(spec, make_strategy("fedbn")).per_round == 8 * (values - BN_VALUES)
    assert computed(spec, make_strategy("fedper")).per_round == 8 * (values - HEAD_VALUES)
    assert computed(spec, make_strategy("base")).per_round == 0


def test_an_encoding_shortens_what_travels_and_leaves_the_anchor_as_it_is(spec: ModelSpec) -> None:
    """FedBN shares 44511 values: 696 blocks of 64, which int4 takes up in 34 bytes each and int8 down in 66."""
    coarse = computed(spec, make_strategy("fedbn"), encoding="int4")
    assert (coarse.up, coarse.down) == (696 * 34, 696 * 66)
    assert computed(spec, make_strategy("fedap"), encoding="int4").once == computed(spec, make_strategy("fedap")).once


def test_w_costs_the_anchor_down_and_two_numbers_a_channel_up(spec: ModelSpec) -> None:
    """FedAP measures 6 + 16 channels, d-FedAP the head's 84 inputs; f-FedAP needs no anchor. 16 bytes a channel."""
    values = 156 + 24 + 2416 + 64 + 30840 + 10164 + 935
    assert computed(spec, make_strategy("fedap")).once == 4 * values + 16 * 22
    assert computed(spec, make_strategy("d-fedap")).once == 4 * values + 16 * 84
    assert computed(spec, make_strategy("f-fedap")).once == 16 * 22
    assert computed(spec, make_strategy("fedbn")).once == 0


def test_bytes_counted_on_the_wire_go_before_computed_ones(tmp_path: Path) -> None:
    """Clients send and receive 10 + 30 and 20 + 40 bytes a round, on average 50; the first carries 400 more each."""
    run = small_run("fedbn", rounds=3, cohort={"clients": 2})
    finish(tmp_path, [run], lambda _run, _round, _client: 0.5)
    folder = RunFolder(tmp_path, run)
    assert counted([folder]) is None
    path = folder.path / "rounds.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for number, line in enumerate(lines):
        line["bytes"] = {"up": [10, 20], "down": [430, 440] if number == 0 else [30, 40]}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    traffic = counted([folder])
    assert traffic is not None
    assert (traffic.per_round, traffic.once, traffic.measured) == (50.0, 400.0, True)
    assert traffic.until(10) == 900.0
