"""Claims about the paper's numbers: they agree with each other and with what its text says of them."""

from __future__ import annotations

from statistics import fmean

import pytest

from fedap_core.errors import InvalidInput
from scripts.experiments.reproduce import paper
from scripts.experiments.reproduce.data_sets import DATA_SETS

ORGANS = ("organamnist", "organcmnist", "organsmnist")


@pytest.mark.parametrize("data", paper.ACCURACY)
def test_fedap_leads_every_table_and_every_number_has_its_place(data: str) -> None:
    table = paper.ACCURACY[data]
    assert max(table.averages, key=lambda name: table.averages[name]) == "fedap"
    assert sorted(table.averages) == ["base", "fedap", "fedavg", "fedbn", "fedper", "fedprox"]
    assert table.where.startswith("Table ")


def test_leads_stated_in_the_text_follow_from_the_tables() -> None:
    """PAMAP2: 81.14 - 69.07 = 12.07. Organ sets: 3.34, 3.84 and 3.94, on average 3.71."""
    leads = {
        data: table.averages["fedap"] - max(value for name, value in table.averages.items() if name != "fedap")
        for data, table in paper.ACCURACY.items()
    }
    assert leads["pamap2"] == pytest.approx(12.07)
    assert leads["pamap2"] > paper.PAMAP2_LEAD
    assert fmean(leads[data] for data in ORGANS) == pytest.approx(3.7067, abs=1e-4)
    assert fmean(leads[data] for data in ORGANS) > paper.ORGAN_LEAD


@pytest.mark.parametrize("data", ORGANS)
def test_the_organ_tables_put_base_last_and_fedbn_second(data: str) -> None:
    averages = paper.ACCURACY[data].averages
    order = sorted(averages, key=lambda name: averages[name])
    assert (order[0], order[-2]) == ("base", "fedbn")


def test_table_of_data_sets_names_sets_that_exist() -> None:
    assert list(paper.DATA_TABLE) == ["pamap2", "covid", *ORGANS]
    assert set(paper.DATA_TABLE) <= set(DATA_SETS)
    assert [paper.DATA_TABLE[data].samples for data in ORGANS] == [58_850, 23_660, 25_221]


def test_a_share_in_place_of_per_cent_is_refused() -> None:
    with pytest.raises(InvalidInput, match="per cent"):
        paper.AccuracyTable(data="x", where="Table 9", averages={"fedap": 0.0})
