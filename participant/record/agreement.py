"""Store the plan agreed to at first contact in the run's folder, and compare it with every later welcome.

A run that continues under another plan is another run; the operator accepts it by the digest that the refusal names.
`consent` decides whether a plan is acceptable at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedap_core.errors import InvalidInput
from participant.decisions.consent import changed_plan, digest_of, terms_text
from participant.record.private_state import DamagedState, RunState
from protocol.messages import Welcome

FILE = "agreement.json"
_AGREE_ANEW = "Delete it and join again to accept the present plan."


def keep_agreement(files: RunState, welcome: Welcome, *, accepted: str | None = None) -> bool:
    """Store the plan at first contact; later, refuse a different one unless its digest was accepted.

    Return whether the plan was new here and has been written.
    """
    text = terms_text(welcome)
    kept = read_terms(files.path)
    changed = None if kept is None else changed_plan(kept, welcome)
    if changed is not None and accepted != digest_of(text):
        raise changed
    if kept == json.loads(text):
        return False
    files.write_note(FILE, text + "\n")
    return True


def refuse_another_algorithm(earlier: Path, welcome: Welcome) -> None:
    """If the operator has named no algorithm, require a new run in the same state folder to use that of the previous
    run, so that a coordinator cannot change what is sent by starting another run. earlier: the previous folder."""
    kept = read_terms(earlier)
    plan = {} if kept is None else kept["plan"]
    before = plan.get("strategy") if isinstance(plan, Mapping) else None
    if before is not None and before != welcome.plan.strategy:
        fix = f"If you agree, join again with --algorithm {welcome.plan.strategy}."
        raise InvalidInput("plan.strategy", welcome.plan.strategy, f"{before}, as in the previous run", fix)


def read_terms(folder: Path) -> Mapping[str, Any] | None:
    """Read the agreed terms from a run's folder; None before the first contact."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = f"{error}. {_AGREE_ANEW}"
        raise DamagedState("state", str(path), "the plan that was accepted, as JSON", reason) from error
    if not isinstance(kept, dict) or not isinstance(kept.get("plan"), dict):
        raise DamagedState("state", str(path), "the plan that was accepted", _AGREE_ANEW)
    return kept
