"""Compatibility of protocol versions. The number belongs to SPEC.md, not to any release.

A header of another major version is not read beyond its version. A minor version may add kinds, optional fields and
codes. A receiver ignores fields it does not know when the header says a higher minor than its own, and refuses them
otherwise: newer peers are accepted, and misspelt fields are still detected.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.errors import InvalidField


@dataclass(frozen=True, kw_only=True, order=True)
class Version:
    """major.minor, ordered by major, then minor."""

    major: int
    minor: int

    def __post_init__(self) -> None:
        for name in ("major", "minor"):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= 127:  # one byte each in msgpack, at a fixed place
                raise InvalidField(name, value, "a whole number from 0 to 127")

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def understands(self, other: Version) -> bool:
        """Whether messages of `other` can be decoded here: the major numbers are equal."""
        return self.major == other.major


VERSION = Version(major=5, minor=3)
"""The version of this code."""
