"""A member that sends heartbeats and never reports: the run goes on without it, and ends."""

from __future__ import annotations

from pathlib import Path

from protocol.messages import Finish, Heartbeat, Message, Step, Train
from tests.support.federation import WAIT_S, RunningCoordinator, fields, member, running
from tests.support.peer import ThreadedPeer
from tests.support.tiny_models import TinyModel, drift, moments, tiny_model, wire_moments

PACE = {"heartbeat_s": 0.5, "dead_after_s": 60.0, "linger_s": 0.5, "stalled_after_s": 2.0}


class StuckPeer(ThreadedPeer):
    """Takes one kind of order and is at work on it for ever."""

    stuck_on: type[Message] = Train
    is_stuck = False

    def _obey(self, message: Message) -> None:
        if isinstance(message, self.stuck_on) and self._is_news(message):
            self._have = Step(kind=message.KIND, round_no=int(getattr(message, "round_no", 0)))
            self.is_stuck = True
        elif not self.is_stuck:
            super()._obey(message)

    def _beat(self) -> None:
        if not self.is_stuck:
            super()._beat()
            return
        self._send(Heartbeat(run=str(self._talk.run), round_no=max(self._talk.ordered, 0), have=self._have, want=None))


def stuck_member(coordinator: RunningCoordinator, model: TinyModel, name: str, *, on: type[Message]) -> StuckPeer:
    peer = StuckPeer(
        coordinator.federation.endpoint,
        model.hello(name),
        work=lambda round_no, weights: drift(name, round_no, weights),
        moments=wire_moments(moments(name, layer="bn")),
    )
    peer.stuck_on = on
    return peer


def test_a_member_that_never_reports_is_waited_for_once_and_the_run_ends(tmp_path: Path) -> None:
    model = tiny_model()
    coordinator = RunningCoordinator(
        fields(tmp_path / "run", model.write(tmp_path / "initial.safetensors"), pace=PACE, rounds=6)
    )
    good = [member(coordinator, model, name) for name in "ab"]
    stuck = stuck_member(coordinator, model, "c", on=Train)
    with running([*good, stuck]):
        assert all(peer.ended.wait(WAIT_S) for peer in good)
        assert not coordinator.join().aborted
        assert stuck.is_stuck
    for peer in good:
        assert (peer.log.trained, peer.log.finish_reason) == ([0, 1, 2, 3, 4, 5], "rounds")
    state = coordinator.federation.machine.state
    assert state.sentence == "all 6 rounds are done"
    assert (state.members["c"].update_round, state.members["c"].is_stalled) == (None, True)


def test_a_member_that_never_says_goodbye_does_not_keep_the_coordinator_from_ending(tmp_path: Path) -> None:
    model = tiny_model()
    coordinator = RunningCoordinator(
        fields(tmp_path / "run", model.write(tmp_path / "initial.safetensors"), pace=PACE, rounds=2)
    )
    good = [member(coordinator, model, name) for name in "ab"]
    stuck = stuck_member(coordinator, model, "c", on=Finish)
    with running([*good, stuck]):
        assert all(peer.ended.wait(WAIT_S) for peer in good)
        assert not coordinator.join().aborted
        assert stuck.is_stuck
    assert [one.said_goodbye for one in coordinator.federation.machine.state.members.values()] == [True, True, False]
