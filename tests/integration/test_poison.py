"""Claims about hostile members over real sockets: each rule of admission refuses from the first round on, the honest
ones end as without the attacker, and the attacker is excluded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from coordinator.decisions import facts
from fedap_core.arrays import Float32Array
from fedap_core.robust import Mixture, robust_mix_rows
from fedap_core.strategies import Evidence, Phase, make_strategy
from protocol.tensors import Array
from tests.support.federation import WAIT_S, RunningCoordinator, expected_rows, fields, member, require_rows, running
from tests.support.peer import ThreadedPeer
from tests.support.run_files import told_facts
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments

ROUNDS = 5
Attack = Callable[[int, Float32Array], Float32Array]


def coordinator_of(
    folder: Path, model: TinyModel, algorithm: str, honest: str, *, at_least: int | None = None
) -> RunningCoordinator:
    """A run of the honest and of z; at_least: how many it waits for, else all."""
    members = {"names": sorted({*honest, "z"}), "at_least": at_least or len(honest) + 1, "enrolment_s": 0.0}
    initial = model.write(folder / "i.safetensors")
    return RunningCoordinator(fields(folder / "run", initial, algorithm=algorithm, rounds=ROUNDS, members=members))


def run_beside(
    coordinator: RunningCoordinator, model: TinyModel, algorithm: str, honest: str, hostile: ThreadedPeer
) -> None:
    """A whole run; the honest ones end as without z."""
    peers = [member(coordinator, model, name) for name in honest]
    with running([hostile, *peers]):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    expected = expected_rows(model, algorithm, rounds=ROUNDS, names=honest)
    for peer in peers:
        assert peer.log.final is not None
        np.testing.assert_allclose(peer.log.final, expected[peer.name], rtol=1e-5, atol=1e-5)


def excluded(folder: Path) -> list[str]:
    return [fact.member for fact in told_facts(folder / "run") if isinstance(fact, facts.Quarantined)]


@pytest.mark.parametrize("honest", ["a", "ab"])
@pytest.mark.parametrize(
    ("attack", "code"),
    [
        pytest.param(lambda _round, weights: np.full_like(weights, 9e5), "out-of-range", id="a huge constant"),
        pytest.param(lambda _round, weights: np.full_like(weights, 900), "too-far", id="a constant within range"),
        pytest.param(lambda _round, weights: weights * np.float32(-30), "too-far", id="the model turned round"),
    ],
)
def test_poison_of_the_first_round_is_refused_with_two_members_and_more(
    tmp_path: Path, honest: str, attack: Attack, code: str
) -> None:
    model = tiny_model()
    coordinator = coordinator_of(tmp_path, model, "fedbn", honest)
    hostile = ThreadedPeer(coordinator.federation.endpoint, model.hello("z"), work=attack)
    run_beside(coordinator, model, "fedbn", honest, hostile)
    assert [error.code for error in hostile.log.errors] == [code] * 3
    assert excluded(tmp_path) == ["z"]


def test_who_alternates_good_and_far_updates_is_excluded(tmp_path: Path) -> None:
    def alternating(round_no: int, weights: Float32Array) -> Float32Array:
        return drift("z", round_no, weights) if round_no % 2 else np.full_like(weights, 900)

    model = tiny_model()
    coordinator = coordinator_of(tmp_path, model, "fedbn", "ab")
    peers = [member(coordinator, model, name) for name in "ab"]
    hostile = ThreadedPeer(coordinator.federation.endpoint, model.hello("z"), work=alternating)
    with running([hostile, *peers]):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    assert excluded(tmp_path) == ["z"]
    refused = [fact for fact in told_facts(tmp_path / "run") if isinstance(fact, facts.Refused)]
    assert [(fact.code, fact.round_no) for fact in refused] == [("too-far", 0), ("too-far", 2), ("too-far", 4)]


def test_a_count_that_would_outweigh_everybody_is_refused_at_hello(tmp_path: Path) -> None:
    model = tiny_model()
    coordinator = coordinator_of(tmp_path, model, "fedavg", "ab", at_least=2)
    hello = replace(model.hello("z"), train_samples=2**53)
    hostile = ThreadedPeer(coordinator.federation.endpoint, hello, work=lambda _round, weights: weights)
    with running([hostile]):
        assert hostile.ended.wait(WAIT_S)
    run_beside(
        coordinator,
        model,
        "fedavg",
        "ab",
        ThreadedPeer(coordinator.federation.endpoint, hello, work=lambda _round, weights: weights),
    )
    assert hostile.log.rejected is not None
    assert hostile.log.rejected.code == "too-many-samples"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("bn/mean", np.full(3, 3e38), id="mean"),
        pytest.param("bn/variance", np.full(3, 3e38), id="variance"),
        pytest.param("bn/count", np.array(2**62, dtype=np.int64), id="count"),
        pytest.param("bn/count", np.array(150, dtype=np.int64), id="count that is no multiple"),
    ],
)
def test_statistics_that_are_finite_and_absurd_are_refused(tmp_path: Path, name: str, value: Array) -> None:
    model = tiny_model()
    coordinator = coordinator_of(tmp_path, model, "fedap", "ab")
    forged = {**wire_moments(moments("z")), name: value}
    hostile = ThreadedPeer(
        coordinator.federation.endpoint,
        model.hello("z"),
        work=lambda number, one: drift("z", number, one),
        moments=forged,
    )
    run_beside(coordinator, model, "fedap", "ab", hostile)
    assert {error.code for error in hostile.log.errors} == {"bad-statistics"}


@pytest.mark.parametrize("rule", ["limit", "median", "trimmed-mean"])
@pytest.mark.parametrize("algorithm", ["fedavg", "fedap"])
def test_a_limited_mix_over_the_network_has_the_bits_of_the_one_in_memory(
    tmp_path: Path, algorithm: str, rule: str
) -> None:
    """z steps eight times as far as the others: admitted, and too far to count. Files or memory, the bits are equal."""
    model, names = tiny_model(), "abcz"
    settings = fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm=algorithm, rounds=ROUNDS)
    settings["algorithm"] = {"name": algorithm, "robust": rule, "min_similarity": 0.0}
    settings["members"] = {"names": list(names), "at_least": len(names)}
    coordinator = RunningCoordinator(settings)
    peers = [member(coordinator, model, name) for name in names]
    peers[-1].work = far
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    strategy = make_strategy(algorithm, {"robust": rule})
    rows = [model.shared(strategy.home).copy() for _ in names]
    weights = strategy.mixing(Evidence(counts=(100,) * 4, stats=tuple(map(moments, names)))).weights
    tensors = model.spec.shared(strategy.home)
    sizes, trained = tuple(tensor.size for tensor in tensors), sum(tensor.trainable for tensor in tensors)
    mixture = Mixture(
        weights=weights, own=(0, 1, 2, 3), personal=strategy.is_personal(Phase.MIXED), sizes=sizes, trained=trained
    )  # fmt: skip
    for round_no in range(ROUNDS):
        works = [far if name == "z" else partial(drift, name) for name in names]
        rows = [work(round_no, row) for work, row in zip(works, rows, strict=True)]
        kept = robust_mix_rows(mixture, strategy.robustness, rows, rows)
        assert kept.tolist() == ([1.0, 1.0, 1.0, 0.0] if rule == "limit" else [1.0] * 4)
    require_rows(peers, dict(zip(names, rows, strict=True)))


def far(round_no: int, weights: Float32Array) -> Float32Array:
    return np.asarray(weights + np.float32(8) * (drift("z", round_no, weights) - weights), dtype=np.float32)
