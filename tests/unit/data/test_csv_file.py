"""Users' own tables: label, group and site columns, constant scaling, and errors that name row and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedap_core.errors import InvalidInput
from fedap_core.nn.samples import apply
from participant.data import DataOptions, Dataset, load_dataset

TABLE = "age,label,ward,pulse,patient\n30,sick,B,80,7\n40,well,A,70,3\n50,sick,B,90,7\n"


def loaded(folder: Path, text: str, **options: str) -> Dataset:
    (folder / "table.csv").write_text(text, encoding="utf-8")
    return load_dataset(str(folder / "table.csv"), DataOptions(options=options))


def test_columns_become_inputs_labels_groups_and_sites(tmp_path: Path) -> None:
    dataset = loaded(tmp_path, TABLE, group="patient", site="ward")
    assert dataset.x.tolist() == [[[30.0, 80.0]], [[40.0, 70.0]], [[50.0, 90.0]]]
    assert dataset.x.dtype == np.float32
    assert dataset.classes == ("sick", "well")
    assert dataset.y.tolist() == [0, 1, 0]
    assert dataset.group.tolist() == [1, 0, 1]
    assert dataset.site is not None
    assert (dataset.site.tolist(), dataset.site_names) == ([1, 0, 1], ("A", "B"))
    assert dataset.name == "table"


def test_scaling_is_by_the_constants_the_user_states(tmp_path: Path) -> None:
    dataset = loaded(tmp_path, TABLE, ignore="ward,patient", scale="0.01", offset="-1")
    assert (dataset.preprocessing.scale, dataset.preprocessing.offset) == (0.01, -1.0)
    assert dataset.x[0].tolist() == [[30.0, 80.0]]
    assert dataset.group.tolist() == [0, 1, 2]


def test_columns_can_be_shaped_into_channels_and_time(tmp_path: Path) -> None:
    dataset = loaded(tmp_path, "a,b,c,d,y\n1,2,3,4,0\n5,6,7,8,1\n", label="y", shape="2x2")
    assert dataset.x[1].tolist() == [[5.0, 6.0], [7.0, 8.0]]


def test_number_labels_sort_as_numbers(tmp_path: Path) -> None:
    dataset = loaded(tmp_path, "a,label\n1,10\n2,9\n3,-1\n")
    assert dataset.classes == ("-1", "9", "10")
    assert dataset.y.tolist() == [2, 1, 0]


def test_codes_that_only_look_like_numbers_stay_text(tmp_path: Path) -> None:
    text = "a,label,patient\n1,x,007\n2,y,7\n3,x,--7\n4,y,99999999999999999999\n"
    assert len(np.unique(loaded(tmp_path, text, group="patient").group)) == 4


def test_stated_classes_keep_their_order_for_hospitals_that_lack_one(tmp_path: Path) -> None:
    dataset = loaded(tmp_path, "a,label\n1,2\n2,0\n", classes="0,1,2")
    assert dataset.classes == ("0", "1", "2")
    assert dataset.y.tolist() == [2, 0]
    with pytest.raises(InvalidInput, match="got 3, expected one of 0, 1"):
        loaded(tmp_path, "a,label\n1,3\n2,0\n", classes="0,1")


def test_another_separator_and_a_byte_order_mark_are_understood(tmp_path: Path) -> None:
    dataset = loaded(tmp_path, "\ufeffa;label\n1;0\n2;1\n", separator=";")
    assert dataset.x.tolist() == [[[1.0]], [[2.0]]]


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        (TABLE, {"label": "lable"}, "Did you mean 'label'"),
        (TABLE, {}, "row 1, column 'ward': got B, expected a finite number"),
        ("a,label\n1,0\n,1\n", {}, "row 2, column 'a': got nothing"),
        ("a,label\n1,0\nnan,1\n", {}, "row 2, column 'a': got nan"),
        ("a,label\n1e39,0\n1,1\n", {}, "row 1, column 'a': got 1e39"),
        ("a,label\n1,0\n1\n", {}, "row 2: got 1 values, expected 2"),
        ("a,label\n", {}, "some rows"),
        ("", {}, "some rows"),
        ("a,a,label\n1,2,0\n", {}, "distinct columns"),
        ("label\n0\n", {}, "at least one column of numbers"),
        ("a,b,label\n1,2,0\n", {"shape": "3x1"}, "2 values"),
        (TABLE, {"labels": "x"}, "Did you mean 'label'"),
        (TABLE, {"separator": ";;"}, "one character"),
        (TABLE, {"ignore": "ward,patient", "scale": "0"}, "other than 0"),
    ],
)
def test_tables_outside_the_contract_are_refused(
    text: str, options: dict[str, str], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=complaint) as caught:
        loaded(tmp_path, text, **options)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"absent.csv: got no such file"):
        load_dataset(str(tmp_path / "absent.csv"))
    (tmp_path / "binary.csv").write_bytes(b"a,label\n\xff\xfe,1\n")
    with pytest.raises(InvalidInput, match=r"binary.csv: got unreadable text"):
        load_dataset(str(tmp_path / "binary.csv"))


def test_every_column_has_constants_of_its_own(tmp_path: Path) -> None:
    """age 30, pulse 80: (30 - 50) / 20 = -1 and (80 - 70) / 10 = 1."""
    dataset = loaded(tmp_path, TABLE, columns="age,pulse", center="50,70", spread="20,10")
    assert dataset.x[0].tolist() == [[30.0, 80.0]]
    inputs = apply(dataset.preprocessing, torch.from_numpy(dataset.x.copy()))
    assert inputs[0].tolist() == [[-1.0, 1.0]]
    assert dataset.preprocessing != loaded(tmp_path, TABLE, columns="age,pulse", spread="20,10").preprocessing


def test_constants_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "scaling.csv").write_text("column,center,spread,unit\npulse,70,10,1/min\nage,50,0.1,years\n")
    dataset = loaded(tmp_path, TABLE, scaling=str(tmp_path / "scaling.csv"))
    assert dataset.x[0].tolist() == [[80.0, 30.0]]
    assert dataset.preprocessing.scale == (0.1, 10.0)
    assert dict(dataset.preprocessing.recipe) == {"columns": "pulse,age", "center": "70.0,50.0", "spread": "10.0,0.1"}


def test_another_hospitals_table_is_read_by_the_recipe_of_the_model_file(tmp_path: Path) -> None:
    first = loaded(tmp_path, TABLE, columns="age,pulse", center="50,70", spread="20,10")
    (tmp_path / "other.csv").write_text("pulse,name,label,age\n60,Q,well,20\n")
    options = DataOptions(recipe=dict(first.preprocessing.recipe))
    other = load_dataset(str(tmp_path / "other.csv"), options)
    assert other.x.tolist() == [[[20.0, 60.0]]]
    assert other.preprocessing == first.preprocessing
    (tmp_path / "other.csv").write_text("pulse,label\n60,well\n")
    with pytest.raises(InvalidInput, match=r"column of .*other.csv: got age"):
        load_dataset(str(tmp_path / "other.csv"), options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"columns": "age,pulse", "center": "50"}, "2 finite numbers"),
        ({"columns": "age,pulse", "spread": "1,x"}, "2 finite numbers"),
        ({"columns": "age,pulse", "spread": "1,0"}, "0 for column 'pulse'"),
        ({"columns": "age,pulse", "spread": "1,1", "scale": "2"}, "one of the two pairs"),
        ({"columns": "age,pulse", "spread": "1,1", "shape": "2x1"}, "no shape"),
        ({"columns": "age,puls"}, "Did you mean 'pulse'"),
        ({"scaling": "nowhere.csv"}, "nowhere.csv: got no such file"),
        ({"scaling": "nowhere.csv", "columns": "age"}, "no such option together with scaling"),
    ],
)
def test_wrong_constants_are_refused(options: dict[str, str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        loaded(tmp_path, TABLE, **options)
