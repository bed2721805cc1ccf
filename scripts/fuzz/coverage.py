"""Coverage-guided fuzzing: atheris changes bytes until other branches of codec and frames are taken.

Optional, because atheris brings an instrumented libFuzzer: `pip install 'fedap[fuzz]'`. The first bytes of an input
decide how it is cut into frames; the check is the codec target's. Inputs that reach new code are kept and reused.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from fedap_core.errors import exit_on_invalid_input, missing_library

Frames = tuple[bytes, ...]

_LONGEST = 4096
"""Bytes of one input."""


def require_atheris() -> None:
    """Refuse to run without atheris, with one sentence."""
    if importlib.util.find_spec("atheris") is None:
        raise missing_library("atheris")


def main() -> None:
    """Fuzz; on a finding the process crashes and leaves a file `crash-*` in the folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("fuzz"))
    given = parser.parse_args()
    require_atheris()
    import atheris  # type: ignore[import-not-found,unused-ignore]

    with atheris.instrument_imports(include=["protocol"]):
        from scripts.fuzz.corpus import everything, frames_of
        from scripts.fuzz.targets import understood
    corpus = given.folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, message in enumerate(everything()):
        joined = _joined(frames_of(message))
        if len(joined) <= _LONGEST:
            (corpus / f"seed-{number:03}").write_bytes(joined)
    options = [f"-runs={given.cases}", f"-seed={given.seed + 1}", f"-max_len={_LONGEST}", "-timeout=5"]
    options += [f"-artifact_prefix={given.folder}/", "-verbosity=0", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda data: understood(_cut(data)))
    atheris.Fuzz()


def _joined(frames: Frames) -> bytes:
    """Join frames into one input: how many follow the header, the header's length, all bytes."""
    return bytes([len(frames) - 1]) + len(frames[0]).to_bytes(2, "little") + b"".join(frames)


def _cut(data: bytes) -> Frames:
    """Cut an input into frames: the header by its length, the rest in equal parts."""
    count, length, body = data[0] % 5 if data else 0, int.from_bytes(data[1:3], "little"), data[3:]
    header, rest = body[:length], body[length:]
    if count == 0:
        return (header,)
    size = max(-(-len(rest) // count), 1)
    return (header, *(rest[at : at + size] for at in range(0, count * size, size)))


if __name__ == "__main__":
    exit_on_invalid_input(main, interrupted=None)
