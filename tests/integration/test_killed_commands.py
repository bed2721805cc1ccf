"""Claims about commands that are killed at any of their writes: no half file under its own name, and the same command
does the work when it is repeated. Real processes that die by a signal."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest
import torch

from coordinator.record.journal import JOURNAL
from coordinator.record.journal_check import read_journal
from fedap_core.preprocessing import Preprocessing
from participant.record.model_file import make_initial, read_model, read_spec
from participant.record.private_state import PrivateState, SavedRound
from participant.sealing.group_key import read_group_key
from protocol.host.keys import read_key_file
from protocol.keys import parse_public
from tests.support.killed_commands import die_at_every_write, run_mortal
from tests.support.tiny_models import tiny_model
from tests.unit.coordinator.test_following import ONE_ROUND, STARTED, write_run


def emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def listed(folder: Path) -> set[str]:
    """The names of a folder that people see."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize(
    ("module", "words"),
    [
        pytest.param("coordinator.cli", "keygen --out {}/north.key", id="coordinator", marks=pytest.mark.slow),
        pytest.param("participant.cli", "keygen --name north --folder {}", id="participant"),
    ],
)
def test_killed_keygen_leaves_whole_keys_and_ends_with_a_pair(module: str, words: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"

    def judge() -> None:
        if (keys / "north.key").exists():
            assert stat.S_IMODE((keys / "north.key").stat().st_mode) == 0o600
            read_key_file(keys / "north.key")
        if (keys / "north.pub").exists():
            assert parse_public((keys / "north.pub").read_text()) == read_key_file(keys / "north.key").public

    deaths = die_at_every_write(
        keys, module, *words.format(keys).split(), prepare=lambda: emptied(keys), judge=judge,
        is_done=(keys / "north.pub").exists,
    )  # fmt: skip
    assert deaths > 4
    assert listed(keys) == {"north.key", "north.pub"}
    code, said = run_mortal(keys, 0, module, *words.format(keys).split())
    assert (code, "does not exist yet" in said) == (2, True)


@pytest.mark.slow
def test_killed_group_key_leaves_a_whole_key_or_none(tmp_path: Path) -> None:
    out = tmp_path / "keys" / "group.key"

    def judge() -> None:
        if out.exists():
            read_group_key(out)

    words = f"group-key --out {out}"
    deaths = die_at_every_write(
        out.parent, "participant.cli", *words.split(), prepare=lambda: emptied(out.parent), judge=judge,
        is_done=out.exists,
    )  # fmt: skip
    assert deaths > 3


@pytest.mark.slow
def test_killed_init_leaves_a_whole_model_or_none(tmp_path: Path) -> None:
    out = tmp_path / "made" / "initial.safetensors"

    def judge() -> None:
        if out.exists():
            read_model(out)

    words = f"init --data synthetic --model lenet5 --force --out {out}"
    assert die_at_every_write(
        out.parent, "participant.cli", *words.split(), prepare=lambda: emptied(out.parent), judge=judge
    )


def finished_state(folder: Path) -> Path:
    """The state folder of a participant whose run of one round is over."""
    spec, tensors = make_initial(
        "lenet5", input_shape=(1, 28, 28), classes=("a", "b"), preprocessing=Preprocessing(), seed=0
    )
    score = {"model": "delivered", "split": "test", "samples": 4, "correct": 3, "loss": 0.5, "macro_f1": 0.5}
    with PrivateState(folder) as state:
        run = state.run("wards", spec)
        run.write_start(tensors)
        run.write_note("agreement.json", json.dumps({"participant": "north", "plan": {"strategy": "fedap"}}))
        state.set_current("wards")
        run.write_latest(
            SavedRound(kind="goodbye", round_no=1, phase="mixed", model=tensors, facts={"scores": [score]})
        )
        notes = {"run": "wards", "participant": "north", "algorithm": "fedap", "rounds": "1", "test_accuracy": "0.75"}
        state.write_personal(spec, tensors, notes)
    return folder


@pytest.mark.parametrize(
    "form", ["safetensors", pytest.param("monai", marks=pytest.mark.slow), pytest.param("onnx", marks=pytest.mark.slow)]
)
def test_killed_export_leaves_a_whole_model_with_its_card_or_none(form: str, tmp_path: Path) -> None:
    state, out = finished_state(tmp_path / "state"), tmp_path / "out" / "north"

    def judge() -> None:
        if not out.exists():
            return
        assert {"north", "north.card.md", "north.card.json"} <= listed(out.parent)
        json.loads((out.parent / "north.card.json").read_text())
        if form == "safetensors":
            read_spec(out)
        elif form == "monai":
            torch.export.load(out / "models" / "model.pt2")
            json.loads((out / "configs" / "metadata.json").read_text())
        else:
            assert out.stat().st_size > 10_000

    words = f"export --state {state} --out {out} --format {form}"
    deaths = die_at_every_write(
        out.parent, "participant.cli", *words.split(), prepare=lambda: emptied(out.parent), judge=judge,
        is_done=out.exists, every=1 if form == "safetensors" else 6,
    )  # fmt: skip
    assert deaths > 4
    assert {path.name for path in out.parent.iterdir()} == {"north", "north.card.md", "north.card.json"}


@pytest.mark.slow
def test_killed_export_over_an_older_bundle_never_leaves_half_of_one(tmp_path: Path) -> None:
    state, out = finished_state(tmp_path / "state"), tmp_path / "out" / "north"
    words = f"export --state {state} --out {out} --format monai --force"
    assert run_mortal(tmp_path, 0, "participant.cli", *words.split())[0] == 0
    shutil.copytree(out.parent, tmp_path / "kept")

    def prepare() -> None:
        shutil.rmtree(out.parent)
        shutil.copytree(tmp_path / "kept", out.parent)

    def judge() -> None:
        if out.exists():
            assert sorted(path.name for path in out.rglob("*.*")) == ["inference.json", "metadata.json", "model.pt2"]

    assert die_at_every_write(out.parent, "participant.cli", *words.split(), prepare=prepare, judge=judge, every=6) > 4


def test_killed_recover_keeps_every_intact_entry_and_can_be_repeated(tmp_path: Path) -> None:
    """The last of the journal's entries is damaged; the others are intact, before, between and after."""
    folder = tmp_path / "run"
    write_run(tmp_path / "whole", [*STARTED, *ONE_ROUND], initial=tiny_model().write(tmp_path / "m.safetensors"))
    entries = len(read_journal(tmp_path / "whole").sound)

    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(tmp_path / "whole", folder)
        data = bytearray((folder / JOURNAL).read_bytes())
        at = data.rindex(b'"reason"')
        data[at + 1] ^= 1
        (folder / JOURNAL).write_bytes(data)

    prepare()
    intact = len(read_journal(folder).sound)
    assert 0 < intact < entries

    def judge() -> None:
        places = [folder, folder / "recovered"]
        assert max(len(read_journal(place).sound) for place in places if (place / JOURNAL).exists()) == intact

    words = f"recover {folder} --yes --accept-older"
    deaths = die_at_every_write(folder, "coordinator.cli", *words.split(), prepare=prepare, judge=judge)
    assert deaths > 4
    assert read_journal(folder).wrong == ""
    assert len(list(folder.glob("damaged/journal.sqlite*"))) >= 1
