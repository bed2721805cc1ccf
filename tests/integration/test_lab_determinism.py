"""Claims about equal bits: the same seed gives the same models, in any order of work and with any number of workers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.metrics import Evaluation
from fedap_core.strategies import Measure
from participant.record.model_file import read_spec
from participant.training.local import LocalReport
from scripts.engines.base import EngineOptions
from scripts.engines.inline import InlineFederation
from scripts.engines.pool import Chosen, InlinePool, make_clients
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings
from tests.support.cohorts import clients_of, model_bits, numbers_of, run_small, small_run

ALGORITHMS = ("fedap", "f-fedap", "fedavg", "base")


class LastFirst:
    """A pool whose clients work in reverse order; answers and rows stay in the cohort's order."""

    def __init__(self, pools: Sequence[InlinePool]) -> None:
        self._pools = pools

    @property
    def rows(self) -> Sequence[Float32Array]:
        return [row for pool in self._pools for row in pool.rows]

    def measure(self, anchor: Path, what: Measure) -> list[BnStats]:
        answers = [pool.measure(anchor, what) for pool in reversed(self._pools)]
        return [one for answer in reversed(answers) for one in answer]

    def train(self, round_no: int, what: Measure, chosen: Chosen = None) -> list[LocalReport]:
        assert chosen is None
        answers = [pool.train(round_no, what) for pool in reversed(self._pools)]
        return [one for answer in reversed(answers) for one in answer]

    def deliver(self, round_no: int, chosen: Chosen = None, entering: Sequence[int] = ()) -> None:
        assert chosen is None
        assert not entering
        for pool in reversed(self._pools):
            pool.deliver(round_no)

    def evaluate(self, split: str, model: str, round_no: int, chosen: Chosen = None) -> list[Evaluation]:
        assert chosen is None
        answers = [pool.evaluate(split, model, round_no) for pool in reversed(self._pools)]
        return [one for answer in reversed(answers) for one in answer]

    def save(self, folder: Path, round_no: int) -> None:
        for pool in reversed(self._pools):
            pool.save(folder, round_no)

    def load(self, folder: Path) -> None:
        for pool in reversed(self._pools):
            pool.load(folder)

    def close(self) -> None:
        self._pools = ()


def run_last_first(root: Path, settings: RunSettings, *, initial: Path, anchor: Path | None) -> RunFolder:
    """The rounds of a run by a pool that starts with the last client."""
    cohort = clients_of(settings)
    plan = settings.local_plan()
    spec = read_spec(initial)
    pools = [
        InlinePool(make_clients(cohort, [one], start=initial, plan=plan, device="cpu", buffers=[None]), spec)
        for one in cohort.clients
    ]
    folder = RunFolder(root, settings)
    folder.path.mkdir(parents=True)
    tensors = plan.strategy.travelling(spec)
    InlineFederation(settings, cohort, folder, LastFirst(pools), EngineOptions(root=root), tensors).run(0, anchor)
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that several tests read."""
    return tmp_path_factory.mktemp("inline")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_worker_processes_give_the_bits_of_one(algorithm: str, root: Path, tmp_path: Path) -> None:
    settings = small_run(algorithm)
    one, two = run_small(root, settings), run_small(tmp_path, settings, workers=2)
    assert len(model_bits(one)) == 3
    assert model_bits(one) == model_bits(two)
    assert numbers_of(one) == numbers_of(two)
    assert (one.path / "mixing.json").read_bytes() == (two.path / "mixing.json").read_bytes()


@pytest.mark.parametrize("algorithm", ["fedap", "f-fedap"])
def test_order_in_which_clients_work_changes_no_bit(algorithm: str, root: Path, tmp_path: Path) -> None:
    settings = small_run(algorithm)
    usual = run_small(root, settings)
    initial = root / "initial" / f"{settings.initial_identity}.safetensors"
    anchor = root / "anchors" / f"{settings.anchor_identity}.safetensors" if settings.uses_anchor else None
    turned = run_last_first(tmp_path, settings, initial=initial, anchor=anchor)
    assert model_bits(turned) == model_bits(usual)
    assert numbers_of(turned) == numbers_of(usual)


def test_more_workers_than_clients_give_the_bits_of_one(root: Path, tmp_path: Path) -> None:
    settings = small_run("fedap")
    assert model_bits(run_small(tmp_path, settings, workers=5)) == model_bits(run_small(root, settings))


def test_another_seed_gives_other_clients_and_other_models(root: Path) -> None:
    """Guards the tests above: were the models all alike, equality would say nothing."""
    first, second = small_run("fedap"), small_run("fedap", seed=1)
    bits, others = model_bits(run_small(root, first)), model_bits(run_small(root, second))
    assert all(bits[name] != others[name] for name in bits)
    assert bits["c1"] != bits["c2"]
    mine, theirs = clients_of(first).clients[0].splits["train"], clients_of(second).clients[0].splits["train"]
    assert mine.tolist() != theirs.tolist()


def test_all_algorithms_of_a_comparison_start_from_one_file_and_share_one_anchor(root: Path) -> None:
    for algorithm in ("fedap", "d-fedap", "fedbn"):
        run_small(root, small_run(algorithm, rounds=1, seed=2))
    assert len(list((root / "initial").glob("*-s2-*"))) == 1
    assert len(list((root / "anchors").glob("*-s2-*"))) == 1
