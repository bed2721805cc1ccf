"""What runs cost: bytes that were counted, bytes that are computed and say so, and time that says whose it was."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fedap_core.preprocessing import IMAGE_8BIT
from participant.data import DataOptions, chest, har, load_dataset
from participant.record.model_file import make_initial, write_model
from scripts.report.page.costs import bytes_chart, computed_note, time_chart
from scripts.report.page.finding import find_runs
from scripts.report.page.lab_folder import read_lab_run
from scripts.report.page.study import Study, make_study
from scripts.report.traffic import sample_shape
from scripts.run.records import ParticipantBytes
from scripts.run.settings import CohortSettings, RunSettings
from tests.support.report_runs import CLASSES, COHORT, write_run

ROUNDS = [[50, 60, 70], [60, 70, 80]]
PER_ROUND, ONCE = 475_152, 239_112


def har_run(root: Path, algorithm: str = "fedap", **changes: Any) -> Path:  # noqa: ANN401
    return write_run(root, algorithm, ROUNDS, **{"cohort": {"data": "har"}, "model": "har-cnn", **changes})


def study_of(root: Path) -> Study:
    return make_study(find_runs([root]))


def test_bytes_that_nobody_counted_are_computed_from_the_layout(tmp_path: Path) -> None:
    """har-cnn on 9 x 128 with two classes: 9·16·9+16 + 16·32·9+32 + 832·64+64 + 64·2+2 = 59,394 shared values, 192 of
    BN. FedAP: 8 bytes a round for each shared one; once 4 for each of 59,586 down, 16 for each of 48 channels up."""
    assert read_lab_run(har_run(tmp_path)).computed == ParticipantBytes(up=PER_ROUND / 2, down=PER_ROUND / 2, once=ONCE)


def test_chart_and_note_say_that_bytes_are_computed(tmp_path: Path) -> None:
    """Two rounds and once: 2 x 475,152 + 239,112 = 1,189,416 bytes."""
    har_run(tmp_path)
    study = study_of(tmp_path)
    chart = bytes_chart(study)
    assert chart is not None
    assert chart.rows == (("FedAP", "238\u202fkB", "238\u202fkB", "1.2\u202fMB"),)
    assert chart.note.startswith("Bytes are computed, not measured.")


def test_counted_bytes_are_never_replaced_by_computed_ones(tmp_path: Path) -> None:
    har_run(tmp_path, wire=(1_000, 2_000))
    har_run(tmp_path, "fedbn")
    study = study_of(tmp_path)
    chart = bytes_chart(study)
    assert chart is not None
    assert chart.rows[1] == ("FedAP", "1.0\u202fkB", "2.0\u202fkB", "6.0\u202fkB")
    assert computed_note(study) == "Bytes of FedBN are computed, not measured."


def test_layout_comes_from_a_model_file_beside_the_run(tmp_path: Path) -> None:
    """40 steps become 16, then 4: fc1 has 128·64+64 values instead of 832·64+64, and there are 3 channels, not 9."""
    folder = write_run(tmp_path, "fedbn", ROUNDS, model="har-cnn")
    settings = RunSettings(cohort=CohortSettings(**COHORT), model="har-cnn", algorithm="fedbn")
    spec, state = make_initial("har-cnn", input_shape=(3, 40), classes=CLASSES, preprocessing=IMAGE_8BIT, seed=0)
    assert read_lab_run(folder).computed is None
    write_model(tmp_path / "initial" / f"{settings.initial_identity}.safetensors", spec, state)
    shared = (3 * 16 * 9 + 16) + (16 * 32 * 9 + 32) + (128 * 64 + 64) + (64 * 2 + 2)
    assert read_lab_run(folder).computed == ParticipantBytes(up=4 * shared, down=4 * shared, once=0)


@pytest.mark.parametrize(
    "changes",
    [{"model": "of-tomorrow"}, {"model": "this:model"}, {"mode": "continuous"}, {"a_setting_of_tomorrow": 1}],
)
def test_what_cannot_be_computed_is_left_out(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert read_lab_run(har_run(tmp_path, **changes)).computed is None


def test_code_that_a_folder_names_is_not_run(tmp_path: Path) -> None:
    assert read_lab_run(har_run(tmp_path, "this:Strategy")).computed is None
    assert "this" not in sys.modules


def test_shapes_that_are_known_are_those_of_the_data_sets() -> None:
    assert sample_shape(CohortSettings(data="har")) == (har._CHANNELS, har._WINDOW)
    assert sample_shape(CohortSettings(data="chest")) == (1, chest._SIZE, chest._SIZE)
    assert sample_shape(CohortSettings(data="watch")) == load_dataset("watch", DataOptions()).x.shape[1:]
    assert sample_shape(CohortSettings(data="organamnist")) == (1, 28, 28)
    assert sample_shape(CohortSettings(data="organamnist", data_options={"size": "64"})) is None
    assert sample_shape(CohortSettings(data="synthetic")) is None


def test_time_says_that_it_is_the_machines(tmp_path: Path) -> None:
    har_run(tmp_path)
    chart = time_chart(study_of(tmp_path))
    assert chart is not None
    assert chart.note == "Wall-clock time; the machine may have done other work as well."
