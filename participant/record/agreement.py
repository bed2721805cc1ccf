"""The plan that was agreed on at first contact: stored in the run's folder and compared with every later welcome.

A run that continues under another plan is another run; the operator decides whether to take part in it, by the digest
that the refusal names. Whether a plan may be agreed to at all is `consent`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fedap_core.errors import InvalidInput
from participant.decisions.consent import changed_plan, digest_of, terms_text
from participant.record.private_state import DamagedState, RunState
from protocol.messages import Welcome

FILE = "agreement.json"
_AGREE_ANEW = "Delete it and join again to agree anew."


def keep_agreement(files: RunState, welcome: Welcome, *, accepted: str | None = None) -> bool:
    """Keep the plan at first contact; later, refuse another one unless its digest is the accepted one.

    True when something was written: a plan that was not known here before.
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
    """For an operator who has named no algorithm: a new run in the same state folder has that of the run before, so
    that a coordinator cannot change what leaves by beginning another run. earlier: the folder of the run before."""
    kept = read_terms(earlier)
    plan = {} if kept is None else kept["plan"]
    before = plan.get("strategy") if isinstance(plan, Mapping) else None
    if before is not None and before != welcome.plan.strategy:
        fix = f"If you agree, join again with --algorithm {welcome.plan.strategy}."
        raise InvalidInput("plan.strategy", welcome.plan.strategy, f"{before}, as in the run before", fix)


def read_terms(folder: Path) -> Mapping[str, object] | None:
    """What was agreed to in a run's folder; None before the first contact."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = f"{error}. {_AGREE_ANEW}"
        raise DamagedState("state", str(path), "the plan that was agreed to, as JSON", reason) from error
    if not isinstance(kept, dict) or not isinstance(kept.get("plan"), dict):
        raise DamagedState("state", str(path), "the plan that was agreed to", _AGREE_ANEW)
    return kept
