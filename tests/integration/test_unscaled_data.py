"""Data in raw units, such as counts of a converter: running variances are squares of these, and no member refuses them.

Signals of four classes, 40 values each, whose standard deviation is about 1 before they are multiplied.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coordinator.cli import main as coordinator
from fedap_core.errors import InvalidInput
from scripts.engines.processes.children import ChildFailed
from scripts.engines.processes.run import ProcessOptions, run_processes
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings
from tests.integration.test_processes_engine import require_equal, run_both
from tests.support.cohorts import clients_of, run_command, run_small, small_run


def signals(folder: Path, *, times: float, sites: int = 1, others: float | None = None) -> RunSettings:
    """Settings of three rounds of FedAvg on signals in an npz file. others: the factor of every site but the first."""
    rng = np.random.default_rng(0)
    labels, site = rng.integers(0, 4, 240), np.arange(240) % sites
    x = np.sin(np.linspace(0, 6.28, 40) * (1 + labels[:, None])) + rng.normal(0, 1, (240, 40))
    x *= np.where(site == 0, times, others or times)[:, None]
    np.savez(folder / "signals.npz", x=x.astype(np.float32), y=labels, site=site, allow_pickle=False)
    cohort = {"data": str(folder / "signals.npz"), "data_options": {}, "partition": "iid" if sites == 1 else "site"}
    return small_run("fedavg", cohort=cohort, model="har-cnn")


@pytest.mark.parametrize("algorithm", ["fedavg", "fedap"])
def test_counts_of_a_converter_give_the_same_run_with_either_engine(algorithm: str, tmp_path: Path) -> None:
    """A deviation of 4,000 is a variance of 16 million in the first layer. FedAvg sends it every round; FedAP's anchor
    has it."""
    settings = signals(tmp_path, times=4000.0).model_copy(update={"algorithm": algorithm})
    require_equal(*run_both(tmp_path, settings))


def test_an_anchor_that_every_member_would_refuse_ends_the_run_before_anybody_waits(tmp_path: Path) -> None:
    settings = signals(tmp_path, times=1e8).model_copy(update={"algorithm": "fedap"})
    with pytest.raises(ChildFailed, match=r"anchor\.file: got a value of size .*: members refuse larger ones"):
        run_processes(settings, clients_of(settings), ProcessOptions(root=tmp_path))


def test_a_run_whose_models_were_refused_ends_in_a_sentence_and_leaves_a_usable_folder(tmp_path: Path) -> None:
    """The first of three sites measures in other units: the mean of all running variances is far from its own. Its last
    score is of the model it trained itself, and the coordinator says so."""
    settings = signals(tmp_path, times=1.0, sites=3, others=1000.0)
    cohort = clients_of(settings)
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"scores of round 1: got 2, expected 3\. .*says why in its log, in "):
            run_processes(settings, cohort, ProcessOptions(root=tmp_path))
    ended = RunFolder(tmp_path, settings).path / "federation" / "coordinator"
    shown = run_command(coordinator, "status", str(ended))
    assert "Last evaluation: round 3, mean test accuracy of the delivered model and the model after" in shown.out
    folder = run_small(tmp_path, settings, cohort=cohort)
    assert [record["round"] for record in folder.rounds()] == [0, 1, 2]
    assert "order.refused" in "".join(log.read_text() for log in folder.path.glob("federation/logs/*.log"))
