"""What algorithms make of a first delivery that was refused or never comes, and of one that is their own update."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedap_core.nn.state import State
from fedap_core.strategies import STRATEGIES, make_strategy
from fedap_core.strategies.feddbe import FEATURES, MEAN, SHIFT
from participant.decisions.layouts import shared_layout
from participant.record.private_state import PERSONAL
from participant.training.home_run import HomeRun
from protocol.messages import Finish
from protocol.tensors import TensorSet
from tests.unit.participant.test_home_run import INITIAL, RUN, SPEC, opened, order, plan, trained

HUGE = {name: t * 0 + 1e9 if t.is_floating_point() else t for name, t in INITIAL.items()}
"""A model that no participant accepts."""

PROCEDURES: dict[str, tuple[str, dict[str, object]]] = {
    **{name: (name, {}) for name in STRATEGIES},
    "feddbe to the own mean": ("feddbe", {"own_mean": True}),
}


def fresh(folder: Path, procedure: str) -> HomeRun:
    (folder / "state").mkdir()
    name, options = PROCEDURES[procedure]
    layout = shared_layout(SPEC, make_strategy(name, options))
    return opened(folder, plan(name, options=options, shared_layout=layout.digest))


def kept(run: HomeRun, vector: str) -> torch.Tensor | None:
    return run._client.kept().get(f"vector/{vector}")


def sent(state: State, procedure: str) -> TensorSet:
    """What a coordinator sends of a model; tensors beside it are zeros."""
    layout = shared_layout(SPEC, make_strategy(*PROCEDURES[procedure]))
    zeros = {one.name: np.zeros(one.shape, dtype=np.float32) for one in layout.specs}
    return TensorSet.of({name: state[name].numpy() if name in state else zero for name, zero in zeros.items()})


@pytest.mark.parametrize("procedure", [name for name in PROCEDURES if name != "base"])  # base is sent nothing
def test_who_refuses_its_first_delivery_trains_its_own_model_and_goes_on(procedure: str, tmp_path: Path) -> None:
    run = fresh(tmp_path, procedure)
    trained(run, order(2, sent(HUGE, procedure)))
    assert run.refused is not None
    assert not torch.equal(run._client.state()["fc1.weight"], INITIAL["fc1.weight"])
    trained(run, order(3, sent(INITIAL, procedure)))
    assert run.refused is None


@pytest.mark.parametrize("procedure", PROCEDURES)
def test_who_is_sent_nothing_before_the_end_has_a_model_nevertheless(procedure: str, tmp_path: Path) -> None:
    run = fresh(tmp_path, procedure)
    run.finish(Finish(run=RUN, round_no=0, reason="aborted", weights=None))
    assert (tmp_path / PERSONAL).exists()


def test_feddbe_takes_no_mean_for_the_average_that_is_its_own(tmp_path: Path) -> None:
    """Its update comes back unchanged, then the average: it is pulled to nothing in between, and keeps its shift."""
    run = fresh(tmp_path, "feddbe")
    first = trained(run, order(0, sent(INITIAL, "feddbe")))
    own = first.weights.arrays()[FEATURES]
    run = opened(tmp_path, plan("feddbe"))
    shift = kept(run, SHIFT)
    run._deliver(order(1, first.weights))
    assert kept(run, MEAN) is None
    assert shift is not None
    assert torch.equal(kept(run, SHIFT), shift)  # type: ignore[arg-type]
    again = trained(run, order(1, first.weights))
    assert np.array_equal(again.weights.arrays()[FEATURES], own)
    trained(run, order(2, TensorSet.of({**again.weights.arrays(), FEATURES: own * np.float32(2.0)})))
    assert np.array_equal(kept(run, MEAN), own * 2.0)  # type: ignore[arg-type]


def test_the_personal_model_of_a_round_whose_delivery_was_refused_moves_along_with_the_next(tmp_path: Path) -> None:
    """It was trained beside the initial model, whose values arrive next: nothing has moved."""
    run = fresh(tmp_path, "fedap-plus")
    trained(run, order(2, sent(HUGE, "fedap-plus")))
    personal = run._client.kept()["model/personal/fc1.weight"]
    run = opened(tmp_path, plan("fedap-plus"))
    run._deliver(order(3, sent(INITIAL, "fedap-plus")))
    assert torch.equal(run._client.kept()["model/personal/fc1.weight"], personal)
    assert not torch.equal(personal, INITIAL["fc1.weight"])
