"""The way out: whatever leaves a participant has gone through the steps, and nothing else makes tensors to send."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import participant
from fedap_core.errors import InvalidInput
from participant.training.outgoing import STEPS, Departing, OutgoingTensors, find_step
from protocol.messages import Anchor, Finish
from protocol.tensors import Array, Layout, TensorSet, WireTensor
from tests.unit.participant.test_home_run import INITIAL, RUN, opened, order, plan, shared, trained, whole

OUTGOING = OutgoingTensors(encoding="f32", participant="a", seed=3)
MAKERS = {"of", "of_flat"}


def zeroed(departing: Departing, /) -> Mapping[str, Array]:
    """A step that lets nothing of what was computed out."""
    return {name: np.zeros_like(array) for name, array in departing.arrays.items()}


def test_every_tensor_of_every_report_goes_through_the_steps(tmp_path: Path) -> None:
    """Statistics before the first round, weights, statistics and tables of a round, tables of the goodbye."""
    for folder in (tmp_path, tmp_path / "b"):
        (folder / "state").mkdir(parents=True)
    run = opened(tmp_path, plan("f-fedap", rounds=2), share_class_counts=True)
    run._outgoing = replace(run._outgoing, steps=(zeroed,))
    update = trained(run, order(0, shared(INITIAL, "f-fedap"), measure="running"))
    later = trained(run, order(1, shared(INITIAL, "f-fedap")))
    goodbye = run.finish(Finish(run=RUN, round_no=2, reason="rounds", weights=shared(INITIAL, "f-fedap")))
    stats = opened(tmp_path / "b", plan("fedap"))
    stats._outgoing = replace(stats._outgoing, steps=(zeroed,))
    sets = [
        update.weights, update.statistics, later.weights, later.tables, goodbye.tables,
        stats.measure(Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=whole(INITIAL))).moments,
    ]  # fmt: skip
    for one in sets:
        assert one is not None
        assert one.layout.specs
        assert not any(array.any() for array in one.arrays().values())


def test_running_variances_sent_as_differences_are_never_negative(tmp_path: Path) -> None:
    """FedAvg shares batch norm. Its variances begin at 1 and are measured far below in every round."""
    (tmp_path / "state").mkdir()
    outgoing = opened(tmp_path, plan("fedavg", rounds=2))._outgoing
    names = sorted(outgoing.variances)
    sizes = {"w": 300} | dict.fromkeys(names, 20)
    layout = Layout(specs=tuple(WireTensor(name=name, dtype="float32", shape=(n,)) for name, n in sizes.items()))
    assert names
    assert all(name.endswith("running_var") for name in names)
    delivered, error = np.ones(layout.elements, dtype=np.float32), np.zeros(layout.elements, dtype=np.float32)
    for round_no in range(20):
        trained_now = np.concatenate([delivered[:300] + 1.0, np.full(layout.elements - 300, 0.4)]).astype(np.float32)
        difference, error = replace(outgoing, encoding="topk").difference(
            layout, trained_now, delivered=delivered, error=error, round_no=round_no
        )
        assert difference.in_full is not None
        arrived = difference.in_full.flat()
        assert arrived[300:].min() >= 0.0
        delivered = delivered.copy()
        delivered[:300] = arrived[:300]


def test_nothing_else_in_the_participant_makes_tensor_sets() -> None:
    """Sealing stands behind it: what it makes is sealed from such sets, or opened from delivered ones."""
    found = []
    for path in sorted(Path(participant.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="TensorSet"), attr=made)) if made in MAKERS:
                    found.append(path.name)
                case ast.Call(func=ast.Name(id="TensorSet")):
                    found.append(path.name)
    assert set(found) == {"outgoing.py", "boxes.py", "sealed_run.py"}


def test_steps_follow_each_other_and_draw_by_seed_kind_and_round() -> None:
    seen: list[tuple[str, int, int]] = []

    def doubled(departing: Departing, /) -> Mapping[str, Array]:
        seen.append((departing.kind, departing.round_no, departing.seed))
        return {name: 2 * array for name, array in departing.arrays.items()}

    layout = Layout(
        (WireTensor(name="w", dtype="float32", shape=(2, 1)), WireTensor(name="b", dtype="float32", shape=()))
    )
    way = replace(OUTGOING, steps=(doubled, STEPS["none"], doubled))
    assert way.weights(layout, np.array([1, 2, 3], dtype=np.float32), round_no=4).flat().tolist() == [4.0, 8.0, 12.0]
    way.weights(layout, np.zeros(3, dtype=np.float32), round_no=4)
    assert way.arrays("tables", {"n": np.array([5])}, round_no=4).arrays()["n"].tolist() == [20]
    assert seen[:2] == seen[2:4]
    assert len({seed for _, _, seed in seen}) == 4


def in_half(departing: Departing, /) -> Mapping[str, Array]:
    """A user's own step."""
    return {name: (array / 2).astype(array.dtype) for name, array in departing.arrays.items()}


def as_doubles(departing: Departing, /) -> Mapping[str, Array]:
    """A step that changes types."""
    return {name: array.astype(np.float64) for name, array in departing.arrays.items()}


def failing(departing: Departing, /) -> Mapping[str, Array]:
    """A step with a mistake."""
    raise KeyError(departing.kind)


def test_a_users_own_steps_change_what_a_run_sends(tmp_path: Path) -> None:
    for folder in ("plain", "stepped"):
        (tmp_path / folder / "state").mkdir(parents=True)
    plain = opened(tmp_path / "plain", plan("fedavg", rounds=1))
    stepped = opened(tmp_path / "stepped", plan("fedavg", rounds=1), steps=(find_step(f"{__name__}:in_half"),))
    whole_sent, half_sent = (trained(run, order(0, shared(INITIAL, "fedavg"))).weights for run in (plain, stepped))
    assert np.array_equal(half_sent.flat(), whole_sent.flat() / 2)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("as_doubles", "names, shapes and types that it was given; weights differ in w"),
        ("failing", "a step that changes tensors. It raised KeyError: 'weights'"),
    ],
)
def test_a_users_own_step_that_fails_is_named(step: str, message: str) -> None:
    layout = Layout((WireTensor(name="w", dtype="float32", shape=(2,)),))
    way = replace(OUTGOING, steps=(find_step(f"{__name__}:{step}"),))
    with pytest.raises(InvalidInput, match=message) as raised:
        way.weights(layout, np.ones(2, dtype=np.float32), round_no=0)
    assert step in str(raised.value)


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"outgoing_steps: got rounded, expected package.module:function"):
        find_step("rounded")


@pytest.mark.parametrize("encoding", ["f32", "f16"])
def test_as_delivered_is_what_arrives(encoding: str) -> None:
    layout = Layout((WireTensor(name="w", dtype="float32", shape=(3,)),))
    values = np.array([0.1, 1.0, 1e-3], dtype=np.float32)
    way = replace(OUTGOING, encoding=encoding)  # type: ignore[arg-type]  # both are encodings
    sent: TensorSet = way.weights(layout, values.copy(), round_no=0)
    assert np.array_equal(way.as_delivered(layout, values), sent.flat())
