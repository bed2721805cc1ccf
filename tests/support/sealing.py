"""Sealed runs for tests: the coordinator's file and what members are told, beside the same run in clear."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from participant.sealing.group_key import GroupKey
from tests.support.players import Reference
from tests.support.run_files import coordinator_file, participant_file

KEY_FILE = "group.key"


def sealed_file(
    folder: Path,
    reference: Reference,
    key: GroupKey,
    *,
    pace: Mapping[str, object] | None = None,
    endpoint: str | None = None,
    **sealing: object,
) -> Path:
    """A run.toml; a cap of 1 leaves W as it is in clear."""
    network = {"endpoint": endpoint or f"ipc://{folder}/socket"}
    section = sealing_section(key, **sealing)
    return coordinator_file(folder, reference, pace=pace, network=network, sealed=True, sealing=section)


def sealing_section(key: GroupKey, **others: object) -> dict[str, object]:
    """`[sealing]` of a run's configuration."""
    return {"group_key": key.fingerprint, "max_peer_weight": 1.0, **others}


def joining(folder: Path, reference: Reference, statistics_to: str = "members", **patience: float) -> tuple[str, ...]:
    """Options of a member whose key lies in `folder`."""
    config = ("--config", str(participant_file(folder, **patience)))
    return (*config, *sealed_options(folder, reference), "--statistics-to", statistics_to)


def sealed_options(folder: Path, reference: Reference) -> tuple[str, ...]:
    """Those that are about sealing alone."""
    anchor = () if reference.anchor is None else ("--anchor-file", str(reference.anchor))
    return ("--group-key", str(folder / KEY_FILE), "--allow", "max_peer_weight<=1", *anchor)
