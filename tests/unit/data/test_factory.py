"""Users' own factories, and how a text is understood: name, path, or package.module:factory."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from participant.data import SOURCES, DataOptions, Dataset, load_dataset, synthetic

HERE = "tests.unit.data.test_factory"


def small(options: DataOptions) -> Dataset:
    """A factory as a user writes one; it reads its own option."""
    return synthetic.load(DataOptions(options={"samples": options.text("people", "12")}))


def wrong(options: DataOptions) -> str:
    return "no data set"


def test_a_factory_gets_the_options() -> None:
    assert len(load_dataset(f"{HERE}:small")) == 12
    assert len(load_dataset(f"{HERE}:small", DataOptions(options={"people": "21"}))) == 21


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("no_such_package.data:load", r"importable module 'no_such_package.data'.*PYTHONPATH"),
        (f"{HERE}:absent", "a callable 'absent'"),
        (f"{HERE}:HERE", "a callable 'HERE'"),
        (f"{HERE}:wrong", "returns a Dataset, not str"),
        (":load", "importable module"),
        (".relative:load", "importable module"),
    ],
)
def test_a_factory_that_is_none_is_refused(name: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        load_dataset(name)


def test_a_misspelt_name_lists_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(InvalidInput, match=r"organamnist.*Did you mean 'organamnist'") as caught:
        load_dataset("organamnsit")
    assert all(name in str(caught.value) for name in SOURCES)


def test_a_path_that_leads_nowhere_is_no_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="an existing folder"):
        load_dataset(str(tmp_path / "absent"))


def test_the_table_holds_every_source_file() -> None:
    """Every file with a `load(options)` is in the table; paths and factories are not names."""
    folder = Path(synthetic.__file__).parent
    by_name = {path.stem for path in folder.glob("*.py") if "\ndef load(options: DataOptions)" in path.read_text()}
    assert by_name == {"chest", "covid", "har", "pamap2", "synthetic", "watch"}
    assert by_name < SOURCES.keys()
