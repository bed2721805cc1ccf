"""Claims about f16 transport, over real sockets: half the bytes, exactly the values of the conversion, no overflow.

The promise of equal bits does not hold under f16 against other engines; against the arithmetic of its own conversions
it does, and that is what is compared here.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coordinator.cli import main
from fedap_core.aggregation import mix
from fedap_core.arrays import Float32Array
from fedap_core.strategies import Evidence, make_strategy
from protocol.messages import Message, Update
from protocol.tensors import TensorSet
from tests.support.cohorts import run_command, small_run, tensor_bits
from tests.support.federation import MEMBERS, WAIT_S, RunningCoordinator, expected_rows, fields, member, running
from tests.support.peer import ThreadedPeer
from tests.support.players import run_reference
from tests.support.processes import config_file
from tests.support.run_files import coordinator_file, has_finite_model
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments
from tests.support.whole_runs import run_to_its_end


def halved(values: Float32Array) -> Float32Array:
    return values.astype(np.float16).astype(np.float32)


def rows_of_conversions(model: TinyModel, algorithm: str, *, rounds: int) -> dict[str, Float32Array]:
    """What everybody must hold: every row and every update goes through f16 once, the mixing itself is float32."""
    strategy = make_strategy(algorithm)
    rows = [halved(model.shared(strategy.home)) for _ in MEMBERS]
    evidence = Evidence(counts=(100,) * len(MEMBERS), stats=tuple(moments(name) for name in MEMBERS))
    weights = strategy.mixing(evidence).weights
    for round_no in range(rounds):
        rows = [halved(drift(name, round_no, row)) for name, row in zip(MEMBERS, rows, strict=True)]
        mix(weights, rows, rows)
        rows = [halved(row) for row in rows]
    return dict(zip(MEMBERS, rows, strict=True))


def run_of(folder: Path, model: TinyModel, encoding: str) -> tuple[dict[str, bytes], Counter[tuple[str, int, str]]]:
    """A run of three rounds: the models it ended with, and the bytes counted on the wire."""
    folder.mkdir()
    initial = model.write(folder / "i.safetensors")
    coordinator = RunningCoordinator(fields(folder / "run", initial, algorithm="fedap", encoding=encoding))
    peers = [member(coordinator, model, name) for name in MEMBERS]
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    counted: Counter[tuple[str, int, str]] = Counter()
    for line in (folder / "run" / "traffic.jsonl").read_text().splitlines():
        for name, round_no, way, size in json.loads(line)["bytes"]:
            counted[name, round_no, way] += size
    return {peer.name: np.asarray(peer.log.final).tobytes() for peer in peers}, counted


def test_f16_gives_the_values_of_its_conversions_in_half_the_bytes(tmp_path: Path) -> None:
    """20,000 values are 80,000 bytes as f32, to which headers add some hundred; f16 takes half of all but those,
    less what compression finds."""
    model = tiny_model(body=20_000)
    whole, many = run_of(tmp_path / "f32", model, "f32")
    half, few = run_of(tmp_path / "f16", model, "f16")
    assert whole == {name: row.tobytes() for name, row in expected_rows(model, "fedap", rounds=3).items()}
    assert half == {name: row.tobytes() for name, row in rows_of_conversions(model, "fedap", rounds=3).items()}
    for name in MEMBERS:
        for way in ("in", "out"):
            assert many[name, 1, way] > 80_000
            assert 0.4 <= few[name, 1, way] / many[name, 1, way] < 0.55, (name, way)


class Overflowing(ThreadedPeer):
    """Sends f16 bytes that hold an infinity in its first two rounds, which no honest sender can."""

    def _answer(self, message: Message) -> Message:
        answer = super()._answer(message)
        if isinstance(answer, Update) and answer.round_no < 2:
            halves = np.frombuffer(bytes(answer.weights.data or b""), dtype="<f2").copy()
            halves[5] = np.inf
            data = memoryview(halves.tobytes())
            answer = replace(answer, weights=TensorSet(layout=answer.weights.layout, encoding="f16", data=data))
        return answer


def test_an_infinity_under_f16_is_refused_as_overflow_and_the_round_continues(tmp_path: Path) -> None:
    model = tiny_model()
    initial = model.write(tmp_path / "i.safetensors")
    coordinator = RunningCoordinator(fields(tmp_path / "run", initial, algorithm="fedavg", encoding="f16"))
    peers = [member(coordinator, model, name) for name in ("a", "c")]
    work, measured = (lambda round_no, weights: drift("b", round_no, weights)), wire_moments(moments("b"))
    peers.append(Overflowing(coordinator.federation.endpoint, model.hello("b"), work=work, moments=measured))
    with running(peers):
        assert all(peer.ended.wait(WAIT_S) for peer in peers)
        assert not coordinator.join().aborted
    assert [error.code for error in peers[2].log.errors] == ["overflow", "overflow"]
    assert all(np.isfinite(np.asarray(peer.log.final)).all() for peer in peers)


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_model_that_f16_cannot_hold_is_refused_before_anybody_comes(tmp_path: Path, command: str) -> None:
    """65,504 is the largest number of f16; 65,520 and more become infinite."""
    model = tiny_model()
    model.tensors["body.weight"][7] = 65_520.0
    chosen = fields(tmp_path / "run", model.write(tmp_path / "i.safetensors"), algorithm="fedavg", encoding="f16")
    found = run_command(main, command, "--config", str(config_file(tmp_path / "run.toml", chosen)))
    assert found.is_one_clear_line, found
    assert "65520" in found.complaint
    assert "f16" in found.complaint


@pytest.mark.slow
def test_participants_that_train_end_with_models_whose_shared_values_are_f16(tmp_path: Path) -> None:
    reference = run_reference(tmp_path / "inline", small_run("fedap"))
    run = coordinator_file(tmp_path, reference, encoding="f16")
    made = run_to_its_end(tmp_path, reference, run)
    for one in made.values():
        assert has_finite_model(one.personal)
        for name, bits in tensor_bits(one.personal).items():
            if not name.startswith("bn"):
                values = np.frombuffer(bits, dtype=np.float32)
                assert np.array_equal(halved(values), values), name
