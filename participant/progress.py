"""Show a participant's progress: a bar on a terminal, otherwise one JSON line per event. Decides nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

import structlog
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from participant.page.notes import noting
from participant.training import pace
from protocol.host.logs import CountRepeats, LogFile
from protocol.host.web.address import PageAddress

log = structlog.get_logger()

_COUNTED = frozenset({"message.withheld", "line.lost", "line.opened"})
"""Log lines below warning level that a coordinator can cause as often as it likes."""

Watch = Callable[[pace.Progress], None]


def is_terminal() -> bool:
    return sys.stderr.isatty()


def configure_logging(*, terminal: bool, file: Path | None = None) -> None:
    """Log readable lines to a terminal, otherwise JSON, both on stderr; or JSON to a file."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        complete,
    ]
    render: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if terminal and file is None else structlog.processors.JSONRenderer()
    )
    output = sys.stderr if file is None else LogFile(file)
    structlog.configure(
        processors=[*shared, CountRepeats(render, complete, also=_COUNTED)],
        logger_factory=structlog.PrintLoggerFactory(output),  # type: ignore[arg-type]
    )


def complete(_logger: object, _method: str, line: MutableMapping[str, object]) -> MutableMapping[str, object]:
    """Add run, round and participant to every line; None while they are not known."""
    for name in ("run", "round", "participant"):
        line.setdefault(name, None)
    return line


@contextmanager
def watching(*, terminal: bool) -> Iterator[Watch]:
    """Yield a callback that shows the progress of every batch."""
    if not terminal:
        yield log_finished_rounds
        return
    columns = (
        TextColumn("round {task.fields[round]}"),
        TextColumn("epoch {task.fields[epoch]}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]}  accuracy {task.fields[accuracy]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=None, round="-", epoch="-", loss="-", accuracy="-")

        def tell(progress: pace.Progress) -> None:
            if progress.loss is not None:
                bar.update(task, loss=f"{progress.loss:.4f}")
            if progress.accuracy is not None:
                bar.update(task, accuracy=f"{100 * progress.accuracy:.2f} %")
            bar.update(
                task,
                total=progress.epochs * progress.batches,
                completed=progress.epoch * progress.batches + progress.batch,
                round=f"{progress.round_no + 1}/{progress.rounds}",
                epoch=f"{min(progress.epoch + 1, progress.epochs)}/{progress.epochs}",
            )

        yield tell


@contextmanager
def showing(address: PageAddress | None, state: Path) -> Iterator[Watch]:
    """Yield a callback that writes what a page shows. With an address, also serve the page in a separate process;
    without one, a page can still be opened later."""
    if address is None:
        yield noting(state)
        return
    from protocol.host.web.serving import start_page_process  # of the extra `page`

    process = start_page_process("participant.page", address, {"state": str(state)})
    print(process.words, flush=True)
    try:
        yield noting(state)
    finally:
        process.close()


def log_finished_rounds(progress: pace.Progress) -> None:
    """Log one line per round, once it is trained."""
    if progress.loss is not None:
        log.info(
            "round.trained",
            round=progress.round_no + 1,
            rounds=progress.rounds,
            loss=round(progress.loss, 6),
            accuracy=progress.accuracy,
        )
