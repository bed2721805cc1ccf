"""The Ray engine leaves the run folder of the inline engine bit for bit, with any number of actors and after deaths."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from scripts.engines import inline, ray_cluster
from scripts.engines.base import EngineOptions
from scripts.run.cohort import Cohort
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings
from tests.support.cohorts import clients_of, model_bits, numbers_of, run_small, small_run

FIVE = {"clients": 5, "data_options": {"samples": "400", "classes": "3", "shape": "1x16x16"}}


@pytest.fixture
def local() -> Iterator[None]:
    yield
    ray_cluster.load_ray().shutdown()


def require_equal(one: RunFolder, other: RunFolder) -> None:
    assert model_bits(one) == model_bits(other)
    assert numbers_of(one) == numbers_of(other)


@pytest.mark.slow
@pytest.mark.usefixtures("local")
def test_any_number_of_actors_leaves_the_inline_engines_run_folder(tmp_path: Path) -> None:
    """Three actors for five clients, one alone; an algorithm that keeps a model at home; rounds without everybody, and
    so few of them that somebody is never drawn."""
    for number, settings in enumerate(
        [
            small_run("fedap", cohort=FIVE),
            small_run("ditto", cohort=FIVE),
            small_run("fedap", rounds=5, cohort=FIVE, participation=0.4, encoding="int8", options={"neighbours": 2}),
            small_run("fedbn", rounds=2, cohort=FIVE, participation=0.4),
        ]
    ):
        options = EngineOptions(root=tmp_path / f"ray {number}", workers=3)
        found = ray_cluster.run_ray(settings, clients_of(settings), options)
        require_equal(found, run_small(tmp_path / f"inline {number}", settings))


@pytest.mark.slow
@pytest.mark.usefixtures("local")
def test_a_run_continues_to_the_same_bits_after_an_actor_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds are saved as they end; an actor is killed after the third, and two pools have been made in the end."""
    monkeypatch.setattr(inline, "SAVE_EVERY_S", 0.0)
    settings, made, pools = small_run("ditto", rounds=6, cohort=FIVE), ray_cluster.open_pool, []

    def open_and_note(
        settings: RunSettings, cohort: Cohort, start: Path, options: EngineOptions
    ) -> ray_cluster.RayPool:
        pools.append(made(settings, cohort, start, options))
        return pools[-1]

    def kill_once(round_no: int, _accuracy: float | None) -> None:
        if round_no == 3 and len(pools) == 1:
            ray_cluster.load_ray().kill(pools[0].actors[0])

    monkeypatch.setattr(ray_cluster, "open_pool", open_and_note)
    options = EngineOptions(root=tmp_path / "ray", workers=2, on_round=kill_once)
    folder = ray_cluster.run_ray(settings, clients_of(settings), options)
    assert len(pools) == 2
    require_equal(folder, run_small(tmp_path / "inline", settings))


@pytest.mark.slow
def test_a_run_continues_to_the_same_bits_after_a_node_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster of two nodes with one core each; the second is removed after the third round."""
    monkeypatch.setattr(inline, "SAVE_EVERY_S", 0.0)
    ray = ray_cluster.load_ray()
    cluster = pytest.importorskip("ray.cluster_utils").Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        second = cluster.add_node(num_cpus=1)
        gone: list[int] = []
        cluster.wait_for_nodes()
        settings = small_run("fedap", rounds=6, cohort=FIVE)

        def remove_once(round_no: int, _accuracy: float | None) -> None:
            if round_no == 3 and not gone:
                gone.append(len(ray.nodes()))
                cluster.remove_node(second, allow_graceful=False)

        options = EngineOptions(root=tmp_path / "ray", ray_address=cluster.address, on_round=remove_once)
        folder = ray_cluster.run_ray(settings, clients_of(settings), options)
        assert gone == [2]
        require_equal(folder, run_small(tmp_path / "inline", settings))
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_missing_extra_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    settings = small_run("fedap", cohort=FIVE)
    with pytest.raises(InvalidInput, match=r"pip install 'fedap\[ray\]'"):
        ray_cluster.run_ray(settings, clients_of(settings), EngineOptions(root=tmp_path))


def test_a_negative_share_of_gpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="four actors on one GPU"):
        EngineOptions(root=tmp_path, gpus_per_actor=-1.0)
