"""Claims about what names a run: everything its numbers depend on, and nothing else."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from fedap_core.errors import InvalidInput
from fedap_core.strategies import STRATEGIES, make_strategy
from scripts.run import settings
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings, checked, saved_settings
from tests.support.cohorts import small_run

RESULTS = Path(__file__).parents[3] / "docs" / "results"
KEPT = sorted(path.parent for path in RESULTS.glob("*/*/settings.json"))

OTHERS: dict[str, dict[str, object]] = {
    "algorithm": {"algorithm": "fedap-sbn"},
    "options": {"options": {"self_weight": 0.7}},
    "seed": {"seed": 1},
    "learning rate": {"learning_rate": 0.02},
    "schedule": {"lr_schedule": "cosine"},
    "momentum": {"momentum": 0.9},
    "weight decay": {"weight_decay": 0.1},
    "batch size": {"batch_size": 8},
    "epochs": {"epochs": 2},
    "anchor share": {"anchor": {"share": 0.1}},
    "anchor kind": {"anchor": {"kind": "warmup", "rounds": 1}},
    "start": {"start_from": "anchor"},
    "model": {"model": "alexnet"},
    "threads": {"threads": 2},
    "mode": {"mode": "continuous"},
    "clients": {"cohort": {"data": "synthetic", "clients": 4}},
    "validation": {"cohort": {**small_run("fedap").cohort.model_dump(), "validation": 0.2}},
}


WEIGHTED = "self_weight=0.5 max_peer_weight=1.0 min_similarity=0.0 neighbours=0 full_covariance=False"


def with_changes(changes: dict[str, object]) -> RunSettings:
    described = small_run("fedap").model_dump() | changes
    return RunSettings.model_validate(described)


@pytest.mark.parametrize("what", OTHERS)
def test_every_choice_that_shapes_the_numbers_is_part_of_the_identity(what: str) -> None:
    assert with_changes(OTHERS[what]).identity != small_run("fedap").identity


def test_equal_settings_have_equal_identities() -> None:
    assert with_changes({}).identity == small_run("fedap").identity


DEFAULTS = {
    "fedprox": "mu=0.01",
    "fedap": WEIGHTED,
    "d-fedap": WEIGHTED,
    "f-fedap": WEIGHTED,
    "fedap-sbn": WEIGHTED,
    "fedap-plus": (
        "reestimate=True self_weight=0.15 max_peer_weight=1.0 min_similarity=0.0 neighbours=0 full_covariance=False "
        "head_at_home=False final_self_weight=-1.0 head_self_weight=-1.0 batch_norm_self_weight=-1.0 learning=0.0 "
        "average_last=0.5 average_after=30 forgetting=1.0 personal_share=0.75 strength=0.5 "
        "mean_of_steps=True moves_along=True momentum=0.9"
    ),
    "ditto": "strength=1.0",
    "fedrep": "head_epochs=1",
    "fedbabu": "finetune=5",
    "apfl": "alpha=0.5 adaptive=True",
    "fedala": "rate=1.0 share=0.8 settled=0.1",
    "feddbe": "strength=1.0 own_mean=False",
    "fedamp": "self_weight=0.5 sigma=1.0 strength=1.0",
    "fedavgm": "server_rate=1.0 momentum=0.9",
    "fedadam": "server_rate=0.01 momentum=0.9 second_momentum=0.99 tau=0.001",
}
"""What options mean that nobody gave, beyond those of every algorithm, in runs that are named today."""


@pytest.mark.parametrize("algorithm", sorted(STRATEGIES))
def test_default_of_an_option_does_not_change_under_the_name_of_older_runs(algorithm: str) -> None:
    """A new default is entered in `_OLDER_DEFAULTS` with what it was, then here."""
    common = make_strategy("base")
    made = make_strategy(algorithm)
    options = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
    own = [f"{name}={value}" for name, value in options.items() if value != getattr(common, name, None)]
    assert " ".join(own) == DEFAULTS.get(algorithm, "")


def test_defaults_that_changed_are_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    now = small_run("fedap-plus").identity
    monkeypatch.setattr(settings, "_OLDER_DEFAULTS", {})
    assert small_run("fedap-plus").identity != now


@pytest.mark.parametrize("algorithm", ["base", "fedavg", "fedprox", "fedper", "fedbn", "fedap", "d-fedap", "fedap-sbn"])
def test_longer_run_of_a_plain_schedule_has_the_identity_of_the_shorter(algorithm: str) -> None:
    assert small_run(algorithm, rounds=2).identity == small_run(algorithm, rounds=9).identity


def test_identity_contains_the_rounds_where_the_numbers_depend_on_them() -> None:
    """Fast FedAP divides its rounds into phases; a falling learning rate ends with the last round."""
    assert small_run("f-fedap", rounds=2).identity != small_run("f-fedap", rounds=4).identity
    two, four = (small_run("fedbn", rounds=rounds, lr_schedule="cosine").identity for rounds in (2, 4))
    assert two != four


@pytest.mark.parametrize("algorithm", ["fedavg", "f-fedap"])
def test_anchor_that_is_not_used_is_no_part_of_the_identity(algorithm: str) -> None:
    other = small_run(algorithm, anchor={"share": 0.1})
    assert small_run(algorithm).identity == other.identity
    assert other.identity != small_run(algorithm, anchor={"share": 0.1}, start_from="anchor").identity


def test_anchor_file_is_known_by_its_content_not_by_its_path(tmp_path: Path) -> None:
    for name, content in (("a", "same"), ("b", "same"), ("c", "other")):
        (tmp_path / name).write_text(content)
    a, b, c = (small_run("fedap", anchor={"kind": "file", "path": str(tmp_path / name)}).identity for name in "abc")
    assert a == b
    assert a != c


def test_anchor_is_shared_by_algorithms_and_initial_model_by_divisions_too() -> None:
    fedap, other = small_run("fedap"), small_run("d-fedap", rounds=9, epochs=2, momentum=0.5)
    divided = small_run("fedap", cohort={"partition": "dirichlet"})
    assert fedap.anchor_identity == other.anchor_identity != divided.anchor_identity
    assert fedap.initial_identity == other.initial_identity == divided.initial_identity
    assert fedap.initial_identity != small_run("fedap", seed=1).initial_identity


def test_label_tells_two_options_of_one_algorithm_apart() -> None:
    assert small_run("fedap").label == "fedap"
    assert small_run("fedap", options={"self_weight": "0.3", "equal": "no"}).label == "fedap:self_weight=0.3:equal=no"


def test_label_of_the_protocol_says_when_windows_overlap() -> None:
    assert small_run("base").cohort.protocol_label == "paper"
    leaky = small_run("base", cohort={"overlapping_windows": True, "protocol": "reference"})
    assert leaky.cohort.protocol_label == "reference (overlapping windows)"


@pytest.mark.parametrize("folder", KEPT, ids=lambda folder: folder.name)
def test_kept_results_are_found_under_the_name_they_were_stored_by(folder: Path) -> None:
    """A field that is added to the settings must not rename what was computed before it existed."""
    described = json.loads((folder / "settings.json").read_text())["settings"]
    settings = saved_settings(described)
    assert RunFolder(folder.parent, settings).path == folder


def test_there_are_kept_results() -> None:
    assert len(KEPT) > 5


def test_names_of_files_hold_neither_slash_nor_colon() -> None:
    own = with_changes({"cohort": {"data": "/data/mine.npz"}, "model": "my.models:Net"})
    for name in (own.anchor_identity, own.initial_identity):
        assert "/" not in name
        assert ":" not in name


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rounds": 0}, "rounds: got 0"),
        ({"algorithm": "fedx"}, "algorithm: got fedx, expected one of "),
        ({"anchor": {"kind": "warmup", "rounds": 3}}, "anchor.rounds: got 3, expected fewer than the run's 3 rounds"),
        ({"cohort": {"data": "synthetic", "protocol": "other"}}, "cohort.protocol: got other"),
        ({"surprise": 1}, "surprise: got 1"),
        ({"learning_rate": float("inf")}, "learning_rate: got inf"),
    ],
)
def test_complaint_names_the_field_in_one_line(changes: dict[str, object], said: str) -> None:
    with pytest.raises((ValidationError, InvalidInput)) as caught:
        with_changes(changes)
    error = checked(caught.value) if isinstance(caught.value, ValidationError) else caught.value
    assert str(error).startswith(said)
    assert "\n" not in str(error)


def test_warm_up_may_be_long_where_no_anchor_is_used() -> None:
    assert not with_changes({"algorithm": "fedbn", "anchor": {"kind": "warmup", "rounds": 99}}).uses_anchor
