"""Decides whether a drill passed, by comparing its outcome with the undisturbed run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MIB = 1 << 20
MOST_MEMORY_BYTES = 64 * MIB
"""Memory that a party may need beyond its need in the undisturbed run."""
MOST_FILES = 64
"""Descriptors that a party may have open beyond those of the undisturbed run, for connections being replaced."""
MOST_LOG_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class DrillOutcome:
    """The outcome of a run.

    models: a member's final model as digests by tensor; absent if there is none. codes: every party's last exit code,
    None if it was still running at the timeout. faults: sentences about anything else that went wrong.
    """

    models: Mapping[str, Mapping[str, str]]
    codes: Mapping[str, int | None]
    seconds: float
    struck: int
    memory_bytes: Mapping[str, int]
    files: Mapping[str, int]
    log_bytes: Mapping[str, int]
    line_bytes: Mapping[str, int]
    faults: tuple[str, ...] = ()
    lost_state: bool = False
    """Whether a participant had to start over: then the bits of the undisturbed run cannot be expected."""
    notes: Mapping[str, object] = field(default_factory=dict)
    """Further figures, for the record."""


@dataclass(frozen=True, kw_only=True)
class DrillVerdict:
    """The drill passed if there are no complaints."""

    complaints: tuple[str, ...]
    memory_growth_bytes: int
    log_bytes: int

    @property
    def survived(self) -> bool:
        return not self.complaints


def judge(outcome: DrillOutcome, undisturbed: DrillOutcome, *, same_bits: bool) -> DrillVerdict:
    """Judge a drill. same_bits: whether the final models must equal those of the undisturbed run (barrier mode)."""
    complaints = list(outcome.faults)
    complaints += [_ending(party, code) for party, code in outcome.codes.items() if code != 0]
    complaints += _model_faults(outcome, undisturbed, same_bits=same_bits and not outcome.lost_state)
    growth = {
        party: used - undisturbed.memory_bytes[party]
        for party, used in outcome.memory_bytes.items()
        if party in undisturbed.memory_bytes
    }
    complaints += [
        f"{party} needed {more / MIB:.0f} MiB more memory than undisturbed"
        for party, more in growth.items()
        if more > MOST_MEMORY_BYTES
    ]
    complaints += [
        f"{party} had {opened} files open, undisturbed {undisturbed.files[party]}"
        for party, opened in outcome.files.items()
        if opened > undisturbed.files.get(party, opened) + MOST_FILES
    ]
    complaints += [
        f"{party} wrote {size:,} bytes of log"
        for party, size in outcome.log_bytes.items()
        if size > max(MOST_LOG_BYTES, 2 * undisturbed.log_bytes.get(party, 0))
    ]
    return DrillVerdict(
        complaints=tuple(complaints),
        memory_growth_bytes=max(growth.values(), default=0),
        log_bytes=sum(outcome.log_bytes.values()),
    )


def _ending(party: str, code: int | None) -> str:
    if code is None:
        return f"{party} did not end"
    return f"{party} was ended by signal {-code}" if code < 0 else f"{party} ended with exit code {code}"


def _model_faults(outcome: DrillOutcome, undisturbed: DrillOutcome, *, same_bits: bool) -> list[str]:
    found = []
    for member, expected in undisturbed.models.items():
        model = outcome.models.get(member)
        if model is None:
            found.append(f"{member} has no final model")
        elif set(model) != set(expected):
            found.append(f"{member}'s final model has other tensors than undisturbed")
        elif same_bits and model != expected:
            differing = [name for name, digest in expected.items() if model[name] != digest]
            found.append(f"{member}'s final model differs from the undisturbed one in {', '.join(differing)}")
    return found
