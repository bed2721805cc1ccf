"""Defines one drill: a seed, and choices that follow from it unless they are given.

Pure. Consecutive seeds alternate between the small and the large model and between lines with and without CURVE, and
cycle through the kinds, so that any sequence of seeds is balanced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fedap_core.errors import InvalidInput, require_known, unknown_name
from protocol.encodings import ENCODINGS, Encoding, encoding_of

Mode = Literal["barrier", "continuous"]
MODES: tuple[Mode, ...] = ("barrier", "continuous")

SIZES = {"small": 16_384, "large": 10_700_000}
"""Bytes of the model. The large one is sent in slices, the small one in one message."""

PACE_S = 2.0
"""Pause per round in long runs."""

MOST_BYTES = 1 << 30

MEMBERS = ("a", "b", "c")
COORDINATOR = "coordinator"
PARTIES = (COORDINATOR, *MEMBERS)


@dataclass(frozen=True, kw_only=True)
class Drill:
    """One disturbed run. All its faults follow from these fields."""

    seed: int
    kind: str
    model_bytes: int
    curve: bool
    mode: Mode = "barrier"
    rounds: int = 4
    pace_s: float = 0.0
    """Pause of every participant in every round, for long runs."""
    sealed: bool = False
    """Whether the members hide their updates from the coordinator."""
    encoding: Encoding = "f32"

    @property
    def setting(self) -> str:
        """Equal for all drills that are compared with the same undisturbed run."""
        line = "curve" if self.curve else "plain"
        encoding = "" if self.encoding == "f32" else f"-{self.encoding}"
        return f"{self.model_bytes}-{line}-{self.mode}-{self.rounds}{'-sealed' if self.sealed else ''}{encoding}"

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.seed}-{self.setting}"

    @property
    def replay(self) -> str:
        """The command that repeats it."""
        size = next((name for name, value in SIZES.items() if value == self.model_bytes), str(self.model_bytes))
        line = "--curve" if self.curve else "--no-curve"
        long = f" --hostile-minutes {self.rounds * self.pace_s / 60.0:g}" if self.pace_s else ""
        sealed = " --sealed" if self.sealed else ""
        encoding = "" if self.encoding == "f32" else f" --encoding {self.encoding}"
        asked = f"--kind {self.kind} --model {size} {line} --mode {self.mode}{sealed}{encoding}{long}"
        return f"fedap-lab drill --replay {self.seed} {asked}"


@dataclass(frozen=True, kw_only=True)
class DrillOptions:
    """What the user requested; None: both, alternating."""

    kinds: tuple[str, ...]
    model_bytes: int | None = None
    curve: bool | None = None
    mode: Mode = "barrier"
    rounds: int = 4
    pace_s: float = 0.0
    sealed: bool = False
    encoding: Encoding = "f32"

    def lasting(self, minutes: float) -> DrillOptions:
        """Return options for runs of this duration: many rounds with pauses; small and plain unless requested."""
        return replace(
            self,
            model_bytes=self.model_bytes or SIZES["small"],
            curve=bool(self.curve),
            rounds=max(4, round(60.0 * minutes / PACE_S)),
            pace_s=PACE_S,
        )

    def drill(self, seed: int) -> Drill:
        """Return the drill of a seed: its lowest bit decides the model, the next one encryption, the rest the kind. In
        long runs every seed takes the next kind."""
        large, curve = bool(seed & 1), bool(seed & 2)
        turn = seed if self.pace_s else seed >> 2
        return Drill(
            seed=seed,
            kind=self.kinds[turn % len(self.kinds)],
            model_bytes=self.model_bytes or SIZES["large" if large else "small"],
            curve=curve if self.curve is None else self.curve,
            mode=self.mode,
            rounds=self.rounds,
            pace_s=self.pace_s,
            sealed=self.sealed,
            encoding=self.encoding,
        )


def parse_size(text: str | None) -> int | None:
    """Parse small, large or a number of bytes; None stays None."""
    if text is None or text in SIZES:
        return None if text is None else SIZES[text]
    if not text.isdecimal() or len(text) > 20 or not 1 <= int(text) <= MOST_BYTES:
        raise InvalidInput("model", text, f"small, large or a number of bytes from 1 to {MOST_BYTES}")
    return int(text)


def parse_kinds(given: Sequence[str], known: Sequence[str], default: Sequence[str]) -> tuple[str, ...]:
    """Return the requested kinds, all of them known; if there are none, the default."""
    for kind in given:
        require_known("kind", kind, known)
    return tuple(given) or tuple(default)


def parse_encoding(text: str, *, sealed: bool) -> Encoding:
    require_known("encoding", text, ENCODINGS)
    if sealed and text != "f32":
        raise InvalidInput("encoding", text, "f32 with --sealed: sealed updates have only one encoding")
    return encoding_of(text)


def parse_mode(text: str) -> Mode:
    for mode in MODES:
        if text == mode:
            return mode
    raise unknown_name("mode", text, MODES)
