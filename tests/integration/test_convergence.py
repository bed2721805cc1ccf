"""Claims about a run that stops by itself: when validation no longer improves, all get a last model and end well.

Only with a validation split; that a run without one refuses `patience` is the configuration's claim.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from coordinator.decisions import facts
from participant.record.model_file import read_model
from protocol.messages import Message, Score, Update
from tests.support.cohorts import DATA_OPTIONS, small_run
from tests.support.federation import MEMBERS, WAIT_S, RunningCoordinator, expected_rows, fields, running
from tests.support.peer import ThreadedPeer
from tests.support.players import run_reference
from tests.support.run_files import coordinator_file, told_facts
from tests.support.tiny_models import drift, tiny_model
from tests.support.whole_runs import run_to_its_end

RISING = (50, 60, 70, 70, 65, 70, 80, 80)
"""Validation samples of 100 that the models of rounds 0, 1, … have right: the best is first reached by round 2."""


class Scoring(ThreadedPeer):
    """Reports how good the delivered model was, as a participant with a validation split does."""

    def _answer(self, message: Message) -> Message:
        answer = super()._answer(message)
        if not isinstance(answer, Update) or answer.round_no == 0:
            return answer
        correct = RISING[answer.round_no - 1]
        score = Score(model="delivered", split="validation", samples=100, correct=correct, loss=1.0, macro_f1=0.5)
        return replace(answer, scores=(score,))


@pytest.mark.parametrize("patience", [2, 3])
def test_a_run_ends_when_validation_has_not_improved_for_so_long(tmp_path: Path, patience: int) -> None:
    """Round r's score rides in update r + 1. 70 comes in update 3; updates 4, 5, 6 bring 70, 65, 70, none above it. So
    with a patience of two the run ends after round 5, the sixth; with three after the seventh."""
    model = tiny_model()
    initial = model.write(tmp_path / "i.safetensors")
    pace = {"heartbeat_s": 0.5, "dead_after_s": 5.0, "linger_s": 5.0, "patience": patience}
    coordinator = RunningCoordinator(
        fields(tmp_path / "run", initial, algorithm="fedavg", rounds=20, split="reference", pace=pace)
    )
    peers = [Scoring(coordinator.federation.endpoint, model.hello(name), work=partial(drift, name)) for name in MEMBERS]
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    rounds = 4 + patience
    expected = expected_rows(model, "fedavg", rounds=rounds)
    for peer in peers:
        assert (peer.log.finish_reason, peer.log.trained) == ("converged", list(range(rounds)))
        assert peer.log.final is not None
        assert peer.log.final.tobytes() == expected[peer.name].tobytes()


@pytest.mark.slow
def test_participants_that_no_longer_learn_end_their_run_and_exit_with_0(tmp_path: Path) -> None:
    """Steps too small to learn anything: accuracy is soon the best it will be, long before sixty rounds are over."""
    cohort = {"protocol": "reference", "data_options": {**DATA_OPTIONS, "samples": "330"}}
    settings = small_run("fedavg", rounds=2, cohort=cohort, learning_rate=1e-12)
    reference = run_reference(tmp_path / "inline", settings)
    run = coordinator_file(tmp_path, reference, pace={"patience": 2}, rounds=60)
    made = run_to_its_end(tmp_path, reference, run)
    told = told_facts(tmp_path / "run")
    assert [fact.reason for fact in told if isinstance(fact, facts.Finished)] == ["converged"]
    assert sum(isinstance(fact, facts.RoundClosed) for fact in told) < 60
    assert {read_model(one.personal)[2]["ended"] for one in made.values()} == {"converged"}
