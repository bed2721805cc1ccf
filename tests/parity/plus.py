"""FedAP, Ditto and FedAP+ with each of its options as a textbook writes them, on the tiny federation of this folder."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedap_core.arrays import FloatArray
from tests.parity import field, textbook
from tests.parity.federation import ANCHOR_SEED, ROUNDS, SEED
from tests.parity.textbook import Book, Keep, Moments

Play = Callable[[Book], FloatArray]
Case = tuple[str, dict[str, str | float | bool], Play]
"""An algorithm, its options, and how a textbook plays it."""

BN_INPUTS, HEAD_INPUTS = slice(0, 2), slice(2, 3)


def anchor_moments(book: Book) -> list[Moments]:
    """Moments of everything that enters BN layers (first two) and the head (last), under the anchor."""
    anchor = textbook.network(ANCHOR_SEED)
    return [[textbook.moments_of(z) for z in textbook.layer_inputs(anchor, x)] for x, _ in book.train_data]


def by_anchor(keep: Keep, layers: slice, self_weight: float = 0.5, *, full: bool = False) -> Play:
    def play(book: Book) -> FloatArray:
        moments = [one[layers] for one in anchor_moments(book)]
        weights = textbook.by_distances(moments, self_weight, full=full)
        for _ in range(ROUNDS):
            book.train()
            book.average(weights, keep)
        return weights

    return play


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
    forgets: float = 0.0,
) -> Play:
    """x as FedAvg or, with `plus`, mixed by FedAP's W but for what that keeps; v beside it, pulled towards x as
    delivered. What is compared in the end is v, or `share` of v and the rest of x, as a mean over the `last` rounds.
    forgets: the least share of that mean that a new model takes, in units of 1 - exp(-loss of v).
    to_mean: v ends a round at the mean of its steps. moves: v moves by as much as x does between deliveries.
    momentum: of what is mixed in x, from the start of one round to that of the next, at most t / (t + 3)."""

    def play(book: Book) -> FloatArray:
        personal = [textbook.network(SEED) for _ in book.models]
        weights, keep = book.by_counts(), plus or textbook.nothing
        if plus is not None:
            weights = textbook.by_distances([one[BN_INPUTS] for one in anchor_moments(book)], self_weight)
        kept: list[list[list[Tensor]]] = []
        wrong: list[list[float]] = []
        speeds = [[torch.zeros_like(parameter) for parameter in model.parameters()] for model in book.models]
        for _ in range(ROUNDS):
            latest: list[list[Tensor]] = []
            wrong.append([])
            for number, (model, own) in enumerate(zip(book.models, personal, strict=True)):
                delivered = [parameter.detach().clone() for parameter in model.parameters()]
                book.fit(number, model)
                loss = book.fit(number, own, mu=strength, towards=delivered, which=" personal/0", to_mean=to_mean)
                wrong[-1].append(1 - np.exp(-loss))
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
            taken = [max(1 / (place + 1), forgets * one[number]) for place, one in enumerate(wrong[-last:])]
            left = [float(np.prod([1 - later for later in taken[place + 1 :]])) for place in range(last)]
            picked = zip(*(one[number] for one in kept[-last:]), strict=True)
            parts = [new * rest for new, rest in zip(taken, left, strict=True)]
            field.put(own, [sum(p * v for p, v in zip(parts, values, strict=True)) for values in picked])
        book.models = personal
        return weights

    return play


def head_or_batch_norm(key: str) -> bool:
    return textbook.head(key) or textbook.batch_norm(key)


def narrowing(first: float, last: float) -> Play:
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


def by_parts(body: float, head: float, norm: float, last: int) -> Play:
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


def learnt_self_weight(rate: float) -> Play:
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


PLUS: dict[str, str | float | bool] = {
    "reestimate": False,
    "self_weight": 0.5,
    "head_at_home": True,
    "personal_share": 0.0,
    "momentum": 0.0,
    "average_last": 0.0,
    "average_after": 0,
    "forgetting": 0.0,
}
"""FedAP+ with nothing but head and batch norm at home, for one option at a time beside it."""

PLUS_CASES: dict[str, Case] = {
    "fedap-plus": (
        "fedap-plus",
        {"reestimate": False, "average_after": 0},
        ditto(
            0.5,
            plus=textbook.batch_norm,
            self_weight=0.15,
            share=0.75,
            to_mean=True,
            moves=True,
            momentum=0.9,
            last=2,
            forgets=1.0,
        ),
    ),
    "fedap-plus-slower": (
        "fedap-plus",
        {
            "reestimate": False,
            "average_after": 0,
            "momentum": 0.45,
            "head_at_home": True,
            "personal_share": 1.0,
            "forgetting": 0.0,
        },
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
    "fedap-plus-forgetting": (
        "fedap-plus",
        {**PLUS, "personal_share": 1.0, "strength": 0.3, "moves_along": False, "average_last": 0.75, "forgetting": 1.3},
        ditto(0.3, plus=head_or_batch_norm, to_mean=True, last=3, forgets=1.3),
    ),
}
