"""Writes a run folder from the coordinator's records: rounds, W, bytes on the wire.

Reads the journal forward while it is being written, and changes nothing in it. A round's result is the same as the
inline engine's: the models as delivered, evaluated by the participants. Without barriers a line stands for as many
updates as there are members, with every member's latest scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from coordinator.decisions import facts
from coordinator.record.journal import JOURNAL, SqliteJournal, fact_of
from coordinator.record.traffic import TrafficCounts
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.strategies import Evidence, Measure, Phase
from fedap_core.workspace import DELIVERED, HANDED_OVER
from scripts.engines.processes.evidence import confusion_of, stored_statistics
from scripts.run.cohort import Cohort
from scripts.run.journal_rounds import CountedRounds, JournalRounds, Scores
from scripts.run.records import ClientScore, RoundRecord
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings


class RunRecorder:
    """Records one run. `catch_up` reads on, writes the complete lines and calls `on_round` for each."""

    def __init__(
        self,
        settings: RunSettings,
        cohort: Cohort,
        folder: RunFolder,
        source: Path,
        *,
        spec: ModelSpec,
        on_round: Callable[[int, float | None], None],
    ) -> None:
        self._settings = settings
        self._strategy = settings.strategy()
        self._folder = folder
        self._source = source
        self._spec = spec
        self._on_round = on_round
        self._names = cohort.names
        self._counts = {client.name: len(client.splits["train"]) for client in cohort.clients}
        self._splits = cohort.judged
        self._journal = SqliteJournal(source / JOURNAL, read_only=True)
        self._traffic = TrafficCounts(source, key=lambda _closed, member, round_no, way: (member, round_no, way))
        self._serial = 0
        self._loss: dict[str, float] = {}
        self._score: dict[str, Scores] = {}
        self._skipped = settings.warm_up_rounds
        self._next = self._skipped
        counted = CountedRounds(members=len(self._names), first=self._skipped, last=settings.rounds - 1)
        self._journal_rounds = JournalRounds(counted if settings.mode == "continuous" else None)
        self._finished_s: float | None = None
        self._settled = False
        self.is_over = False

    def close(self) -> None:
        self._journal.close()

    def catch_up(self, *, is_last: bool = False) -> None:
        """Process everything in the journal so far. is_last: nothing more will be written; only then is all traffic
        known and the last round complete."""
        for entry in self._journal.entries(self._serial):
            self._serial = entry.serial
            self._take(fact_of(entry), entry.time_s)
        while self._is_complete(self._next) and (is_last or self._next + 1 < self._settings.rounds):
            self._write(self._next)

    def require_complete(self, logs: Path) -> None:
        """Refuse a run that is over and lacks rounds: members that refuse a delivered model do not score it."""
        if not self.is_over or self._next >= self._settings.rounds:
            return
        scored = len(self._journal_rounds.rounds[self._next].scores)
        fix = f"A member that refuses a model says why in its log, in {logs}. Scale the data of all clients alike."
        raise InvalidInput(f"scores of round {self._next + 1}", scored, str(self._drawn(self._next + 1)), fix)

    # ---- facts

    def _take(self, fact: facts.Fact, at: float) -> None:
        self._journal_rounds.add(fact, at)
        match fact:
            case facts.Weighed():
                measured = self._journal_rounds.measured.values()
                self._settle(from_statistics=True, from_round=max(round_no for _, round_no in measured))
            case facts.RoundClosed(round_no=round_no) if self._is_mixed_by_counts(round_no):
                self._settle(from_statistics=False, from_round=round_no)
            case facts.Finished(reason=reason, sentence=sentence):
                self._finished_s = at
                if reason != "rounds":
                    raise InvalidInput("run", reason, f"all {self._settings.rounds} rounds", sentence)
            case facts.Ended():
                self.is_over = True
            case _:
                self._refuse_surprise(fact)

    def _refuse_surprise(self, fact: facts.Fact) -> None:
        """Stop the run at a fact that changes the numbers and cannot happen in the inline engine."""
        if isinstance(fact, facts.Refused):
            fix = "Training diverged? Lower the learning rate." if fact.code in ("not-finite", "out-of-range") else ""
            when = "" if fact.round_no is None else f" in round {fact.round_no + 1}"
            what = f"{fact.kind or 'message'} of {fact.member}{when}"
            raise InvalidInput(what, fact.reason, "one that the coordinator admits", fix)
        if isinstance(fact, facts.Lost | facts.Left | facts.Quarantined):
            raise InvalidInput(
                "members", f"{fact.member} gone ({type(fact).__name__.lower()})", "all members until the end"
            )
        if isinstance(fact, facts.Paused):
            raise InvalidInput("disk", f"{fact.free_bytes:,} bytes free", f"{fact.needed_bytes:,} for the next round")

    # ---- W

    def _is_mixed_by_counts(self, round_no: int) -> bool:
        measures = self._strategy.first_measure is not Measure.NONE or bool(self._journal_rounds.measured)
        if self._strategy.mixes_by_values:
            return False
        return not self._settled and round_no >= self._skipped and self._phase(round_no) is Phase.MIXED and not measures

    def _phase(self, round_no: int) -> Phase:
        return self._strategy.round_plan(round_no - self._skipped, self._settings.rounds - self._skipped).phase

    def _settle(self, *, from_statistics: bool, from_round: int) -> None:
        counts = tuple(self._counts[name] for name in self._names)
        stats: tuple[BnStats, ...] = ()
        if from_statistics:
            places = {name: self._journal_rounds.measured[name] for name in self._names}
            stats = stored_statistics(self._source, self._spec, self._strategy, places, self._counts)
        mixing = self._strategy.mixing(Evidence(counts=counts, stats=stats))
        if self._settings.participation == 1.0:
            usable = np.ones(len(self._names), dtype=np.bool_)
            mixing = replace(mixing, weights=self._strategy.narrowed(mixing.weights, usable=usable))
        self._folder.write_mixing(mixing, self._names, from_round)
        self._settled = True

    # ---- lines

    def _is_complete(self, round_no: int) -> bool:
        if round_no >= self._settings.rounds or self._ended_s(round_no) is None:
            return False
        if self._settings.mode == "continuous":
            return self._is_passed(round_no)
        if len(self._journal_rounds.rounds[round_no].losses) < self._drawn(round_no):
            return False
        return not self._settings.evaluates(round_no) or self._is_evaluated(round_no)

    def _is_passed(self, round_no: int) -> bool:
        """Whether these updates are final: as many again have arrived, or all members have finished."""
        if round_no == self._settings.rounds - 1:
            return self._is_evaluated(round_no)
        return self._journal_rounds.updates >= (round_no - self._skipped + 2) * len(self._names)

    def _is_evaluated(self, round_no: int) -> bool:
        """Whether all scores are in: members that train the next round evaluate, and all members in the end."""
        return len(self._journal_rounds.rounds[round_no].scores) == self._drawn(round_no + 1)

    def _drawn(self, round_no: int) -> int:
        """Return how many members take part in a round."""
        everybody = len(self._names)
        if self._settings.mode == "continuous" or not self._skipped <= round_no < self._settings.rounds:
            return everybody
        return max(1, round(self._settings.participation * everybody))

    def _write(self, round_no: int) -> None:
        if self._settings.mode == "barrier":
            self._loss, self._score = {}, {}
        found, ended_s = self._journal_rounds.rounds.pop(round_no), self._ended_s(round_no)
        self._loss |= found.losses  # without barriers some members may not have moved
        self._score |= found.scores
        losses = [self._loss.get(name, math.nan) for name in self._names]
        last = round_no == self._settings.rounds - 1
        is_evaluated = self._settings.evaluates(round_no) and len(self._score) >= self._drawn(round_no + 1)
        another, tables = self._strategy.hands_over_another, found.stored_under if last else {}
        # Without barriers bytes are counted by each member's own rounds and known only at the end.
        up, down = self._bytes(round_no, last=last) if self._settings.mode == "barrier" else ((), ())
        record = RoundRecord(
            number=round_no,
            phase=self._phase(round_no),
            train_loss=tuple(losses),
            splits=self._latest(HANDED_OVER if another else DELIVERED, tables) if is_evaluated else {},
            delivered=self._latest(DELIVERED) if is_evaluated and another else {},
            seconds={"round": round((ended_s or 0.0) - (found.opened_s or 0.0), 4)},
            up=up,
            down=down,
        )
        self._folder.append(record)
        self._next = round_no + 1
        self._on_round(round_no, record.mean)

    def _bytes(self, round_no: int, *, last: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return every member's bytes of a round, up and down. last: including everything after it."""
        self._traffic.read()
        counted = self._traffic.counted
        rounds = {number for _, number, _ in counted if number == round_no or (last and number > round_no)}
        up, down = (
            tuple(sum(counted[name, number, way] for number in rounds) for name in self._names) for way in ("in", "out")
        )
        return up, down

    def _ended_s(self, round_no: int) -> float | None:
        """Return when the next round opened or, after the last one, when the run finished."""
        if round_no + 1 >= self._settings.rounds:
            return self._finished_s
        return self._journal_rounds.rounds[round_no + 1].opened_s

    def _latest(self, model: str, tables: Mapping[str, int] | None = None) -> dict[str, tuple[ClientScore | None, ...]]:
        """Return by split all members' latest scores of one kind of model. tables: by member, the round under which its
        confusion matrices are stored."""
        return {
            split: tuple(
                self._score_of(name, model, split, tables or {}) if name in self._score else None
                for name in self._names
            )
            for split in self._splits
        }

    def _score_of(self, name: str, model: str, split: str, tables: Mapping[str, int]) -> ClientScore | None:
        if (model, split) not in self._score[name]:  # it has no validation samples
            return None
        table = confusion_of(self._source, name, tables[name], split) if name in tables else None
        return ClientScore.of(self._score[name][model, split], table)


def has_ended(source: Path) -> bool:
    """Whether the run in a coordinator's folder has ended, including the last goodbye."""
    if not (source / JOURNAL).exists():
        return False
    journal = SqliteJournal(source / JOURNAL, read_only=True)
    try:
        return any(entry.kind == facts.Ended.__name__ for entry in journal.entries())
    finally:
        journal.close()
