"""Every algorithm on a tiny federation against textbook code: same data, same batches, the same models in the end."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedap_core.arrays import FloatArray
from fedap_core.strategies import make_strategy
from tests.parity import field, textbook
from tests.parity.federation import ANCHOR_SEED, ROUNDS, SEED, ParityOutcome, run
from tests.parity.textbook import Book, Keep, Moments

RELATIVE, ABSOLUTE = 1e-5, 1e-6
"""Float32 after 4 rounds, 2 epochs and up to 5 steps each: sums are rounded in another order in every step."""


def anchor_moments(book: Book) -> list[Moments]:
    """Moments of everything that enters BN layers (first two) and the head (last), under the anchor."""
    anchor = textbook.network(ANCHOR_SEED)
    return [[textbook.moments_of(z) for z in textbook.layer_inputs(anchor, x)] for x, _ in book.train_data]


def running_moments(book: Book) -> list[Moments]:
    return [
        [
            (layer.running_mean.double().numpy(), layer.running_var.double().numpy(), np.zeros((0, 0)))  # type: ignore[union-attr]
            for layer in (model.norm, model.scale)
        ]
        for model in book.models
    ]


def averaging(keep: Keep, mu: float = 0.0) -> Callable[[Book], FloatArray]:
    def play(book: Book) -> FloatArray:
        for _ in range(ROUNDS):
            book.train(mu)
            book.average(book.by_counts(), keep)
        return book.by_counts()

    return play


def by_anchor(
    keep: Keep, layers: slice, self_weight: float = 0.5, *, full: bool = False
) -> Callable[[Book], FloatArray]:
    def play(book: Book) -> FloatArray:
        moments = [one[layers] for one in anchor_moments(book)]
        weights = textbook.by_distances(moments, self_weight, full=full)
        for _ in range(ROUNDS):
            book.train()
            book.average(weights, keep)
        return weights

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


def ditto(
    strength: float,
    *,
    plus: Keep | None = None,
    self_weight: float = 0.5,
    share: float = 1.0,
    last: int = 1,
    to_mean: bool = False,
    moves: bool = False,
    momentum: float = 0.0,
) -> Callable[[Book], FloatArray]:
    """x as FedAvg or, with `plus`, mixed by FedAP's W but for what that keeps; v beside it, pulled towards x as
    delivered. What is compared in the end is v, or `share` of v and the rest of x, as a mean over the `last` rounds.
    to_mean: v ends a round at the mean of its steps. moves: v moves by as much as x does between deliveries.
    momentum: of what is mixed in x, from the start of one round to that of the next, at most t / (t + 3)."""

    def play(book: Book) -> FloatArray:
        personal = [textbook.network(SEED) for _ in book.models]
        weights, keep = book.by_counts(), plus or textbook.nothing
        if plus is not None:
            weights = textbook.by_distances([one[BN_INPUTS] for one in anchor_moments(book)], self_weight)
        kept: list[list[list[Tensor]]] = []
        speeds = [[torch.zeros_like(parameter) for parameter in model.parameters()] for model in book.models]
        for _ in range(ROUNDS):
            latest: list[list[Tensor]] = []
            for number, (model, own) in enumerate(zip(book.models, personal, strict=True)):
                delivered = [parameter.detach().clone() for parameter in model.parameters()]
                book.fit(number, model)
                book.fit(number, own, mu=strength, towards=delivered, which=" personal/0", to_mean=to_mean)
                latest.append(delivered)
            book.round_no += 1
            book.average(weights, keep)
            for model, before, speed in zip(book.models, latest, speeds, strict=True) if momentum else ():
                field.go_on(model, before, speed, min(momentum, book.round_no / (book.round_no + 3)), keep)
            for own, model, before in zip(personal, book.models, latest, strict=True) if moves else ():
                ways = zip(field.values(own), field.values(model), before, strict=True)
                field.put(own, [v + x - old for v, x, old in ways])
            pairs = list(zip(personal, book.models, strict=True))
            kept.append(
                [
                    [share * v + (1 - share) * x for v, x in zip(field.values(own), field.values(model), strict=True)]
                    for own, model in pairs
                ]
            )
        for number, own in enumerate(personal):
            picked = zip(*(one[number] for one in kept[-last:]), strict=True)
            field.put(own, [torch.stack(values).mean(0) for values in picked])
        book.models = personal
        return weights

    return play


def fedrep(book: Book) -> FloatArray:
    """Three epochs of the head under the delivered body, then the plan's two of everything else."""
    for _ in range(ROUNDS):
        for number, model in enumerate(book.models):
            book.fit(number, model, trains=textbook.head, epochs=3)
            book.fit(number, model, trains=lambda key: not textbook.head(key), which=" /1")
        book.round_no += 1
        book.average(book.by_counts(), textbook.head)
    return book.by_counts()


def head_or_batch_norm(key: str) -> bool:
    return textbook.head(key) or textbook.batch_norm(key)


def narrowing(first: float, last: float) -> Callable[[Book], FloatArray]:
    """FedAP+ whose self-weight goes from `first` to `last` in equal steps; W, as the coordinator has it, is of the
    others alone."""

    def play(book: Book) -> FloatArray:
        moments = [one[BN_INPUTS] for one in anchor_moments(book)]
        for number in range(ROUNDS):
            own_share = first + (last - first) * number / (ROUNDS - 1)
            book.train()
            book.average(textbook.by_distances(moments, own_share), head_or_batch_norm)
        return textbook.by_distances(moments, 0.0)

    return play


def by_parts(body: float, head: float, norm: float, last: int) -> Callable[[Book], FloatArray]:
    """FedAP+ whose members add their own shares by part to what the others give; the models of the `last` deliveries
    are averaged in the end, batch-norm statistics are those of the final one."""

    def play(book: Book) -> FloatArray:
        weights = textbook.by_distances([one[BN_INPUTS] for one in anchor_moments(book)], 0.0)
        delivered: list[list[list[Tensor]]] = []
        for _ in range(ROUNDS):
            book.train()
            own = [[parameter.detach().clone() for parameter in model.parameters()] for model in book.models]
            book.average(weights, textbook.nothing)
            for model, mine in zip(book.models, own, strict=True):
                for (key, parameter), value in zip(model.named_parameters(), mine, strict=True):
                    share = head if textbook.head(key) else norm if textbook.batch_norm(key) else body
                    parameter.data = share * value + (1 - share) * parameter.data
            delivered.append([field.values(model) for model in book.models])
        for number, model in enumerate(book.models):
            picked = zip(*(one[number] for one in delivered[-last:]), strict=True)
            field.put(model, [torch.stack(values).mean(0) for values in picked])
        return weights

    return play


def learnt_self_weight(rate: float) -> Callable[[Book], FloatArray]:
    """FedAP+ whose self-weights follow the slope of the training loss between what others give and one's own."""

    def play(book: Book) -> FloatArray:
        weights = textbook.by_distances([one[BN_INPUTS] for one in anchor_moments(book)], 0.0)
        shares = [0.5 for _ in book.models]
        for _ in range(ROUNDS):
            book.train()
            own = [field.values(model) for model in book.models]
            book.average(weights, head_or_batch_norm)
            for number, (model, mine) in enumerate(zip(book.models, own, strict=True)):
                others = field.values(model)
                slopes = []
                for x, y in field.ordered(book, number, " batches/0", epochs=1, share=0.5):
                    trial = copy.deepcopy(model).train()
                    field.put(trial, [b + shares[number] * (a - b) for a, b in zip(mine, others, strict=True)])
                    F.cross_entropy(trial(x), y).backward()  # type: ignore[no-untyped-call]
                    ways = zip(trial.parameters(), mine, others, strict=True)
                    slopes.append(sum(float((p.grad * (a - b)).sum()) for p, a, b in ways if p.grad is not None))
                shares[number] = min(0.9, max(0.1, shares[number] - rate * sum(slopes) / len(slopes)))
                field.put(model, [b + shares[number] * (a - b) for a, b in zip(mine, others, strict=True)])
        return weights

    return play


BN_INPUTS, HEAD_INPUTS = slice(0, 2), slice(2, 3)

PLUS: dict[str, str | float | bool] = {
    "reestimate": False,
    "self_weight": 0.5,
    "head_at_home": True,
    "personal_share": 0.0,
    "momentum": 0.0,
    "average_last": 0.0,
    "average_after": 0,
}
"""FedAP+ with nothing but head and batch norm at home, for one option at a time beside it."""

CASES: dict[str, tuple[str, dict[str, str | float | bool], Callable[[Book], FloatArray]]] = {
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
    "fedap-plus": (
        "fedap-plus",
        {"reestimate": False, "average_after": 0},
        ditto(0.5, plus=textbook.batch_norm, self_weight=0.15, to_mean=True, moves=True, momentum=0.9, last=2),
    ),
    "fedap-plus-slower": (
        "fedap-plus",
        {"reestimate": False, "average_after": 0, "momentum": 0.45, "head_at_home": True},
        ditto(0.5, plus=head_or_batch_norm, self_weight=0.15, to_mean=True, moves=True, momentum=0.45, last=2),
    ),
    "fedap-plus-blend": (
        "fedap-plus",
        {
            **PLUS,
            "self_weight": 0.15,
            "head_at_home": False,
            "personal_share": 0.85,
            "strength": 2.0,
            "mean_of_steps": False,
            "moves_along": False,
        },
        ditto(2.0, plus=textbook.batch_norm, self_weight=0.15, share=0.85),
    ),
    "fedap-plus-home": ("fedap-plus", PLUS, by_anchor(head_or_batch_norm, BN_INPUTS)),
    "fedap-plus-narrowing": (
        "fedap-plus",
        {**PLUS, "self_weight": 0.6, "final_self_weight": 0.2},
        narrowing(0.6, 0.2),
    ),
    "fedap-plus-parts": (
        "fedap-plus",
        {
            **PLUS,
            "self_weight": 0.3,
            "head_self_weight": 0.8,
            "batch_norm_self_weight": 0.6,
            "average_last": 0.5,
        },
        by_parts(0.3, 0.8, 0.6, last=2),
    ),
    "fedap-plus-learnt": ("fedap-plus", {**PLUS, "learning": 0.2}, learnt_self_weight(0.2)),
    "fedap-plus-personal": (
        "fedap-plus",
        {**PLUS, "personal_share": 1.0, "strength": 0.3, "moves_along": False},
        ditto(0.3, plus=head_or_batch_norm, to_mean=True),
    ),
    "fedap-plus-average": (
        "fedap-plus",
        {**PLUS, "personal_share": 0.4, "average_last": 0.5, "mean_of_steps": False},
        ditto(0.5, plus=head_or_batch_norm, share=0.4, last=2, moves=True),
    ),
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
