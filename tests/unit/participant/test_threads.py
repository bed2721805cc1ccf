"""Claims about how many threads train: the plan's, unless the participant wants its whole machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fedap_core.errors import InvalidInput
from participant.config import read_settings
from participant.record.private_state import PrivateState
from participant.training.home_run import HomeRun
from participant.training.home_settings import HomeSettings
from protocol.messages import Compute, Welcome
from tests.unit.participant.test_home_run import DATA, INITIAL, RUN, SPEC, plan, whole


@pytest.fixture(autouse=True)
def restored_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("own", "threads"), [(None, 2), (3, 3)])
def test_the_plan_says_how_many_threads_train_unless_the_participant_does(
    own: int | None, threads: int, tmp_path: Path
) -> None:
    welcome = Welcome(
        run=RUN,
        participant="c1",
        round_no=0,
        heartbeat_s=1.0,
        plan=plan(compute=Compute(threads=2)),
        initial=whole(INITIAL),
    )
    (tmp_path / "state").mkdir()
    state, settings = PrivateState(tmp_path), HomeSettings(threads=own)
    HomeRun(welcome=welcome, spec=SPEC, data=DATA, state=state, settings=settings)
    assert torch.get_num_threads() == threads


def test_threads_are_the_plans_or_all_and_nothing_else() -> None:
    given = {"coordinator": "tcp://127.0.0.1:1", "data": "synthetic", "name": "c1"}
    assert read_settings(None, given).threads == "plan"
    assert read_settings(None, {**given, "threads": "auto"}).threads == "auto"
    with pytest.raises(InvalidInput, match="threads: got 4"):
        read_settings(None, {**given, "threads": "4"})
