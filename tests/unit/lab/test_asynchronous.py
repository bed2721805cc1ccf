"""Claims about the study of waiting and not waiting: its settings, curves, sentences and devices, without a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from coordinator.decisions import facts
from fedap_core.errors import InvalidInput
from protocol.messages import Score
from scripts.experiments.asynchronous.conditions import Trouble, case_of, slow_member
from scripts.experiments.asynchronous.curves import Curve, ObservedRun, csv_text, markdown, target_of, verdict
from scripts.experiments.asynchronous.figure import draw
from scripts.experiments.asynchronous.real_clock import Devices, watched_from
from scripts.experiments.asynchronous.study import AsyncStudy
from scripts.run.clock_settings import AsyncSettings, ClockSettings
from scripts.run.settings import RunSettings
from tests.support.cohorts import small_run

NAMES = ("a", "b", "c", "d")


def watched(*points: tuple[float, float], slow: int | None = None) -> ObservedRun:
    """Two clients that are equally good."""
    times, values = zip(*points, strict=True)
    accuracy = np.asarray(values)[:, None].repeat(2, axis=1)
    return ObservedRun(times=np.asarray(times), accuracy=accuracy, slow=slow, updates=len(points))


def curve(way: str, *points: tuple[float, float], slow: int | None = None) -> Curve:
    return Curve.of("fedap", "slow", way, [watched(*points, slow=slow)], 1.0)


RISING = tuple((float(second), second / 100) for second in range(101))
"""One per cent a second, to 100 % after 100 s."""


def test_identity_follows_the_clock_and_the_rounds() -> None:
    run = small_run("fedavg")
    plain = AsyncSettings(run=run, clock=ClockSettings())
    assert plain.identity == AsyncSettings(run=run, clock=ClockSettings()).identity
    assert plain.identity != AsyncSettings(run=run, clock=ClockSettings(lost=0.1)).identity
    assert plain.identity != AsyncSettings(run=small_run("fedavg", rounds=4), clock=ClockSettings()).identity


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("slower.a", lambda: ClockSettings(slower={"a": 0.0})),
        ("anchor", lambda: of_run(small_run("fedap", anchor={"kind": "warmup", "rounds": 1}))),
        ("device", lambda: of_run(small_run("fedap", device="auto"))),
        ("mode", lambda: of_run(small_run("fedap", mode="continuous"))),
    ],
)
def test_settings_that_no_virtual_clock_can_run_are_refused(field: str, make: Callable[[], object]) -> None:
    with pytest.raises(ValidationError, match=field):
        make()


def of_run(run: RunSettings) -> AsyncSettings:
    return AsyncSettings(run=run, clock=ClockSettings())


def test_trouble_and_names_of_the_study_are_checked() -> None:
    with pytest.raises(InvalidInput, match="slower"):
        Trouble(slower=0.0)
    with pytest.raises(InvalidInput, match="lost"):
        Trouble(lost=1.0)
    with pytest.raises(InvalidInput, match="condition"):
        case_of(small_run("fedavg"), NAMES, "slwo", "barrier", Trouble())
    with pytest.raises(InvalidInput, match="way"):
        case_of(small_run("fedavg"), NAMES, "slow", "waiting", Trouble())
    with pytest.raises(InvalidInput, match="barrier"):
        AsyncStudy(runs=(small_run("fedavg"),), conditions=("slow",), ways=("continuous",), trouble=Trouble())


def test_a_condition_changes_only_what_it_says() -> None:
    run = small_run("fedavg")
    even, slow, lossy = (
        case_of(run, NAMES, name, "deadline", Trouble()).settings.clock for name in ("even", "slow", "lossy")
    )
    assert slow == even.model_copy(update={"slower": {slow_member(NAMES, run.seed): 10.0}})
    assert lossy == even.model_copy(update={"lost": 0.3})
    assert (even.quorum, even.deadline_s) == (2, 20.0)


def test_seeds_have_different_slow_members() -> None:
    assert len({slow_member(NAMES, seed) for seed in range(10)}) > 1


def test_level_counts_as_reached_by_the_mean_of_the_latest_evaluations() -> None:
    """Of a line that rises by 1 % a second, the mean of six looks lies 2.5 % behind: 80 % is reached after 83 s."""
    rising = curve("barrier", *RISING)
    assert rising.reached_s(0.80) == 83.0
    np.testing.assert_allclose(rising.at(50.0), 0.475)
    np.testing.assert_allclose(rising.last, 0.975)
    assert rising.reached_s(0.98) is None


def test_one_lucky_evaluation_reaches_nothing() -> None:
    lucky = curve("barrier", *((float(second), 0.9 if second == 20 else 0.5) for second in range(41)))
    assert lucky.reached_s(0.6) is None


def test_runs_of_several_seeds_are_averaged_until_the_first_ends() -> None:
    """A model counts until the next: at 1 s and at 2 s the second run still has its first."""
    runs = [watched((0.0, 0.2), (1.0, 0.4), (2.0, 0.6)), watched((0.0, 0.0), (2.5, 0.8), (4.0, 0.9))]
    both = Curve.of("fedap", "slow", "barrier", runs, 1.0)
    np.testing.assert_allclose(both.times, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(both.mean, [0.1, 0.2, 0.3])
    np.testing.assert_allclose(both.high - both.low, [0.2, 0.4, 0.6])
    assert both.ended_s == 3.0


def test_target_is_what_waiting_nearly_ends_with_in_whole_per_cent() -> None:
    """0.95 * 97.5 = 92.6."""
    assert target_of([curve("barrier", *RISING), curve("continuous", (0.0, 1.0), (9.0, 1.0))], "fedap") == 0.92


def test_verdict_gives_both_times_and_both_accuracies_at_one_time() -> None:
    """The quick one stands at 90 % from 10 s on; six looks later that counts. It ends at 20 s, where waiting is at
    0.2 - 0.025."""
    quick = curve("continuous", (0.0, 0.0), (10.0, 0.9), (20.0, 0.9))
    sentence = verdict([curve("barrier", *RISING), quick], "fedap", "one member 10 times slower", 0.80)
    assert "to reach 80 %, barrier, waits for all: 83 s, continuous: 15 s." in sentence
    assert "after 20 s, it stands at 90.0 % against 17.5 % for waiting" in sentence


def test_tables_and_figure_are_written_for_every_curve(tmp_path: Path) -> None:
    told = [curve("barrier", *RISING, slow=1), curve("continuous", (0.0, 0.0), (10.0, 0.9), (20.0, 0.9))]
    targets, titles = {"fedap": 0.8}, {"slow": "one is slow"}
    table = markdown(told, targets, titles)
    assert "| fedap | one is slow | barrier, waits for all | 83 (80 %) | 100 | 97.5 | 100.0 |" in table
    assert len(csv_text(told).splitlines()) == 1 + 101 + 21
    draw(told, targets, titles, tmp_path / "figure", clock="virtual")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "one is slow" in (tmp_path / "figure.svg").read_text()


def test_slow_device_waits_nine_times_what_it_trained() -> None:
    devices = Devices(slow="b", slower=10.0, least_s=0.0)
    assert devices.wait_s("b", 0.5) == 4.5
    assert devices.wait_s("a", 0.5) == 0.0
    stretched = Devices(slow="b", slower=10.0, least_s=1.0)
    assert (stretched.wait_s("a", 0.25), stretched.wait_s("b", 0.25)) == (0.75, 9.75)
    with pytest.raises(InvalidInput, match="slower"):
        Devices(slow="b", slower=0.5, least_s=0.0)


def test_models_count_from_their_order_though_scores_come_with_the_report() -> None:
    """The run opens at 2 s. What a was given at 5 s is reported at 9 s to be 80 % right: 80 % from 3 s on."""
    told: list[tuple[facts.Fact, float]] = [
        (facts.RoundOpened(round_no=0, members=("a", "b")), 2.0),
        (update("a", 0), 5.0),
        (facts.RowPlanned(member="a", round_no=1), 5.0),
        (update("a", 1, right=80), 9.0),
        (facts.Finished(reason="rounds", sentence="done"), 10.0),
        (facts.GoodbyeAccepted(member="b", round_no=1, scores=(score(60),)), 11.0),
        (facts.GoodbyeAccepted(member="a", round_no=2, scores=(score(90),)), 12.0),
    ]
    run = watched_from(told, {"a": 0.1, "b": 0.2}, slow=1)
    np.testing.assert_allclose(run.times, [0.0, 3.0, 8.0, 8.0])
    np.testing.assert_allclose(run.accuracy, [[0.1, 0.2], [0.8, 0.2], [0.9, 0.2], [0.9, 0.6]])
    assert run.updates == 2


def update(member: str, round_no: int, *, right: int | None = None) -> facts.UpdateAccepted:
    scores = () if right is None else (score(right),)
    return facts.UpdateAccepted(
        member=member, round_no=round_no, steps=1, train_loss=0.5, scores=scores, measured=False, distance=None
    )


def score(right: int) -> Score:
    return Score(model="delivered", split="test", samples=100, correct=right, loss=0.5, macro_f1=0.5)
