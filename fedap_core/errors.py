"""The error for invalid user input: it names the field, the value and the fix.

Commands turn `InvalidInput`, a library that is not installed, a full disk, and a path that cannot be opened or created,
into one line on stderr and exit code 2; any other exception is a bug.
"""

from __future__ import annotations

import difflib
import errno
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Sequence

from fedap_core.exit_codes import WRONG_INPUT, cut_short_by
from fedap_core.extras import EXTRAS

_SHOWN_CHARS = 120
"""A longer value is truncated in the message: the reader needs to recognise it, not to read it all."""

_UNUSABLE = frozenset(
    {
        errno.EACCES, errno.EBUSY, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT,
        errno.ENOTDIR, errno.ENXIO, errno.EPERM, errno.EROFS,
    }
)  # fmt: skip
"""System errors for which the user must choose another path; disk failures are not among them."""

_FULL = frozenset({errno.EDQUOT, errno.ENOSPC})

_NO_HOME = "Could not determine home directory."
"""The message of `Path.expanduser` for a path that begins with ~."""


class InvalidInput(ValueError):
    """Input outside its contract. `field` says where, `got` what, `expected` what would be right, `fix` what to do."""

    def __init__(self, field: str, got: object, expected: str, fix: str = "") -> None:
        shown = str(got) if isinstance(got, str | os.PathLike) else repr(got)
        if len(shown) > _SHOWN_CHARS:
            shown = shown[: _SHOWN_CHARS - 1] + "…"
        message = f"{field}: got {shown}, expected {expected}" + (f". {fix}" if fix else "")
        super().__init__(" ".join(message.split()))  # one line, even with an array or another library's error in it
        self.field = field
        self.got = got
        self.expected = expected
        self.fix = fix


def in_words(complaint: str, described: str | None = None) -> str:
    """Rewrite a pydantic message to follow the word «expected»; for a pattern, use the field's description."""
    if described and "match pattern" in complaint:
        return described[:1].lower() + described[1:].rstrip(".")
    begun = complaint[:1].lower() + complaint[1:]
    return begun.removeprefix("input should be ").removeprefix("value error, ")


def shortened(names: Sequence[str], most: int) -> str:
    """Join names for a sentence; of many, the first ones and how many more."""
    shown = ", ".join(names[:most]) or "nobody"
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def unknown_name(field: str, got: str, known: Iterable[str]) -> InvalidInput:
    """Return the error for an unknown name: it lists the known ones and suggests the closest."""
    names = sorted(known)
    nearest = difflib.get_close_matches(got, names, n=1)
    return InvalidInput(field, got, f"one of {', '.join(names)}", f"Did you mean {nearest[0]!r}?" if nearest else "")


def require_known(field: str, got: str, known: Collection[str]) -> None:
    """Refuse an unknown name."""
    if got not in known:
        raise unknown_name(field, got, known)


def missing_library(name: str) -> InvalidInput:
    """Return the error for a library of `EXTRAS` that is not installed."""
    fix = f"Install it: pip install 'fedap[{EXTRAS[name]}]'"
    return InvalidInput(name, "no installed package", f"the extra {EXTRAS[name]!r}", fix)


def parse_pairs(field: str, pairs: Iterable[str]) -> dict[str, str]:
    """Parse key=value texts into a mapping."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise InvalidInput(field, pair, "key=value")
        parsed[key] = value
    return parsed


def parse_list(field: str, text: str) -> tuple[str, ...]:
    """Parse distinct names separated by commas."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) != len(names):
        raise InvalidInput(field, text, "names separated by commas, none twice")
    return names


def _has_current_folder() -> bool:
    """Whether the folder that relative paths begin with still exists."""
    try:
        os.getcwd()  # noqa: PTH109 - the question is whether it fails
    except FileNotFoundError:
        return False
    return True


def _lack_of_the_machine(error: OSError | RuntimeError) -> InvalidInput | None:
    """Return what the user can do about an error of the system; None if it is a bug or a failing disk."""
    if isinstance(error, RuntimeError):
        wrong = InvalidInput("path", "one that begins with ~", "a user with a home folder", "Write the path in full.")
        return wrong if str(error) == _NO_HOME else None
    if error.errno in _FULL:
        place = "standard output, or a file that was being written" if error.filename is None else str(error.filename)
        return InvalidInput("disk", place, "a disk with free space", f"{error.strerror}.")
    if error.errno not in _UNUSABLE:
        return None
    if error.filename is not None:
        return InvalidInput("path", str(error.filename), "one that can be used here", f"{error.strerror}.")
    if _has_current_folder():
        return None
    return InvalidInput("current folder", "one that was deleted", "an existing one", "Change to another folder.")


def _complaint(error: BaseException) -> InvalidInput | str | None:
    """Return what the user did wrong or lacks, as a sentence; None for anything else."""
    if isinstance(error, InvalidInput):
        return error
    if isinstance(error, ModuleNotFoundError):
        library = (error.name or "").partition(".")[0]
        return missing_library(library) if library in EXTRAS else None
    return _lack_of_the_machine(error) if isinstance(error, OSError | RuntimeError) else None


def exit_on_invalid_input(command: Callable[[], object], *, interrupted: str | None = "interrupted") -> None:
    """Run a command; invalid input or a missing extra ends it with one line on stderr and exit code 2, an interrupt
    with 130. interrupted: printed after an interrupt; None if the parent command prints it."""
    try:
        command()
    except BaseException as error:  # an interrupt in our serializer surfaces as pydantic's error
        complaint = _complaint(error)
        if complaint is not None:
            print(f"error: {complaint}", file=sys.stderr)
            sys.exit(WRONG_INPUT)
        if KeyboardInterrupt not in (type(error), type(error.__cause__)):
            raise
        if interrupted is not None:
            print(interrupted, file=sys.stderr)
        sys.exit(cut_short_by(signal.SIGINT))
