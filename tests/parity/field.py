"""Personalised algorithms and server optimisers as a textbook writes them, on the tiny federation of this folder.

Each plays a whole run and leaves in `book.models` the models that the participants would predict with.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from statistics import pstdev

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedap_core.arrays import FloatArray
from tests.parity import federation as given
from tests.parity import textbook
from tests.parity.network import SmoothNet
from tests.parity.textbook import Book

HEAD_LAYER = "fc."


def ordered(book: Book, number: int, which: str, *, epochs: int, share: float = 1.0) -> Iterator[tuple[Tensor, Tensor]]:
    """A client's training batches, in the order of this seed."""
    x, y = book.train_data[number]
    generator = torch.Generator().manual_seed(given.order_seed(given.NAMES[number], book.round_no, which))
    for _ in range(epochs):
        for batch in textbook.batches(torch.randperm(len(y), generator=generator)[: round(share * len(y))]):
            yield x[batch], y[batch]


def optimiser(model: SmoothNet) -> torch.optim.SGD:
    return torch.optim.SGD(
        model.parameters(), lr=given.LEARNING_RATE, momentum=given.MOMENTUM, weight_decay=given.WEIGHT_DECAY
    )


def descend(model: SmoothNet, steps: torch.optim.SGD, x: Tensor, y: Tensor, offset: Tensor | None = None) -> None:
    steps.zero_grad()
    logits = model(x)
    F.cross_entropy(logits if offset is None else logits + offset, y).backward()  # type: ignore[no-untyped-call]
    steps.step()


def values(model: SmoothNet) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def put(model: SmoothNet, new: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), new, strict=True):
            parameter.copy_(value)


def go_on(model: SmoothNet, start: list[Tensor], speed: list[Tensor], momentum: float, keep: textbook.Keep) -> None:
    """v <- momentum v + (mixed - start), x <- start + v; what is kept is as trained."""
    for (key, parameter), before, v in zip(model.named_parameters(), start, speed, strict=True):
        if not keep(key):
            v.mul_(momentum).add_(parameter.detach() - before)
            parameter.data = before + v


def fedbabu(book: Book) -> FloatArray:
    """The head stays as it was; three epochs of fine-tuning in the end."""
    for _ in range(given.ROUNDS):
        for number, model in enumerate(book.models):
            book.fit(number, model, trains=lambda key: not textbook.head(key))
        book.round_no += 1
        book.average(book.by_counts(), textbook.head)
    for number, model in enumerate(book.models):
        book.fit(number, model, which=" copy/0", epochs=3)
    return book.by_counts()


def apfl(alpha: float, *, adaptive: bool) -> Callable[[Book], FloatArray]:
    def play(book: Book) -> FloatArray:
        mixtures = [textbook.network(given.SEED) for _ in book.models]
        owns = [values(model) for model in book.models]
        shares = [alpha for _ in book.models]
        for _ in range(given.ROUNDS):
            for number, (model, mixture) in enumerate(zip(book.models, mixtures, strict=True)):
                shares[number] = _apfl_round(book, number, model, mixture, owns[number], shares[number], adaptive)
            book.round_no += 1
            book.average(book.by_counts(), textbook.nothing)
        for model, mixture, own, share in zip(book.models, mixtures, owns, shares, strict=True):
            put(mixture, [share * v + (1 - share) * w for v, w in zip(own, values(model), strict=True)])
        book.models = mixtures
        return book.by_counts()

    return play


def _apfl_round(
    book: Book, number: int, model: SmoothNet, mixture: SmoothNet, own: list[Tensor], share: float, adaptive: bool
) -> float:
    model.train()
    mixture.train()
    for_model, for_mixture = optimiser(model), optimiser(mixture)
    for step, (x, y) in enumerate(ordered(book, number, " batches/0", epochs=given.EPOCHS)):
        start = [share * v + (1 - share) * w for v, w in zip(own, values(model), strict=True)]
        put(mixture, start)
        if step == 0 and adaptive:
            mixture.zero_grad()
            F.cross_entropy(mixture(x), y).backward()  # type: ignore[no-untyped-call]
            gradient = [parameter.grad for parameter in mixture.parameters()]
            apart = zip(gradient, own, values(model), strict=True)
            slope = sum(float((one * (v - w)).sum()) for one, v, w in apart if one is not None)
            share = min(1.0, max(0.0, share - given.LEARNING_RATE * slope))
        descend(mixture, for_mixture, x, y)
        for v, before, after in zip(own, start, values(mixture), strict=True):
            v.add_(share * (after - before))
        descend(model, for_model, x, y)
    return share


def fedala(book: Book) -> FloatArray:
    """Rate 1, 80 % of the data; at the second delivery until the loss of ten epochs spreads by less than 0.1."""
    before: list[dict[str, Tensor]] = [{} for _ in book.models]
    shares: list[dict[str, Tensor]] = [{} for _ in book.models]
    for _ in range(given.ROUNDS):
        for number, model in enumerate(book.models):
            book.fit(number, model)
            before[number] = {
                key: parameter.detach().clone()
                for key, parameter in model.named_parameters()
                if key.startswith(HEAD_LAYER)
            }
        book.round_no += 1
        book.average(book.by_counts(), textbook.nothing)
        for number, model in enumerate(book.models):
            _merge_head(book, number, model, before[number], shares[number])
    return book.by_counts()


def _merge_head(book: Book, number: int, model: SmoothNet, own: dict[str, Tensor], shares: dict[str, Tensor]) -> None:
    received = {key: dict(model.named_parameters())[key].detach().clone() for key in own}
    is_first = not shares
    if is_first:
        shares.update({key: torch.ones_like(tensor) for key, tensor in own.items()})
    trial = copy.deepcopy(model)
    trial.train()
    losses: list[float] = []
    for epoch in range(50 if is_first else 1):
        loss = torch.zeros(())
        for x, y in ordered(book, number, f" batches/{epoch}", epochs=1, share=0.8):
            _put_head(trial, own, received, shares)
            trial.zero_grad()
            loss = F.cross_entropy(trial(x), y)
            loss.backward()  # type: ignore[no-untyped-call]
            for key, parameter in trial.named_parameters():
                if key in own and parameter.grad is not None:
                    shares[key] = (shares[key] - parameter.grad * (received[key] - own[key])).clip(0.0, 1.0)
        losses.append(float(loss.detach()))
        if len(losses) >= 10 and pstdev(losses[-10:]) < 0.1:
            break
    _put_head(model, own, received, shares)


def _put_head(model: SmoothNet, own: dict[str, Tensor], received: dict[str, Tensor], shares: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key in own:
                parameter.copy_(own[key] + (received[key] - own[key]) * shares[key])


def fedrod(book: Book) -> FloatArray:
    homes = [{key: torch.zeros_like(p) for key, p in m.named_parameters()} for m in book.models]
    for _ in range(given.ROUNDS):
        for number, model in enumerate(book.models):
            _fedrod_round(book, number, model, homes[number])
        book.round_no += 1
        book.average(book.by_counts(), textbook.nothing)
    for model, home in zip(book.models, homes, strict=True):
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                parameter.add_(home[key])
    return book.by_counts()


def _fedrod_round(book: Book, number: int, model: SmoothNet, home: dict[str, Tensor]) -> None:
    offset = torch.bincount(book.train_data[number][1], minlength=3).float().log()
    both = copy.deepcopy(model)
    for key, parameter in both.named_parameters():
        parameter.requires_grad_(textbook.head(key))
    model.train()
    both.train()
    head_only = torch.optim.SGD(
        [parameter for parameter in both.parameters() if parameter.requires_grad],
        lr=given.LEARNING_RATE,
        momentum=given.MOMENTUM,
        weight_decay=given.WEIGHT_DECAY,
    )
    for_model = optimiser(model)
    for x, y in ordered(book, number, " batches/0", epochs=given.EPOCHS):
        start = {key: parameter.detach() + home[key] for key, parameter in model.named_parameters()}
        put(both, list(start.values()))
        descend(both, head_only, x, y)
        for key, parameter in both.named_parameters():
            if textbook.head(key):
                home[key] = home[key] + parameter.detach() - start[key]
        descend(model, for_model, x, y, offset)


def feddbe(strength: float, *, own_mean: bool) -> Callable[[Book], FloatArray]:
    """A vector b of everyone's own on the head's inputs; the mean without b is pulled to the average of everyone's mean
    under the first model, once round 0 has brought it about, or from the start to one's own."""

    def play(book: Book) -> FloatArray:
        means = [_mean_features(model, x) for model, (x, _) in zip(book.models, book.train_data, strict=True)]
        if not own_mean:
            means = [torch.from_numpy(row).float() @ torch.stack(means) for row in book.by_counts()]
        shifts = [torch.zeros(8, requires_grad=True) for _ in book.models]
        for round_no in range(given.ROUNDS):
            pull = strength if own_mean or round_no > 0 else 0.0
            for number, model in enumerate(book.models):
                model.train()
                for_model, for_shift = optimiser(model), torch.optim.SGD([shifts[number]], lr=given.LEARNING_RATE)
                for x, y in ordered(book, number, "", epochs=given.EPOCHS):
                    for_model.zero_grad()
                    for_shift.zero_grad()
                    z = model.features(x)
                    loss = F.cross_entropy(model.fc(z + shifts[number]), y)
                    loss = loss + pull * ((z.mean(0) - means[number]) ** 2).mean()
                    loss.backward()  # type: ignore[no-untyped-call]
                    for_model.step()
                    for_shift.step()
            book.round_no += 1
            book.average(book.by_counts(), textbook.nothing)
        for model, shift in zip(book.models, shifts, strict=True):
            with torch.no_grad():
                model.fc.bias.add_(model.fc.weight @ shift)
        return book.by_counts()

    return play


def _mean_features(model: SmoothNet, x: Tensor) -> Tensor:
    """With the batch-norm statistics of these samples."""
    trial = copy.deepcopy(model)
    trial.norm.momentum = trial.scale.momentum = 1.0
    trial.train()
    trial(x)
    trial.eval()
    return trial.features(x).mean(0).detach()


def scaffold(book: Book) -> FloatArray:
    """Option II; with momentum, c_i is the mean of the gradients by how far each of them moved the model."""
    common = [torch.zeros_like(one) for one in book.models[0].parameters()]
    controls = [[torch.zeros_like(one) for one in model.parameters()] for model in book.models]
    for _ in range(given.ROUNDS):
        for number, model in enumerate(book.models):
            own, start = controls[number], values(model)
            model.train()
            optimiser_, velocity, way = optimiser(model), 0.0, 0.0
            for x, y in ordered(book, number, "", epochs=given.EPOCHS):
                optimiser_.zero_grad()
                F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
                for parameter, c, c_i in zip(model.parameters(), common, own, strict=True):
                    if parameter.grad is not None:
                        parameter.grad += c - c_i
                optimiser_.step()
                velocity = given.MOMENTUM * velocity + given.LEARNING_RATE
                way += velocity
            moved = zip(own, common, start, values(model), strict=True)
            controls[number] = [c_i - c + (x - y) / way for c_i, c, x, y in moved]
        book.round_no += 1
        book.average(book.by_counts(), textbook.nothing)
        shares = book.by_counts()[0]
        common = [
            sum(float(w) * one for w, one in zip(shares, each, strict=True)) for each in zip(*controls, strict=True)
        ]
    return book.by_counts()


def fedamp(own: float, sigma: float) -> Callable[[Book], FloatArray]:
    """Personal models, each pulled (strength 1) towards its mixture u; sigma counts median squared distances."""

    def play(book: Book) -> FloatArray:
        personal = [textbook.network(given.SEED) for _ in book.models]
        for _ in range(given.ROUNDS):
            for number, (received, model) in enumerate(zip(book.models, personal, strict=True)):
                book.fit(number, model, mu=1.0, towards=values(received))
            book.round_no += 1
            flats = [torch.cat([one.flatten().double() for one in values(model)]) for model in personal]
            squared = [[float(((a - b) ** 2).sum()) for b in flats] for a in flats]
            typical = float(np.median([squared[i][j] for i in range(3) for j in range(3) if i != j]))
            attention = np.exp(-np.array(squared) / (sigma * typical))
            np.fill_diagonal(attention, 0.0)
            weights = (1 - own) * attention / attention.sum(axis=1, keepdims=True) + own * np.eye(3)
            for received, model in zip(book.models, personal, strict=True):
                received.load_state_dict(model.state_dict())
            book.average(weights, textbook.nothing)
        book.models = personal
        return np.full((3, 3), (1 - own) / 2) + (own - (1 - own) / 2) * np.eye(3)

    return play


def pfedsim(book: Book) -> FloatArray:
    """R = 4: two rounds as FedAvg, two mixed by the heads' cosines; a head's similarity with itself is 0.9999."""
    for number in range(given.ROUNDS):
        book.train()
        if number < 2:
            book.average(book.by_counts(), textbook.nothing)
            continue
        heads = [torch.cat([model.fc.weight.flatten(), model.fc.bias]).detach() for model in book.models]
        alike = np.array([[float(F.cosine_similarity(a, b, dim=0)) for b in heads] for a in heads])
        weights = -np.log(1 - np.clip(alike, 0.0, 0.9999))
        book.average(weights / weights.sum(axis=1, keepdims=True), textbook.head)
    return np.full((3, 3), 1 / 3)


def server(direction: Callable[[list[Tensor]], list[Tensor]], rate: float) -> Callable[[Book], FloatArray]:
    """FedAvg whose average is not taken over: a server steps from the last model along a direction."""

    def play(book: Book) -> FloatArray:
        current = values(book.models[0])
        for _ in range(given.ROUNDS):
            book.train()
            book.average(book.by_counts(), textbook.nothing)
            step = direction([y - x for y, x in zip(values(book.models[0]), current, strict=True)])
            current = [x + rate * one for x, one in zip(current, step, strict=True)]
            for model in book.models:
                put(model, current)
        return book.by_counts()

    return play


def momentum_of_steps(beta: float) -> Callable[[Book], FloatArray]:
    mean: list[Tensor] = []

    def direction(step: list[Tensor]) -> list[Tensor]:
        mean[:] = [beta * m + one for m, one in zip(mean or [torch.zeros_like(one) for one in step], step, strict=True)]
        return mean

    return server(direction, 1.0)


def adam_of_steps(rate: float, beta1: float, beta2: float, tau: float) -> Callable[[Book], FloatArray]:
    moments: dict[str, list[Tensor]] = {}

    def direction(step: list[Tensor]) -> list[Tensor]:
        zeros = [torch.zeros_like(one) for one in step]
        first = moments["first"] = [
            beta1 * m + (1 - beta1) * one for m, one in zip(moments.get("first", zeros), step, strict=True)
        ]
        second = moments["second"] = [
            beta2 * v + (1 - beta2) * one**2 for v, one in zip(moments.get("second", zeros), step, strict=True)
        ]
        return [m / (v.sqrt() + tau) for m, v in zip(first, second, strict=True)]

    return server(direction, rate)
