"""Claims about what a run's figures are of: the delivered model, every client alike, nothing chosen on test data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from fedap_core.metrics import Evaluation
from fedap_core.nn.evaluation import evaluate
from fedap_core.nn.reestimation import reestimate_batch_norm
from participant.record.model_file import module_of, read_model
from scripts.engines.pool import make_clients
from scripts.run.run_folder import RunFolder
from tests.support.cohorts import clients_of, run_small, small_run, tensor_bits

SITES = {"partition": "site"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that several tests read."""
    return tmp_path_factory.mktemp("runs")


def evaluated_by_hand(folder: RunFolder, split: str = "test") -> list[Evaluation]:
    """Load every saved personalised model and judge it on its client's own samples."""
    found = []
    for client in clients_of(folder.settings).clients:
        spec, state, _ = read_model(folder.models(folder.settings.rounds - 1) / f"{client.name}.safetensors")
        samples = clients_of(folder.settings).gather(client.splits[split], torch.device("cpu"))
        found.append(evaluate(module_of(spec, state), samples, classes=len(spec.classes)))
    return found


@pytest.mark.parametrize("algorithm", ["fedap", "fedper", "base"])
def test_last_round_is_that_of_the_saved_models(algorithm: str, root: Path) -> None:
    folder = run_small(root, small_run(algorithm))
    last, found = folder.rounds()[-1]["test"], evaluated_by_hand(folder)
    assert last["accuracy"] == [one.accuracy for one in found]
    assert last["macro_f1"] == [one.macro_f1 for one in found]
    assert last["loss"] == [one.loss for one in found]
    assert last["confusion"] == [one.confusion.tolist() for one in found]


def test_base_is_evaluated_after_its_local_epoch(root: Path) -> None:
    """Nothing is mixed, so a lone client that trains the same round from the same file has the recorded figures."""
    settings = small_run("base", rounds=1)
    folder, cohort = run_small(root, settings), clients_of(settings)
    initial = root / "initial" / f"{settings.initial_identity}.safetensors"
    plan = settings.local_plan()
    alone = make_clients(cohort, cohort.clients[1:2], start=initial, plan=plan, device="cpu", buffers=[None])[0]
    untrained = alone.evaluate("test")
    alone.train(0)
    recorded = folder.rounds()[0]["test"]["loss"][1]
    assert recorded == alone.evaluate("test").loss
    assert recorded != untrained.loss


def test_delivered_model_is_not_the_one_that_was_trained(root: Path) -> None:
    """The same local epoch as Base's, then mixing: were FedAvg judged before delivery, the losses would agree."""
    trained = run_small(root, small_run("base", rounds=1)).rounds()[0]["test"]["loss"]
    delivered = run_small(root, small_run("fedavg", rounds=1)).rounds()[0]["test"]["loss"]
    assert all(mine != theirs for mine, theirs in zip(trained, delivered, strict=True))


def test_headline_is_the_unweighted_mean_over_clients(root: Path) -> None:
    settings = small_run("fedbn", cohort={"partition": "dirichlet", "alpha": 2.0, "min_samples": 4})
    folder = run_small(root, settings)
    last = folder.rounds()[-1]["test"]
    assert len(set(last["samples"])) > 1, "clients of equal size would hide a weighted mean"
    weighted = np.average(last["accuracy"], weights=last["samples"])
    assert folder.summary().last == pytest.approx(sum(last["accuracy"]) / 3)
    assert folder.summary().last != pytest.approx(weighted)
    assert folder.summary().per_client == tuple(last["accuracy"])


def test_confusion_matrices_of_the_last_round_count_every_test_sample(root: Path) -> None:
    settings = small_run("fedap")
    folder, cohort = run_small(root, settings), clients_of(settings)
    *earlier, last = folder.rounds()
    for client, matrix in zip(cohort.clients, last["test"]["confusion"], strict=True):
        truth = np.bincount(cohort.data.y[client.splits["test"]], minlength=3)
        assert np.sum(matrix, axis=1).tolist() == truth.tolist()
    assert last["test"]["samples"] == [len(client.splits["test"]) for client in cohort.clients]
    assert all("confusion" not in record["test"] for record in earlier)


def test_reference_protocol_selects_by_validation_and_reports_test(root: Path) -> None:
    settings = small_run("fedavg", rounds=5, cohort={"protocol": "reference", "min_samples": 16})
    folder = run_small(root, settings)
    validation = [np.mean(record["validation"]["accuracy"]) for record in folder.rounds()]
    test = [float(np.mean(record["test"]["accuracy"])) for record in folder.rounds()]
    assert folder.summary().selected == test[int(np.argmax(validation))]
    found = evaluated_by_hand(folder, "validation")
    assert folder.rounds()[-1]["validation"]["loss"] == [one.loss for one in found]
    for client in clients_of(settings).clients:
        sizes = {name: len(part) for name, part in client.splits.items()}
        assert sizes == pytest.approx({"train": 32, "validation": 24, "test": 24}, abs=2)  # 40/30/30 of each class


def test_paper_protocol_selects_nothing(root: Path) -> None:
    folder = run_small(root, small_run("fedavg"))
    assert folder.summary().selected is None
    assert all("validation" not in record for record in folder.rounds())


@pytest.mark.parametrize("algorithm", ["fedap", "d-fedap", "f-fedap", "fedap-sbn"])
def test_rows_of_w_sum_to_one_around_the_self_weight(algorithm: str, root: Path) -> None:
    folder = run_small(root, small_run(algorithm, options={"self_weight": 0.6}, cohort=SITES))
    described = json.loads((folder.path / "mixing.json").read_text())
    weights = np.array(described["weights"])
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weights.diagonal(), 0.6, rtol=0, atol=1e-12)
    assert described["members"] == ["site-0", "site-1", "site-2"]
    assert np.array(described["distances"]).shape == (len(described["layers"]), 3, 3)
    assert described["layers"] == (["fc3"] if algorithm == "d-fedap" else ["bn1", "bn2"])


def test_fast_fedap_mixes_as_fedbn_until_half_time_and_by_w_from_the_last_of_those_rounds(root: Path) -> None:
    """R = 6: rounds 0 and 1 as FedBN; round 2, the last of the first half, measures and is mixed by W already."""
    folder = run_small(root, small_run("f-fedap", rounds=6))
    assert [record["phase"] for record in folder.rounds()] == ["fedbn"] * 2 + ["mixed"] * 4
    assert json.loads((folder.path / "mixing.json").read_text())["from_round"] == 2
    fedbn = run_small(root, small_run("fedbn", rounds=3)).rounds()
    mine = folder.rounds()
    assert [record["test"]["loss"] for record in mine[:2]] == [record["test"]["loss"] for record in fedbn[:2]]
    assert mine[2]["train_loss"] == fedbn[2]["train_loss"]
    assert mine[2]["test"]["loss"] != fedbn[2]["test"]["loss"]


def test_every_kth_round_and_each_of_the_last_ten_is_evaluated(root: Path) -> None:
    folder = run_small(root, small_run("base", rounds=16, evaluate_every=4))
    assert [record["round"] for record in folder.rounds() if "test" in record] == [
        3,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
    ]
    assert folder.summary().tail == pytest.approx(np.mean([value for _, value in folder.summary().curve[-10:]]))
    assert all(len(record["train_loss"]) == 3 for record in folder.rounds())


@pytest.mark.parametrize("algorithm", ["fedbn", "fedap-plus"])
def test_who_was_never_drawn_ends_with_batch_norm_of_its_own_data(algorithm: str, root: Path) -> None:
    """One of three clients a round, for two rounds. It has the initial model's parameters, and exact moments."""
    settings = small_run(algorithm, rounds=2, participation=0.34)
    folder, cohort = run_small(root, settings), clients_of(settings)
    losses = np.array([record["train_loss"] for record in folder.rounds()], dtype=np.float64)
    never = [client for client, mine in zip(cohort.clients, losses.T, strict=True) if np.isnan(mine).all()]
    assert never
    for client in never:
        spec, state, _ = read_model(folder.models(1) / f"{client.name}.safetensors")
        module, samples = module_of(spec, state), cohort.gather(client.splits["train"], torch.device("cpu"))
        reestimate_batch_norm(module, samples.inputs(settings.local_plan().evaluation_batch))
        assert {name: tensor.numpy().tobytes() for name, tensor in module.state_dict().items()} == tensor_bits(
            folder.models(1) / f"{client.name}.safetensors"
        )
