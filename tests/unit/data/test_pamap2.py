"""PAMAP2 from files of its exact format: columns, activities, holes, windows and the classes kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.data.base import DataOptions
from participant.data.pamap2 import load, read_segments, whole_parts
from tests.support.datafiles import pamap2_rows, write_pamap2


def test_windows_are_the_27_named_columns_in_constant_units(tmp_path: Path) -> None:
    """Column k of the file (from 1) holds the value k. Hand: acc ±16 g is 5-7, gyroscope 11-13, magnetometer 14-16;
    chest and ankle lie 17 and 34 further on. Units: acc / 9.80665, gyroscope as it is, magnetometer / 50."""
    table = pamap2_rows(activity=4, start_s=8.38, rows=250)
    table[:, 3:] = np.arange(4, 55)
    write_pamap2(tmp_path, {"subject101": table})
    dataset = load(DataOptions(root=tmp_path))
    assert dataset.x.shape == (1, 27, 200)
    hand = [5 / 9.80665, 6 / 9.80665, 7 / 9.80665, 11, 12, 13, 14 / 50, 15 / 50, 16 / 50]
    np.testing.assert_allclose(dataset.x[0, :9, 0], hand, rtol=1e-6)
    np.testing.assert_allclose(dataset.x[0, 9, 0], (5 + 17) / 9.80665, rtol=1e-6)
    np.testing.assert_allclose(dataset.x[0, 26, 0], (16 + 34) / 50, rtol=1e-6)
    assert dataset.classes == ("walking",)


def test_windows_never_cross_an_activity_change_and_transients_are_dropped(tmp_path: Path) -> None:
    """450 steps of lying give 3 windows, 300 transient none, 299 of walking 1; the second person adds 2 of lying."""
    first = np.concatenate(
        (
            pamap2_rows(activity=1, start_s=0.0, rows=450),
            pamap2_rows(activity=0, start_s=4.5, rows=300),
            pamap2_rows(activity=4, start_s=7.5, rows=299),
        )
    )
    write_pamap2(tmp_path, {"subject101": first, "subject105": pamap2_rows(activity=1, start_s=5.0, rows=300)})
    dataset = load(DataOptions(root=tmp_path))
    assert dataset.classes == ("lying", "walking")
    assert dataset.y.tolist() == [0, 0, 0, 1, 0, 0]
    assert dataset.group.tolist() == [0, 0, 0, 1, 2, 2]
    assert dataset.span is not None
    assert dataset.span[:3].tolist() == [[0, 200], [100, 300], [200, 400]]
    assert dataset.site is not None
    assert dataset.site.tolist() == [0, 0, 0, 0, 1, 1]
    assert dataset.site_names == ("subject-101", "subject-105")
    assert dataset.overlapping


def test_a_hole_of_ten_steps_is_bridged_and_one_of_eleven_cuts() -> None:
    steps = np.arange(40)
    values = np.stack((steps * 1.0, steps * 2.0), axis=1)
    short, long = values.copy(), values.copy()
    short[12:22, 1] = np.nan
    long[12:23, 1] = np.nan
    (whole,) = whole_parts(steps, short)
    np.testing.assert_allclose(whole, values)
    before, after = whole_parts(steps, long)
    np.testing.assert_allclose(before, values[:12])
    np.testing.assert_allclose(after, values[23:])


def test_missing_rows_are_holes_too() -> None:
    steps = np.delete(np.arange(40), slice(12, 22))
    (whole,) = whole_parts(steps, steps[:, None].astype(np.float64))
    np.testing.assert_allclose(whole[:, 0], np.arange(40))


def test_holes_at_an_end_are_cut_because_nothing_bridges_them() -> None:
    values = np.arange(10.0)[:, None]
    values[:2], values[9:] = np.nan, np.nan
    (whole,) = whole_parts(np.arange(10), values)
    assert whole[:, 0].tolist() == [2, 3, 4, 5, 6, 7, 8]
    assert whole_parts(np.arange(3), np.full((3, 2), np.nan)) == []


def test_a_jump_in_time_of_over_a_tenth_of_a_second_starts_a_new_segment(tmp_path: Path) -> None:
    """0.10 s between rows 10 steps apart lacks 9 rows and is bridged; 0.12 s lacks 11 and cuts."""
    parts = [pamap2_rows(activity=2, start_s=start, rows=20) for start in (0.0, 0.29, 0.60)]
    protocol = write_pamap2(tmp_path, {"subject102": np.concatenate(parts)})
    segments = read_segments(protocol / "subject102.dat")
    assert [len(segment.values) for segment in segments] == [49, 20]


def test_drop_outs_of_a_unit_are_nan_in_the_file(tmp_path: Path) -> None:
    table = pamap2_rows(activity=3, start_s=0.0, rows=300)
    table[100:105, 20:37] = np.nan  # the chest unit loses five rows
    table[7, 3] = np.nan  # a temperature, which does not count
    write_pamap2(tmp_path, {"subject101": table})
    dataset = load(DataOptions(root=tmp_path))
    assert len(dataset) == 2
    assert np.isfinite(dataset.x).all()


def activities(root: Path, rows: dict[int, int]) -> None:
    start, parts = 0.0, []
    for activity, count in rows.items():
        parts.append(pamap2_rows(activity=activity, start_s=start, rows=count))
        start += count / 100
    write_pamap2(root, {"subject101": np.concatenate(parts)})


def test_the_ten_activities_with_most_windows_are_kept_in_the_publishers_order(tmp_path: Path) -> None:
    """Twelve activities: 24 and 5 have one window each, all others two or more."""
    rows = {24: 200, 1: 300, 2: 300, 3: 300, 4: 400, 5: 200, 6: 300, 7: 300, 12: 300, 13: 300, 16: 300, 17: 300}
    activities(tmp_path, rows)
    dataset = load(DataOptions(root=tmp_path))
    assert len(dataset.classes) == 10
    assert dataset.classes[0] == "lying"
    assert dataset.classes[-1] == "ironing"
    assert not {"rope jumping", "running"} & set(dataset.classes)
    assert len(dataset) == 9 * 2 + 3


def test_activities_can_be_stated_for_participants_that_hold_different_people(tmp_path: Path) -> None:
    activities(tmp_path, {1: 200, 4: 200, 5: 200})
    dataset = load(DataOptions(root=tmp_path, options={"activities": "5,1,24"}))
    assert dataset.classes == ("running", "lying", "rope jumping")
    assert dataset.y.tolist() == [1, 0]
    with pytest.raises(InvalidInput, match="data option 'activities'"):
        load(DataOptions(root=tmp_path, options={"activities": "5,8"}))


def test_files_outside_the_format_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Protocol: got no subject10\*.dat.*folder="):
        load(DataOptions(root=tmp_path))
    protocol = write_pamap2(tmp_path, {"subject101": pamap2_rows(activity=4, start_s=0.0, rows=30)})
    path = protocol / "subject101.dat"
    good = path.read_text()
    for text, complaint in (
        ("1.0 4 104\n", "row 1: got 3 columns, expected 54"),
        (good.replace(" 4 ", " 8 "), "column 2: got 8"),
        (good + good, "time stamp that does not increase at row 31"),
        (good + "0.30 4 what\n", "unreadable rows"),
        (good, "no window of 2 s"),
        ("", "row 1: got 0 columns"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidInput, match=complaint) as caught:
            load(DataOptions(root=tmp_path))
        assert "\n" not in str(caught.value)
