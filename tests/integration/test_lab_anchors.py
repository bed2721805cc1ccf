"""Claims about anchors: where they come from, what they may never see, and which are refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from participant.record.model_file import make_initial, read_model, write_model
from scripts.run.cohort import Cohort
from tests.support.cohorts import clients_of, model_bits, rounds_run, run_small, small_run, tensor_bits


def with_other_pixels(cohort: Cohort, *, splits: tuple[str, ...]) -> Cohort:
    """The same clients whose samples of the named splits are negatives of themselves."""
    x = cohort.data.x.copy()
    for client in cohort.clients:
        for name in splits:
            x[client.splits[name]] = 255 - x[client.splits[name]]
    return Cohort(data=dataclasses.replace(cohort.data, x=x), clients=cohort.clients)


@pytest.mark.parametrize("anchor", [{"share": 0.5, "epochs": 1}, {"kind": "warmup", "rounds": 1}])
def test_no_test_or_validation_sample_ever_reaches_anchor_weights_or_updates(
    anchor: dict[str, object], tmp_path: Path
) -> None:
    """Every pixel that is not for training is changed: anchor, W and models keep every bit, the test figures do not."""
    settings = small_run("fedap", cohort={"protocol": "reference", "min_samples": 16}, anchor=anchor)
    cohort = clients_of(settings)
    changed = with_other_pixels(cohort, splits=("validation", "test"))
    first = run_small(tmp_path / "first", settings, cohort=cohort)
    second = run_small(tmp_path / "second", settings, cohort=changed)
    assert (first.path / "mixing.json").read_bytes() == (second.path / "mixing.json").read_bytes()
    assert model_bits(first) == model_bits(second)
    for path in (tmp_path / "first" / "anchors").glob("*"):
        assert tensor_bits(path) == tensor_bits(tmp_path / "second" / "anchors" / path.name)
    for split in ("validation", "test"):
        assert first.rounds()[-1][split]["loss"] != second.rounds()[-1][split]["loss"]


def test_training_samples_do_reach_the_anchor(tmp_path: Path) -> None:
    """Guards the test above: an anchor that ignored all data would pass it."""
    settings = small_run("fedap", rounds=1)
    cohort = clients_of(settings)
    run_small(tmp_path / "first", settings, cohort=cohort)
    run_small(tmp_path / "second", settings, cohort=with_other_pixels(cohort, splits=("train",)))
    name = f"anchors/{settings.anchor_identity}.safetensors"
    assert tensor_bits(tmp_path / "first" / name) != tensor_bits(tmp_path / "second" / name)


def test_warm_up_rounds_are_fedavg_count_towards_the_rounds_and_training_restarts(tmp_path: Path) -> None:
    """Two of four rounds warm up; what follows starts from the initial model, so only rounds 2 and 3 are recorded."""
    settings = small_run("fedap", rounds=4, anchor={"kind": "warmup", "rounds": 2})
    assert rounds_run(tmp_path, settings) == [2, 3]
    fedavg = run_small(tmp_path / "alone", small_run("fedavg", rounds=2))
    (anchor,) = (tmp_path / "warmup").glob("**/models/round-00001/c1.safetensors")
    assert tensor_bits(anchor) == model_bits(fedavg)["c1"]
    by_file = small_run("fedap", rounds=1, anchor={"kind": "file", "path": str(anchor)})
    folder = run_small(tmp_path, by_file)
    (warm,) = {path.parent for path in tmp_path.glob("synthetic-fedap-*/mixing.json")} - {folder.path}
    described = json.loads((warm / "mixing.json").read_text())
    assert described["weights"] == json.loads((folder.path / "mixing.json").read_text())["weights"]
    assert described["from_round"] == 2


def test_shorter_warm_up_after_a_longer_one_gives_its_own_anchor(tmp_path: Path) -> None:
    run_small(tmp_path, small_run("fedap", rounds=4, anchor={"kind": "warmup", "rounds": 2}))
    shorter = small_run("fedap", rounds=4, anchor={"kind": "warmup", "rounds": 1})
    again = run_small(tmp_path, shorter)
    alone = run_small(tmp_path / "alone", shorter)
    assert (again.path / "mixing.json").read_bytes() == (alone.path / "mixing.json").read_bytes()


def test_file_anchor_gives_the_weights_of_the_anchor_it_is_a_copy_of(tmp_path: Path) -> None:
    pooled = small_run("fedap", rounds=1)
    folder = run_small(tmp_path, pooled)
    made = tmp_path / "anchors" / f"{pooled.anchor_identity}.safetensors"
    copy = Path(made.rename(tmp_path / "mine.safetensors"))
    by_file = run_small(tmp_path, small_run("fedap", rounds=1, anchor={"kind": "file", "path": str(copy)}))
    assert by_file.path != folder.path
    assert (by_file.path / "mixing.json").read_bytes() == (folder.path / "mixing.json").read_bytes()


def test_run_under_a_changed_anchor_file_is_another_run(tmp_path: Path) -> None:
    settings = small_run("fedap", rounds=1)
    run_small(tmp_path, settings)
    (made,) = (tmp_path / "anchors").glob("*.safetensors")
    by_file = small_run("fedap", rounds=1, anchor={"kind": "file", "path": str(made)})
    before = by_file.identity
    spec, state, _ = read_model(made)
    write_model(made, spec, {name: tensor + 1 for name, tensor in state.items()})
    assert by_file.identity != before


@pytest.mark.parametrize("start_from", ["initial", "anchor"])
def test_anchor_of_another_model_is_refused(start_from: str, tmp_path: Path) -> None:
    settings = small_run("fedap", rounds=1)
    data = clients_of(settings).data
    spec, state = make_initial(
        "lenet5", input_shape=(1, 20, 20), classes=data.classes, preprocessing=data.preprocessing, seed=0
    )
    write_model(tmp_path / "other.safetensors", spec, state)
    anchor = {"kind": "file", "path": str(tmp_path / "other.safetensors")}
    with pytest.raises(InvalidInput, match=r"anchor.*same tensors and classes"):
        run_small(tmp_path, small_run("fedap", rounds=1, anchor=anchor, start_from=start_from))


def test_anchor_for_other_classes_is_refused(tmp_path: Path) -> None:
    settings = small_run("fedap", rounds=1)
    data = clients_of(settings).data
    spec, state = make_initial(
        "lenet5", input_shape=data.input_shape, classes=("a", "b", "c"), preprocessing=data.preprocessing, seed=0
    )
    write_model(tmp_path / "other.safetensors", spec, state)
    anchor = {"kind": "file", "path": str(tmp_path / "other.safetensors")}
    with pytest.raises(InvalidInput, match="same tensors and classes"):
        run_small(tmp_path, small_run("fedap", rounds=1, anchor=anchor))


def test_missing_anchor_file_is_refused_by_name(tmp_path: Path) -> None:
    anchor = {"kind": "file", "path": str(tmp_path / "nowhere.safetensors")}
    with pytest.raises(InvalidInput, match=r"nowhere\.safetensors"):
        run_small(tmp_path, small_run("fedap", rounds=1, anchor=anchor))


def test_start_from_the_anchor_starts_every_algorithm_from_it(tmp_path: Path) -> None:
    """A learning rate this small moves no weight beyond 1e-6, so after one round of Base the model is the anchor."""
    settings = small_run("base", rounds=1, start_from="anchor", learning_rate=1e-9, anchor={"share": 1.0, "epochs": 1})
    folder = run_small(tmp_path, settings)
    anchor = read_model(tmp_path / "anchors" / f"{settings.anchor_identity}.safetensors")[1]
    mine = read_model(folder.models(0) / "c1.safetensors")[1]
    np.testing.assert_allclose(mine["conv1.weight"], anchor["conv1.weight"], rtol=0, atol=1e-6)
    assert mine["bn1.num_batches_tracked"] == anchor["bn1.num_batches_tracked"] + 2
