"""Claims about the page of a run: what it says in which stage, names that are no markup, many members, metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinator.decisions import facts
from coordinator.page.serving import run_page
from coordinator.page.view import context_of, headline
from coordinator.watching.following import RunFollower
from tests.support.web import Answer, served
from tests.unit.coordinator.test_following import ONE_ROUND, STARTED, Told, joined, write_run
from tests.unit.coordinator.test_progress import score, update

SCORED: Told = ((7.0, update("a", 1, score(6))), (7.0, update("b", 1, score(8))))
WEIGHED: Told = ((2.0, facts.Weighed(members=("a", "b"), weights=((0.6, 0.4), (0.0, 1.0)))),)


def ask(folder: Path, *paths: str) -> list[Answer]:
    with served(lambda: run_page(folder).app()) as visitor:
        return [visitor.ask(path) for path in paths]


def test_the_whole_page_is_there_without_scripts(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [*STARTED, *WEIGHED, *ONE_ROUND, *SCORED])
    text = ask(folder, "/")[0].text
    assert "wards" in text
    for shown in ("Round 2 of 4", "60.0", "80.0", "a: 60% its own, most from b (40%)", "b: learns from nobody else"):
        assert shown in text
    assert text.count("<svg") >= 3
    assert not re.search(r"""(src|href)=["'](https?:)?//""", text)


def test_members_that_fit_nobody_are_named(tmp_path: Path) -> None:
    weights = ((0.5, 0.5), (0.5, 0.5))
    weighed = facts.Weighed(members=("a", "b"), weights=weights, similarity=(0.0, 0.9))
    folder = write_run(tmp_path / "run", [*STARTED, (2.0, weighed)])
    assert "<strong>a</strong> differs from all other members: similarity 0.00" in ask(folder, "/")[0].text
    assert RunFollower(folder).refresh().fit_nobody == (("a", 0.0),)


def test_names_are_never_markup(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    told: Told = [(0.0, facts.Began(run="wards")), (1.0, joined(evil)), (2.0, facts.Left(member=evil, reason=evil))]
    text = ask(write_run(tmp_path / "run", told), "/")[0].text
    assert "<img" not in text
    assert "&lt;img src=x" in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "members train"),
        (((7.0, facts.Finished(reason="rounds", sentence="done")),), "members fetch their last models"),
        (
            ((7.0, facts.Finished(reason="aborted", sentence="gave up")), (8.0, facts.Ended(absent=()))),
            "The run has been aborted",
        ),
        (((7.0, facts.Finished(reason="rounds", sentence="done")), (8.0, facts.Ended(absent=()))), "The run has ended"),
    ],
)
def test_the_first_sentence_says_where_the_run_stands(tmp_path: Path, more: Told, said: str) -> None:
    assert said in headline(RunFollower(write_run(tmp_path / "run", [*STARTED, *more])).refresh())


def test_a_coordinator_that_does_not_run_is_named_first(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", STARTED)
    (folder / "lock").touch()
    overview = RunFollower(folder).refresh()
    if overview.running is None:
        pytest.skip("this system does not list locks")
    assert "No coordinator is running" in headline(overview)


def test_of_many_members_those_with_something_unusual_come_first(tmp_path: Path) -> None:
    names = [f"m{number:03d}" for number in range(250)]
    told: list[tuple[float, facts.Fact]] = [(0.0, facts.Began(run="wards")), *((1.0, joined(name)) for name in names)]
    told.append((2.0, facts.Lost(member="m240", silent_s=60.0)))
    context = context_of(RunFollower(write_run(tmp_path / "run", told)).refresh())
    assert (context["shown_members"][0].name, context["hidden_members"]) == ("m240", 50)


def test_metrics_have_the_figures_of_the_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [*STARTED, *ONE_ROUND, *SCORED])
    metrics, state_json = ask(folder, "/metrics", "/state.json")
    for line in (
        'fedap_round{run="wards"} 2.0',
        'fedap_members{run="wards",status="present"} 2.0',
        'fedap_member_accuracy{member="b",run="wards"} 0.8',
        'fedap_run_stage{run="wards",stage="training"} 1.0',
    ):
        assert line in metrics.text
    state = state_json.json()
    assert (state["round"], state["mean_accuracy"], len(state["members"])) == (2, 0.7, 2)


def test_what_goes_wrong_is_said_and_nothing_is_made_up(tmp_path: Path) -> None:
    page, metrics = ask(tmp_path, "/", "/metrics")
    assert [page.status, metrics.status] == [503, 503]
    assert "expected the journal of a run" in page.text
