"""Claims about runs of many clients: clients that lie in files and a W that is not whole change no bit."""

from __future__ import annotations

import gc
import math
import weakref
from pathlib import Path
from typing import Any

import pytest

from fedap_core.errors import InvalidInput
from fedap_core.strategies import STRATEGIES
from participant.training.local import LocalClient
from scripts.engines import inline, stored_pool
from scripts.engines.base import EngineOptions
from scripts.engines.inline import run_inline
from scripts.engines.pool import make_clients
from scripts.experiments.sweep import SweepOptions
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings
from tests.support.cohorts import clients_of, model_bits, numbers_of, run_small, small_run

EIGHT = {"clients": 8, "data_options": {"samples": "560", "classes": "3", "shape": "1x16x16"}}
NO_MEMORY = 1e-9


def run_stored(root: Path, settings: RunSettings, *, workers: int = 1) -> RunFolder:
    options = EngineOptions(root=root, workers=workers, memory_gb=NO_MEMORY)
    return run_inline(settings, clients_of(settings), options)


def require_equal(one: RunFolder, other: RunFolder) -> None:
    assert model_bits(one) == model_bits(other)
    assert numbers_of(one) == numbers_of(other)


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("ditto", {}),
        ("apfl", {"participation": 0.5}),
        ("fedbn", {"participation": 0.13}),
        ("scaffold", {}),
        ("fedap-plus", {"participation": 0.4, "options": {"neighbours": 3, "final_self_weight": 0.2}}),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_clients_that_lie_in_files_have_the_bits_of_those_in_memory(
    algorithm: str, more: dict[str, object], workers: int, tmp_path: Path
) -> None:
    """With a share of 0.13, one of eight is drawn a round: at least four never train."""
    settings = small_run(algorithm, rounds=4, cohort=EIGHT, **more)
    require_equal(run_stored(tmp_path / "files", settings, workers=workers), run_small(tmp_path / "memory", settings))


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_w_by_nearest_members_has_the_bits_of_the_whole_one(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small_run("fedap", rounds=5, cohort=EIGHT, participation=share, options={"neighbours": 2})
    whole = run_small(tmp_path / "whole", settings)
    monkeypatch.setattr(inline, "WHOLE_UP_TO", 4)
    monkeypatch.setattr(inline, "MADE_IN_MEMORY", 0)
    nearest = run_stored(tmp_path / "nearest", settings)
    assert nearest.read_nearest() is not None
    require_equal(nearest, whole)


def test_a_run_with_nearest_members_continues_from_its_saved_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "WHOLE_UP_TO", 4)
    monkeypatch.setattr(inline, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(inline, "SAVING_SHARE", math.inf)
    settings = small_run("fedap", rounds=5, cohort=EIGHT, participation=0.3, options={"neighbours": 2})

    def stop(round_no: int, _accuracy: float | None) -> None:
        if round_no == 3:
            raise KeyboardInterrupt

    options = EngineOptions(root=tmp_path / "twice", memory_gb=NO_MEMORY, on_round=stop)
    with pytest.raises(KeyboardInterrupt):
        run_inline(settings, clients_of(settings), options)
    assert RunFolder(tmp_path / "twice", settings).saved_round() == 2
    require_equal(run_stored(tmp_path / "twice", settings), run_stored(tmp_path / "once", settings))


def test_a_whole_w_of_too_many_clients_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "LARGEST_WHOLE", 4)
    with pytest.raises(InvalidInput, match="neighbours=32"):
        run_small(tmp_path, small_run("fedap", cohort=EIGHT))


def test_memory_must_be_a_number_above_zero(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="gigabytes"):
        EngineOptions(root=tmp_path, memory_gb=0.0)


def test_runs_at_once_share_the_memory(tmp_path: Path) -> None:
    assert SweepOptions(root=tmp_path, jobs=2, memory_gb=3.0).memory_bytes == 1_500_000_000
    assert SweepOptions(root=tmp_path, jobs=2).memory_bytes == EngineOptions(root=tmp_path).memory_bytes // 2


@pytest.mark.parametrize("algorithm", sorted(STRATEGIES))
def test_as_many_vectors_of_the_models_size_are_kept_as_the_algorithm_says(algorithm: str, tmp_path: Path) -> None:
    """The estimate of what clients take counts them; options are those with the most vectors."""
    most = {"fedap-plus": {"average_last": 1.0, "average_after": 0, "learning": 0.1}}
    settings = small_run(algorithm, rounds=4, options=most.get(algorithm, {}))
    start = run_small(tmp_path, settings).path.parent / "initial"
    plan, cohort = settings.local_plan(), clients_of(settings)
    (client,) = make_clients(
        cohort, cohort.clients[:1], start=next(start.glob("*.safetensors")), plan=plan, device="cpu", buffers=[None]
    )
    for round_no in plan.rounds:
        client.deliver(round_no)
        client.train(round_no)
    client.deliver(plan.rounds.stop)
    size = max(tensor.numel() for tensor in client.kept().values()) if client.kept() else 0
    vectors = [one for key, one in client.kept().items() if key.startswith("vector/") and one.numel() > 1_000]
    assert len(vectors) == plan.strategy.kept_vectors
    assert all(one.numel() == size for one in vectors)


@pytest.mark.parametrize("algorithm", ["fedap", "fedap-plus"])
def test_clients_in_files_are_freed_without_a_garbage_collection(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Models are few and large: they would fill the memory before enough objects are made to start a collection."""
    alive: weakref.WeakSet[LocalClient] = weakref.WeakSet()
    most = 0

    class Counted(LocalClient):
        def __init__(self, name: str, **options: Any) -> None:  # noqa: ANN401 - whatever a client is made from
            nonlocal most
            super().__init__(name, **options)
            alive.add(self)
            most = max(most, len(alive))

    monkeypatch.setattr(stored_pool, "LocalClient", Counted)
    gc.collect()
    gc.disable()
    try:
        run_stored(tmp_path, small_run(algorithm, rounds=2, cohort=EIGHT))
    finally:
        gc.enable()
    assert 0 < most <= 2, "the client that works, and the one before it"
    assert not alive
