"""Every algorithm on a tiny federation against textbook code: same data, same batches, the same models in the end."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from fedap_core.arrays import FloatArray
from fedap_core.strategies import make_strategy
from tests.parity import field, textbook
from tests.parity.federation import ROUNDS, ParityOutcome, run
from tests.parity.plus import BN_INPUTS, HEAD_INPUTS, PLUS, PLUS_CASES, Case, Play, by_anchor, ditto
from tests.parity.textbook import Book, Keep, Moments

RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""Float32 after 4 rounds, 2 epochs and up to 5 steps each: sums are rounded in another order in every step."""


def running_moments(book: Book) -> list[Moments]:
    return [
        [
            (layer.running_mean.double().numpy(), layer.running_var.double().numpy(), np.zeros((0, 0)))  # type: ignore[union-attr]
            for layer in (model.norm, model.scale)
        ]
        for model in book.models
    ]


def averaging(keep: Keep, mu: float = 0.0) -> Play:
    def play(book: Book) -> FloatArray:
        for _ in range(ROUNDS):
            book.train(mu)
            book.average(book.by_counts(), keep)
        return book.by_counts()

    return play


def alone(book: Book) -> FloatArray:
    for _ in range(ROUNDS):
        book.train()
    return np.eye(3)


def half_as_fedbn(book: Book) -> FloatArray:
    """R = 4: round 0 as FedBN; after training of round 1 the running statistics decide W for rounds 1 to 3."""
    book.train()
    book.average(book.by_counts(), textbook.batch_norm)
    book.train()
    weights = textbook.by_distances(running_moments(book), 0.5)
    book.average(weights, textbook.batch_norm)
    for _ in range(2):
        book.train()
        book.average(weights, textbook.batch_norm)
    return weights


def fedrep(book: Book) -> FloatArray:
    """Three epochs of the head under the delivered body, then the plan's two of everything else."""
    for _ in range(ROUNDS):
        for number, model in enumerate(book.models):
            book.fit(number, model, trains=textbook.head, epochs=3)
            book.fit(number, model, trains=lambda key: not textbook.head(key), which=" /1")
        book.round_no += 1
        book.average(book.by_counts(), textbook.head)
    return book.by_counts()


CASES: dict[str, Case] = {
    "base": ("base", {}, alone),
    "fedavg": ("fedavg", {}, averaging(textbook.nothing)),
    "fedprox": ("fedprox", {"mu": 0.3}, averaging(textbook.nothing, mu=0.3)),
    "fedper": ("fedper", {}, averaging(textbook.head)),
    "fedbn": ("fedbn", {}, averaging(textbook.batch_norm)),
    "fedap-unweighted": ("fedap-unweighted", {}, averaging(textbook.batch_norm)),
    "fedap": ("fedap", {}, by_anchor(textbook.batch_norm, BN_INPUTS)),
    "fedap-0.2": ("fedap", {"self_weight": 0.2}, by_anchor(textbook.batch_norm, BN_INPUTS, 0.2)),
    "fedap-full": ("fedap", {"full_covariance": True}, by_anchor(textbook.batch_norm, BN_INPUTS, full=True)),
    "fedap-sbn": ("fedap-sbn", {}, by_anchor(textbook.nothing, BN_INPUTS)),
    "d-fedap": ("d-fedap", {}, by_anchor(textbook.batch_norm, HEAD_INPUTS)),
    "f-fedap": ("f-fedap", {}, half_as_fedbn),
    **PLUS_CASES,
    "ditto": ("ditto", {}, ditto(1.0)),
    "ditto-0.1": ("ditto", {"strength": 0.1}, ditto(0.1)),
    "fedrep": ("fedrep", {"head_epochs": 3}, fedrep),
    "fedbabu": ("fedbabu", {"finetune": 3}, field.fedbabu),
    "apfl": ("apfl", {}, field.apfl(0.5, adaptive=True)),
    "apfl-0.2": ("apfl", {"alpha": 0.2, "adaptive": False}, field.apfl(0.2, adaptive=False)),
    "fedala": ("fedala", {}, field.fedala),
    "feddbe": ("feddbe", {"strength": 5.0}, field.feddbe(5.0, own_mean=False)),
    "feddbe-own": ("feddbe", {"strength": 5.0, "own_mean": True}, field.feddbe(5.0, own_mean=True)),
    "fedamp": ("fedamp", {"self_weight": 0.4, "sigma": 0.7}, field.fedamp(0.4, 0.7)),
    "pfedsim": ("pfedsim", {}, field.pfedsim),
    "fedrod": ("fedrod", {}, field.fedrod),
    "fedavgm": ("fedavgm", {"momentum": 0.7}, field.momentum_of_steps(0.7)),
    "scaffold": ("scaffold", {}, field.scaffold),
    "fedadam": ("fedadam", {"tau": 0.1}, field.adam_of_steps(0.01, 0.9, 0.99, 0.1)),
}


def outcome(case: str) -> ParityOutcome:
    algorithm, options, _ = CASES[case]
    return run(algorithm, tuple(options.items()))


def assert_near(key: str, found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=RELATIVE, atol=ABSOLUTE, msg=lambda text: f"{key}: {text}")


@pytest.mark.parametrize("case", CASES)
def test_the_system_ends_where_the_textbook_ends(case: str) -> None:
    found = outcome(case)
    book = Book()
    weights = CASES[case][2](book)
    assert (found.weights is None) == make_strategy(CASES[case][0]).mixes_by_values
    if found.weights is not None:
        np.testing.assert_allclose(found.weights, weights, rtol=1e-5, atol=1e-7)
    for number, model in enumerate(book.models):
        expected = model.state_dict()
        assert found.models[number].keys() == expected.keys()
        for key, value in expected.items():
            assert_near(key, found.models[number][key], value)
    scores = book.scores()
    assert found.accuracy == tuple(accuracy for accuracy, _ in scores)
    assert found.loss == pytest.approx([loss for _, loss in scores], rel=1e-4)


def test_the_algorithms_end_in_different_places() -> None:
    """Otherwise the test above could not tell them apart."""
    ends = {case: outcome(case).models[0]["fc.weight"] for case in CASES if case not in {"fedap-unweighted"}}
    for case, end in ends.items():
        for other, other_end in ends.items():
            apart = float((end - other_end).abs().max())
            assert case == other or apart > 20 * ABSOLUTE, (case, other)


def same_bits(one: ParityOutcome, other: ParityOutcome) -> bool:
    pairs = zip(one.models, other.models, strict=True)
    return all(a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a) for a, b in pairs)


def test_fedap_without_weighting_is_fedbn_to_the_bit() -> None:
    assert same_bits(run("fedap-unweighted"), run("fedbn"))


def test_fedap_plus_without_its_parts_is_fedap_to_the_bit() -> None:
    assert same_bits(run("fedap-plus", tuple({**PLUS, "head_at_home": False}.items())), run("fedap"))


def test_finetuning_and_reestimation_touch_only_the_model_that_is_handed_over() -> None:
    """Rounds go on from the delivered models, so their scores stay; what is handed over is another model."""
    plain, finished = run("fedavg"), run("fedavg", (("finetune", 2), ("reestimate", True)))
    assert finished.delivered == plain.accuracy
    assert not same_bits(plain, finished)


def test_fedprox_without_its_term_is_fedavg_to_the_bit() -> None:
    assert same_bits(run("fedprox", (("mu", 0.0),)), run("fedavg"))
    assert not same_bits(run("fedprox", (("mu", 0.3),)), run("fedavg"))


@pytest.mark.parametrize("algorithm", ["fedap", "d-fedap", "fedap-sbn"])
def test_fedap_that_listens_to_itself_alone_is_base_to_the_bit(algorithm: str) -> None:
    """self_weight 1 makes W the identity, and 1 * own + 0 * others is exact: shared or not, nothing is mixed. The cap
    of 0 for peers comes to the same. (f-FedAP would still average the rounds it spends as FedBN.)"""
    assert same_bits(run(algorithm, (("self_weight", 1.0),)), run("base"))
    assert same_bits(run(algorithm, (("max_peer_weight", 0.0),)), run("base"))


@pytest.mark.parametrize("algorithm", ["fedavg", "fedbn", "fedper", "fedap", "d-fedap", "f-fedap", "fedap-sbn"])
def test_a_lone_client_trains_as_base_whatever_the_algorithm(algorithm: str) -> None:
    assert same_bits(run(algorithm, clients=1), run("base", clients=1))


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox"])
def test_with_everything_shared_all_clients_end_with_one_model(algorithm: str) -> None:
    first, *others = run(algorithm).models
    assert all(torch.equal(first[key], other[key]) for other in others for key in first if "num_batches" not in key)


@pytest.mark.parametrize(
    ("algorithm", "kept"), [("fedbn", ("norm.", "scale.")), ("fedap", ("norm.", "scale.")), ("fedper", ("fc.",))]
)
def test_tensors_that_stay_local_differ_between_clients(algorithm: str, kept: tuple[str, ...]) -> None:
    first, second, _ = run(algorithm).models
    private = [key for key in first if key.startswith(kept)]
    assert private
    assert not any(torch.equal(first[key], second[key]) for key in private)
