"""Puts a mended fault back and explores: `python -m tests.simulation.explored.put_back batch|goodbye SCOPE`.

batch: a whole batch is judged before the machine hears any of it, and orders whose payloads are not wanted are handed
on without them. goodbye: a participant that is started again after its goodbye does not know that it is done.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from scripts.explore.scope import Scope
from scripts.inmemory import small_slices

small_slices.shrink()

from participant.decisions.events import Announced, MessageReceived  # noqa: E402
from participant.decisions.steps import Activity  # noqa: E402
from participant.wire.message_stream import MessageStream  # noqa: E402 - slices are small from here on
from protocol.codec import offers  # noqa: E402
from protocol.contracts import Buffer  # noqa: E402
from protocol.messages import ORDERS, Message  # noqa: E402
from scripts.explore.exploring import explored  # noqa: E402
from scripts.explore.summary import summary_of  # noqa: E402
from scripts.inmemory.centre import Frames  # noqa: E402
from scripts.inmemory.home import MemoryHome, Unfilled  # noqa: E402

AT_WORK = (Activity.MEASURING, Activity.IDLE, Activity.TRAINING)
"""Phases of a member."""


class HandingOn(MessageStream):
    """What is not wanted at the moment is handed on as it is."""

    def receive(self, frames: Sequence[Buffer]) -> list[Message]:
        complete = super().receive(frames)
        unwanted, self.announced = self.announced, None
        return complete if unwanted is None else [unwanted]


class JudgesBatches(MemoryHome):
    """All messages of a batch are judged, then all are handled; orders are of use to members alone."""

    def boot(self) -> None:
        super().boot()
        self.stream = HandingOn(self._wanted)

    def _wanted(self, message: Message) -> bool:
        return (message.KIND not in ORDERS or self.machine.phase in AT_WORK) and self.machine.wants(message)

    def receive(self, batch: Sequence[Frames]) -> None:
        received = [self.stream.receive(frames) for frames in batch]
        self._flush()
        for message in (one for complete in received for one in complete):
            if offers(message) and message.KIND in ORDERS and self._wanted(message):
                raise Unfilled(f"{message.KIND} is acted on without its bytes")
            self._tell(Announced(message=message) if offers(message) else MessageReceived(message=message))
        self._step([])


class Forgetful(MemoryHome):
    """Started again, it does not look at what it has said last."""

    def has_finished(self) -> bool:
        return False


FAULTS = {"batch": JudgesBatches, "goodbye": Forgetful}

if __name__ == "__main__":
    scope = Scope.read(sys.argv[2])
    result = explored(scope, FAULTS[sys.argv[1]])
    print(summary_of(scope, result))
    sys.exit(0 if result.counterexample is None else 1)
