"""Scenarios about transfers, which only a model larger than a slice needs: false, missing and misplaced slices, and
grants for more than was offered."""

from __future__ import annotations

from protocol.limits import SLICE_BYTES
from protocol.messages import Grant, Slice
from protocol.tensors import TensorSet
from scripts.drill.hostile.false_coordinator import Scenario
from scripts.drill.hostile.scripted_coordinator import FalseCoordinator


def _present(weights: TensorSet) -> tuple[str, memoryview]:
    """Return the name and the bytes of a payload larger than a slice."""
    if weights.transfer is None or weights.data is None:
        raise ValueError(f"{weights.size_bytes} bytes fit one message; expected a model above {SLICE_BYTES} bytes")
    return weights.transfer, weights.data


def _other_bytes(session: FalseCoordinator) -> None:
    session.welcome()
    order = session.train(0)
    _, data = _present(order.weights)
    session.send(order, instead=bytes(data)[::-1])
    session.receive("error")
    session.go_on_honestly()


def _withheld(session: FalseCoordinator) -> None:
    session.welcome()
    session.announce(session.train(0))
    session.receive("grant")
    session.end_honestly(1)


def _misplaced(session: FalseCoordinator) -> None:
    session.welcome()
    order = session.train(0)
    transfer, data = _present(order.weights)
    session.announce(order)
    session.receive("grant")
    second = data[SLICE_BYTES : 2 * SLICE_BYTES]
    for _ in range(5):
        session.send(Slice(transfer=transfer, offset=SLICE_BYTES, data=second))
    session.send(Slice(transfer=transfer, offset=512 * SLICE_BYTES, data=second))
    session.send(Slice(transfer=transfer, offset=7, data=second))
    session.go_on_honestly()


def _granted_beyond(session: FalseCoordinator) -> None:
    session.welcome()
    update = session.round(0)
    transfer = None if update is None else update.weights.transfer
    if transfer is None:
        return
    for until in (SLICE_BYTES, 512 * SLICE_BYTES, 7):
        session.send(Grant(transfer=transfer, received=0, until=until, again=True))
    session.end_honestly(1)


TRANSFERS: tuple[Scenario, ...] = (
    Scenario(name="slices-other", does="The slices are not those of the payload that its order names.",
             outcome="They are refused with an `error` and never become a model; the run continues as planned.",
             play=_other_bytes, error_code="bad-checksum"),
    Scenario(name="slices-withheld", does="It offers the weights of an order, never sends them, and ends the run.",
             outcome="Nothing is trained for an order that is not complete; the end is taken.", play=_withheld,
             updates=0),
    Scenario(name="slices-misplaced", does="It sends slices out of order, repeatedly, beyond the end and off the grid.",
             outcome="They are dropped or refused; the run continues as planned.",
             play=_misplaced, error_code="bad-transfer"),
    Scenario(name="grants-beyond", does="It grants more of an update than there is, and asks for it again.",
             outcome="What was offered is sent again; nothing beyond its end leaves.", play=_granted_beyond,
             error_code="bad-transfer"),
)  # fmt: skip
