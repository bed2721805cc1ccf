"""Provide a published file on disk: verify it, download it, or raise an error that says how to get it.

A download goes to a temporary file beside the target, is checked against the publisher's MD5 and renamed: the target
either does not exist or is complete. The contents of the file are not interpreted.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fedap_core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 30.0
"""Timeout of each network wait, not of the whole file: large sets take minutes on a slow line."""
_SCHEMES = ("http://", "https://")


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """A file with the publisher's URL and MD5. MD5, the publisher's choice, only detects damage."""

    name: str
    url: str
    md5: str

    def __post_init__(self) -> None:
        if not self.url.startswith(_SCHEMES):
            raise InvalidInput(f"url of {self.name}", self.url, "an http or https address")


def provide(file: PublishedFile, folder: Path, *, download: bool) -> Path:
    """Return the verified path of the file in `folder`; download it if it is missing and `download` allows it."""
    path = folder / file.name
    if path.is_file():
        found = _md5(path)
        if found != file.md5:
            raise InvalidInput(
                str(path), f"MD5 {found}", f"MD5 {file.md5}", f"Delete it and fetch it again from {file.url}"
            )
        return path
    if not download:
        raise InvalidInput(str(path), "no such file", f"a file with MD5 {file.md5}", _by_hand(file, path))
    fetch(file, path)
    return path


def fetch(file: PublishedFile, path: Path) -> None:
    """Download atomically. If that fails, the error says which file to put where, with its URL and MD5."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part_name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise InvalidInput(
            str(path.parent), f"{error.strerror}", "a folder that can be written", "Set FEDAP_DATA to another one."
        ) from error
    part = Path(part_name)
    try:
        with os.fdopen(handle, "wb") as target:
            found = _receive(file, target)
            target.flush()
            os.fsync(target.fileno())
        if found != file.md5:
            raise InvalidInput(file.url, f"content with MD5 {found}", f"MD5 {file.md5}", _by_hand(file, path))
        part.chmod(0o644)
        part.replace(path)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise InvalidInput(
            str(path), f"no download ({reason})", "a reachable publisher", _by_hand(file, path)
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _receive(file: PublishedFile, target: BinaryIO) -> str:
    """Copy the body into `target`; return its MD5."""
    digest = hashlib.md5(usedforsecurity=False)
    # The scheme was checked when `file` was built.
    with urllib.request.urlopen(file.url, timeout=_TIMEOUT_S) as response:  # noqa: S310
        length = response.headers.get("Content-Length")
        with _progress(file.name, int(length) if length and length.isdecimal() else None) as advance:
            while chunk := response.read(_CHUNK_BYTES):
                target.write(chunk)
                digest.update(chunk)
                advance(len(chunk))
    return digest.hexdigest()


@contextmanager
def _progress(name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal and nothing elsewhere: logs and pipes get no control codes."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=total)
        yield lambda count: bar.advance(task, count)


def _md5(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _by_hand(file: PublishedFile, path: Path) -> str:
    return f"By hand: save {file.url} (MD5 {file.md5}) as {path.absolute()}"
