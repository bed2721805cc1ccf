"""`import fedap`: from import to a plot, an algorithm of one's own, arrays and tables that say what folders say."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import fedap
from fedap_core.strategies import STRATEGIES
from fedap_core.strategies.fedap import FedAp
from tests.architecture.sources import ROOT
from tests.support.cohorts import DATA_OPTIONS, QUICK_ANCHOR
from tests.support.report_runs import write_comparison, write_run

SMALL: dict[str, Any] = {
    "cohort": {"data_options": DATA_OPTIONS, "partition": "iid", "clients": 3},
    "anchor": QUICK_ANCHOR,
    "batch_size": 16,
    "quiet": True,
    "jobs": 1,
}


@dataclass(frozen=True, kw_only=True)
class HalfAlone(FedAp):
    """FedAP that listens less to others."""

    name: ClassVar[str] = "half-alone"
    self_weight: float = 0.75


@pytest.fixture(autouse=True)
def _table_stays_as_it_was() -> Iterator[None]:
    before = dict(STRATEGIES)
    yield
    STRATEGIES.clear()
    STRATEGIES.update(before)


def test_comparison_with_an_algorithm_of_your_own_is_run_read_and_plotted(tmp_path: Path) -> None:
    """The same runs read from disk give the same figures; W of one's own algorithm has its weight on oneself."""
    found = fedap.compare(
        "synthetic", algorithms=["base", HalfAlone, FedAp(self_weight=0.25)], rounds=2, out=tmp_path, **SMALL
    )
    assert found.names == ["Base", "FedAP λ=0.25", "HalfAlone"]
    assert (found.seeds, len(found.clients)) == ([0], 3)
    assert found.accuracy("HalfAlone").shape == (2, 3)
    assert found.rounds("HalfAlone") == [1, 2]
    own, given = found.mixing("HalfAlone"), found.mixing("FedAP λ=0.25")
    assert own is not None
    assert given is not None
    np.testing.assert_allclose(own.diagonal(), 0.75)
    np.testing.assert_allclose(given.diagonal(), 0.25)
    again = fedap.read(tmp_path)
    np.testing.assert_array_equal(again.accuracy("HalfAlone"), found.accuracy("HalfAlone"))
    assert str(again) == str(found)
    found.plot().savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000
    assert "HalfAlone" in found.report(tmp_path / "report.html").read_text(encoding="utf-8")


def test_results_on_disk_are_arrays_differences_and_rows(tmp_path: Path) -> None:
    """Wards gain 30, 3 and -20 points: 13 / 3 on average; three clients, two rounds, three algorithms: 18 rows."""
    found = fedap.read(write_comparison(tmp_path))
    assert found.names == ["Base", "FedAvg", "FedAP"]
    np.testing.assert_array_equal(found.accuracy("FedAP"), [[0.5, 0.7, 0.7], [0.9, 0.83, 0.7]])
    gain = found.difference("FedAP", "Base")
    assert gain is not None
    assert (gain.mean, gain.pairs) == pytest.approx((0.13 / 3, 3))
    assert gain.verdict == "not told apart"
    assert found.headline("FedAP").worst == 0.7
    rows = list(found.rows())
    assert len(rows) == 18
    assert rows[-1]["accuracy"] == 0.7
    frame = found.frame()
    assert frame.groupby("algorithm").size().to_dict() == {"Base": 6, "FedAvg": 6, "FedAP": 6}
    assert "| Base |" in str(found)
    assert "worse off than alone" in str(found)


def test_wrong_names_are_answered_with_those_there_are(tmp_path: Path) -> None:
    write_run(tmp_path, "fedap", [[50, 60, 70]])
    found = fedap.read(tmp_path)
    with pytest.raises(fedap.InvalidInput, match="expected one of FedAP"):
        found.accuracy("FedBN")
    with pytest.raises(fedap.InvalidInput, match="got 7, expected one of 0"):
        found.accuracy("FedAP", seed=7)
    with pytest.raises(fedap.InvalidInput, match="learning_rate"):
        fedap.run("fedap", "synthetic", out=tmp_path, learning_rate=-1.0, model="lenet5")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fedap.compare("synthetic", algorithms=None), "algorithms: got None, expected a list"),  # type: ignore[arg-type]
        (lambda: fedap.compare("synthetic", algorithms=[3]), "a subclass of fedap.Strategy"),  # type: ignore[list-item]
        (lambda: fedap.compare("synthetic", algorithms="fedpa"), "algorithm: got fedpa"),
        (lambda: fedap.compare("synthetic", seeds=1.5), "seeds: got 1.5, expected a list"),  # type: ignore[arg-type]
        (lambda: fedap.compare("synthetic", cohort=["clients"]), "cohort: got .'clients'., expected a mapping"),  # type: ignore[arg-type]
        (lambda: fedap.compare("synthetic", jobs="two"), "jobs: got two, expected a whole number"),  # type: ignore[arg-type]
        (lambda: fedap.compare("synthetic", out=None), "out: got None, expected a folder"),  # type: ignore[arg-type]
        (lambda: fedap.compare(Path("nowhere.npz"), algorithms="fedavg"), "nowhere.npz: got no such file"),
        (lambda: fedap.read(None), "folder: got None"),  # type: ignore[arg-type]
        (lambda: fedap.read("runs", where=["alpha"]), "where: got .'alpha'., expected a mapping"),  # type: ignore[arg-type]
        (lambda: fedap.register(int), "a subclass of fedap.Strategy"),  # type: ignore[arg-type]
    ],
)
def test_values_of_a_wrong_type_are_refused_in_a_sentence(call: Callable[[], object], words: str) -> None:
    with pytest.raises(fedap.InvalidInput, match=words):
        call()


def test_name_of_a_known_algorithm_cannot_be_taken() -> None:
    with pytest.raises(fedap.InvalidInput, match="a name that is not taken"):
        fedap.register(HalfAlone, "fedavg")
    with pytest.raises(fedap.InvalidInput, match="without colon"):
        fedap.register(HalfAlone, "my:own")
    assert fedap.register(HalfAlone) is HalfAlone
    assert "half-alone" in fedap.algorithms()


def test_without_pandas_a_frame_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path, "fedap", [[50, 60, 70]])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fedap.InvalidInput, match="pip install pandas"):
        fedap.read(tmp_path).frame()


@pytest.mark.slow
def test_notebook_runs_from_top_to_bottom_and_shows_a_plot(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "docs/notebook.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("rounds=20", "rounds=2")  # what is shown matters here, not how good it is
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=900, resources=resources).execute(env={"PYTHONPATH": str(ROOT)})
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in shown) == 3
    assert not any(output.output_type == "error" for output in shown)


def test_notebook_is_kept_without_outputs() -> None:
    described = json.loads((ROOT / "docs/notebook.ipynb").read_text(encoding="utf-8"))
    code = [cell for cell in described["cells"] if cell["cell_type"] == "code"]
    assert code
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)
