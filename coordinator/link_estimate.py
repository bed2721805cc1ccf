"""Estimates how long a round takes over given links and how many bytes a run transfers, and proposes encoding and
epochs.

Pure: takes sizes and speeds, returns sentences. Sizes are those of the layout, before compression and without headers;
links are assumed to run at full speed, so real rounds take somewhat longer. The effect of an encoding on accuracy is
not considered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fedap_core.errors import InvalidInput
from protocol.encodings import ENCODINGS, Encoding
from protocol.tensors import Layout, row_encoding

_UNITS = {"bit/s": 1 / 8, "B/s": 1.0}
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_LINK = re.compile(r"(\d+(?:\.\d+)?) ?(k|M|G|)(bit/s|B/s)")

SMALL_SHARE = 0.25
"""Share of a round that transfers may take before a change is proposed."""
MOST_EPOCHS = 8
"""Most epochs per round that are proposed: with more, members drift far apart between two mixes."""
PROPOSED: Encoding = "coarse"
"""The smallest encoding that reached the target accuracy in no more rounds than f32 (docs/scale.md)."""


def parse_link(field: str, text: str) -> float:
    """Return the bytes per second of a text such as 10Mbit/s, 1Gbit/s, 500kbit/s or 2MB/s."""
    found = _LINK.fullmatch(text.strip())
    speed = 0.0 if found is None else float(found[1]) * _PREFIXES[found[2]] * _UNITS[found[3]]
    if speed <= 0.0:
        raise InvalidInput(field, text, "a speed such as 10Mbit/s or 2MB/s")
    return speed


@dataclass(frozen=True, kw_only=True)
class LinkSpeeds:
    """member: bytes per second of a member's line, each way; coordinator: of the line that all share, None: no limit.
    epoch_s: duration of one epoch at the slowest member; None: unknown."""

    member: float
    coordinator: float | None = None
    epoch_s: float | None = None

    @staticmethod
    def parse(link: str, coordinator_link: str | None, epoch_s: float | None) -> LinkSpeeds:
        """Parse the options of the command line."""
        shared = None if coordinator_link is None else parse_link("coordinator-link", coordinator_link)
        return LinkSpeeds(member=parse_link("link", link), coordinator=shared, epoch_s=epoch_s)


@dataclass(frozen=True, kw_only=True)
class LinkJob:
    """What is transferred, and how often.

    shared: the tensors of an update; once_bytes: bytes sent once to a member (initial model, anchor). members: how many
    take part in one round. sealed: bytes of a sealed update, which has only one encoding; 0 in other runs.
    """

    shared: Layout
    once_bytes: int
    members: int
    rounds: int
    epochs: int
    encoding: Encoding
    speeds: LinkSpeeds
    sealed: int = 0

    def ways(self, encoding: Encoding) -> tuple[int, int]:
        """Return the bytes of one member in a round, (up, down)."""
        if self.sealed:
            return self.sealed, self.sealed
        return self.shared.size_bytes(encoding), self.shared.size_bytes(row_encoding(self.shared, encoding))

    def transfer_s(self, encoding: Encoding) -> float:
        """Return the seconds of a round spent in transfers: down, then up."""
        both = sum(self.ways(encoding))
        alone, shared = both / self.speeds.member, self.speeds.coordinator
        return alone if shared is None else max(alone, self.members * both / shared)

    def run_bytes(self, encoding: Encoding, rounds: int) -> int:
        """Return the bytes of one member in the whole run."""
        return self.once_bytes + rounds * sum(self.ways(encoding))


def link_lines(job: LinkJob) -> Iterator[str]:
    """Yield estimates for the configured run and for all encodings, and a proposal."""
    yield _estimate(job)
    if not job.sealed:
        yield (
            "Link: "
            + "; ".join(
                f"{encoding} {_amount(sum(job.ways(encoding)))} and {_time(job.transfer_s(encoding))}"
                for encoding in ENCODINGS
            )
            + ", per member and round."
        )
    yield _proposal(job)


def _estimate(job: LinkJob) -> str:
    up, down = job.ways(job.encoding)
    taken = _time(job.transfer_s(job.encoding))
    sizes = f"{_amount(down)} down and {_amount(up)} up take {taken}"
    whole = f"a member moves {_amount(job.run_bytes(job.encoding, job.rounds))} in {job.rounds} rounds"
    if job.speeds.epoch_s is None:
        return f"Link: {sizes} a round; {whole}."
    round_s = job.transfer_s(job.encoding) + job.epochs * job.speeds.epoch_s
    return f"Link: {sizes} of a round of {_time(round_s)}; {whole}, which take {_time(job.rounds * round_s)}."


def _proposal(job: LinkJob) -> str:
    if job.speeds.epoch_s is None:
        return "Proposal: none without --epoch-seconds, the time of one epoch at the slowest member."
    encoding, epochs = _chosen(job, job.speeds.epoch_s)
    if (encoding, epochs) == (job.encoding, job.epochs):
        return f"Proposal: leave it; transfers take {_share(job, encoding, epochs, job.speeds.epoch_s):.0%} of a round."
    rounds = max(1, -(-job.rounds * job.epochs // epochs))
    round_s = job.transfer_s(encoding) + epochs * job.speeds.epoch_s
    settings = f'encoding = "{encoding}"' if encoding != job.encoding else ""
    if epochs != job.epochs:
        settings += f"{', ' if settings else ''}rounds = {rounds}, training.epochs = {epochs}"
    return (
        f"Proposal: {settings}: {_time(round_s)} a round, {_time(rounds * round_s)} for the run and"
        f" {_amount(job.run_bytes(encoding, rounds))} per member; transfers take"
        f" {_share(job, encoding, epochs, job.speeds.epoch_s):.0%} instead of"
        f" {_share(job, job.encoding, job.epochs, job.speeds.epoch_s):.0%} of a round."
    )


def _chosen(job: LinkJob, epoch_s: float) -> tuple[Encoding, int]:
    """Keep the configured setting if transfers are a small share of a round; otherwise choose fewer bytes, then more
    epochs."""
    if _share(job, job.encoding, job.epochs, epoch_s) <= SMALL_SHARE:
        return job.encoding, job.epochs
    smaller = not job.sealed and sum(job.ways(PROPOSED)) < sum(job.ways(job.encoding))
    encoding = PROPOSED if smaller else job.encoding
    epochs = job.epochs
    while epochs < MOST_EPOCHS and _share(job, encoding, epochs, epoch_s) > SMALL_SHARE:
        epochs += 1
    return encoding, epochs


def _share(job: LinkJob, encoding: Encoding, epochs: int, epoch_s: float) -> float:
    transfer_s = job.transfer_s(encoding)
    return transfer_s / (transfer_s + epochs * epoch_s)


def _amount(size_bytes: float) -> str:
    if size_bytes < 1e6:
        return f"{size_bytes / 1e3:.1f} kB"
    return f"{size_bytes / 1e6:.1f} MB" if size_bytes < 1e9 else f"{size_bytes / 1e9:.2f} GB"


def _time(seconds: float) -> str:
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    if seconds < 90:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
