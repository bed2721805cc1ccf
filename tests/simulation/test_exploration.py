"""Every path of a small federation, each exploration in a process of its own: it is complete, every law holds, every
path ends; and it finds faults that were mended when they are put back."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from fedap_core.errors import InvalidInput
from scripts.explore.scope import Scope

COMPLETE = "complete: every law holds in every state, and every path ends well"


def explored(scope: Scope, *, put_back: str | None = None) -> tuple[int, str]:
    """The exit code and what was printed."""
    module = ["scripts.explore"] if put_back is None else ["tests.simulation.explored.put_back", put_back]
    done = subprocess.run(
        [sys.executable, "-m", *module, scope.write()], capture_output=True, text=True, check=False, timeout=3600
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("sliced", [False, True], ids=["small", "sliced"])
def test_one_member_comes_to_its_end_whatever_happens_at_any_point(sliced: bool) -> None:
    code, text = explored(Scope(members=1, rounds=1, sliced=sliced))
    assert COMPLETE in text, text
    assert code == 0


def test_two_members_come_to_their_end_in_every_order() -> None:
    code, text = explored(Scope(faults=0))
    assert COMPLETE in text, text
    assert code == 0


def test_reduction_leaves_out_second_ways_to_states_and_no_state() -> None:
    seen = []
    for reduces in (True, False):
        code, text = explored(Scope(members=1, rounds=1, reduces=reduces))
        assert (code, COMPLETE in text) == (0, True), text
        found = re.search(r"([\d,]+) states, ([\d,]+) transitions, depth \d+, (\d+) ends", text)
        assert found is not None, text
        seen.append([int(one.replace(",", "")) for one in found.groups()])
    (states, fewer, ends), (all_states, transitions, all_ends) = seen
    assert (states, ends) == (all_states, all_ends)
    assert fewer < transitions


def test_states_are_counted_alike_in_every_process_and_by_either_way_of_calling() -> None:
    """Hashes of texts differ between the processes. The names in the tables of the fingerprint must be those of fields:
    a renamed field would count as another difference between states."""
    scope = Scope(members=1, rounds=1)
    texts = [
        subprocess.run(
            [sys.executable, "-m", module, scope.write()],
            capture_output=True, text=True, check=True, timeout=600, env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for module, seed in (("scripts.explore", "1"), ("tests.simulation.explored.directly", "2"))
    ]  # fmt: skip
    by_command, directly = (re.findall(r"[\d,]+ states, [\d,]+ transitions(?! so far)", text)[0] for text in texts)
    assert by_command == directly
    assert "unknown names: []" in texts[1]


def test_a_search_without_memory_stops_and_what_it_left_open_ends_well() -> None:
    code, text = explored(Scope(members=1, rounds=1, gigabytes=0.001, wall_clock=True))
    assert "not complete, time or memory was used up" in text, text
    assert code == 0


def test_order_handed_on_without_its_bytes_is_found_when_batches_are_judged_as_a_whole() -> None:
    code, text = explored(Scope(members=1, rounds=1, sliced=True), put_back="batch")
    assert "hears at once welcome, " in text, text
    assert "Unfilled" in text
    assert code == 1


def test_participant_that_cannot_end_after_its_goodbye_is_found() -> None:
    code, text = explored(Scope(members=1, rounds=1), put_back="goodbye")
    assert "FAULT FOUND" in text, text
    assert "a is killed and started again" in text
    assert code == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["barrier", "continuous"])
@pytest.mark.parametrize("sliced", [False, True])
def test_two_members_and_two_rounds_survive_one_fault_at_every_point(mode: str, sliced: bool) -> None:
    code, text = explored(Scope(mode=mode, sliced=sliced, minutes=50.0))
    assert COMPLETE in text, text
    assert code == 0


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["barrier", "continuous"])
def test_three_members_survive_two_faults_on_every_walk(mode: str) -> None:
    code, text = explored(
        Scope(members=3, faults=2, mode=mode, sliced=True, algorithm="fedap", minutes=1.0, wander=True)
    )
    assert "every walk ended well" in text, text
    assert code == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [("members", 0), ("rounds", 11), ("faults", -1), ("mode", "both"), ("minutes", 0.0), ("gigabytes", 0.0)],
)
def test_scope_that_cannot_be_explored_is_refused_by_its_field(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=field):
        Scope(**{field: value})  # type: ignore[arg-type]
