"""Opens a participant's line again and again and reads what comes, slowly: a process of its own, because what is sent
to it may end it. Ends with 0 after so many lines were lost: `python -m tests.support.plain_line ENDPOINT LINES`."""

from __future__ import annotations

import sys

import zmq

from participant.wire.line import Address, Line

PAUSE_MS = 50


def main(endpoint: str, lines: int) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    for _ in range(lines):
        line = Line(context, Address(endpoint=endpoint))
        while True:
            if line.monitor.poll(PAUSE_MS) and line.read_monitor() is not None:
                break
            for _ in range(4):  # slower than any sender: queues must be full
                line.receive()
        line.close()
    context.term()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
