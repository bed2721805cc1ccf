"""Seal a participant's reports and open the coordinator's sealed orders, in one run.

This is the only layer between `HomeRun`, which handles clear messages only, and the wire. What it needs after a crash
(salts, requested rows, rounds of the other members' statistics) is stored in the facts of the saved round. A sum is
refused if its announced weights do not follow from the requested row, if it contains an upload under this participant's
name other than its latest, or if its check value is wrong.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fedap_core import measures
from fedap_core.arrays import Float32Array
from fedap_core.bn_stats import BnStats
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import ModelSpec
from fedap_core.sealing import rows
from fedap_core.strategies import Evidence, Measure, Phase, Strategy, mixing_of_phase
from participant.decisions.consent import OrderRefused, Refusal
from participant.record.private_state import SavedRound
from participant.sealing.boxes import Boxes, Contents, plan_digest
from participant.sealing.group_key import GroupKey
from participant.sealing.updates import SALT_BYTES, BrokenSeal, Sealer, Upload
from protocol.errors import InvalidField
from protocol.messages import Anchor, Finish, Goodbye, Sealing, Stats, Train, Update, Welcome
from protocol.sealed_sets import (
    SEALED,
    Ingredients,
    box_set,
    read_ingredients,
    read_statistics_set,
    request_set,
    words_of,
)
from protocol.tensors import Layout, TensorSet

STATISTICS, SCORES = "statistics", "scores"
_ROWS_KEPT = 2
"""Requested rows that may still be in use: the latest, and the previous one while the latest is being sent."""


@dataclass(frozen=True)
class SealedRun:
    """One run of one participant. samples: number of its training samples."""

    key: GroupKey
    welcome: Welcome
    strategy: Strategy
    spec: ModelSpec
    samples: int

    @classmethod
    def of(
        cls, key: GroupKey | None, welcome: Welcome, strategy: Strategy, spec: ModelSpec, samples: int
    ) -> SealedRun | None:
        """Return None for a participant without a key: its runs are not sealed."""
        return None if key is None else cls(key, welcome, strategy, spec, samples)

    # --- outgoing -----------------------------------------------------------------------------------------------

    def statistics(self, report: Stats) -> Stats:
        """Seal the answer to `anchor`."""
        if not self._hides_statistics:
            return report
        box = self._boxes.seal(
            Contents(round_no=report.round_no, facts={"samples": self.samples}, arrays=report.moments.arrays()),
            purpose=STATISTICS,
            member=self._name,
        )
        return replace(report, samples=0, moments=box_set(box))

    def update(self, report: Update, facts: Mapping[str, Any]) -> Update:
        """Seal the report of a trained round. facts: those of the saved round, including what `noted` added."""
        sealed = self._sealer.seal(report.weights.flat(), self._own_upload(report.round_no, facts["salt"]))
        report = replace(report, weights=TensorSet.of({SEALED: sealed}))
        if report.statistics is not None and self._hides_statistics:
            arrays = report.statistics.arrays()
            found = Contents(round_no=report.round_no, facts={"samples": self.samples}, arrays=arrays)
            box = self._boxes.seal(found, purpose=STATISTICS, member=self._name)
            report = replace(report, statistics=box_set(box))
        if facts.get("requests"):
            report = replace(report, row=request_set(facts["rows"][0][1]))
        if self._sealing.scores == "clear":
            return report
        training = {"steps": report.steps, "train_loss": report.train_loss}
        return replace(report, steps=0, train_loss=None, scores=(), tables=self._scores(report, training))

    def goodbye(self, report: Goodbye) -> Goodbye:
        """Seal the last report of a run."""
        return (
            report if self._sealing.scores == "clear" else replace(report, scores=(), tables=self._scores(report, {}))
        )

    def _scores(self, report: Update | Goodbye, training: Mapping[str, Any]) -> TensorSet:
        tables = {} if report.tables is None else report.tables.arrays()
        facts = {**training, "scores": [score.write([]) for score in report.scores]}
        contents = Contents(round_no=report.round_no, facts=facts, arrays=tables)
        return box_set(self._boxes.seal(contents, purpose=SCORES, member=self._name))

    def noted(self, saved: SavedRound, order: Train, latest: SavedRound | None) -> SavedRound:
        """Add to a trained round what its upload needs: a new salt, and the row to request if the order asks for one.
        OrderRefused if the other members' statistics cannot be used."""
        facts: Mapping[str, Any] = {} if latest is None else latest.facts
        kept: list[Any] = list(facts.get("rows", []))
        seen: dict[str, int] = dict(facts.get("seen", {}))
        if order.peers is not None:
            try:
                row, seen = self._request(read_statistics_set(order.peers), order, seen)
            except (BrokenSeal, InvalidInput) as error:
                reason = f"train {order.round_no}: {error}"
                raise OrderRefused(Refusal(code="bad-seal", reason=reason)) from error
            kept = [[order.phase, row], *kept][:_ROWS_KEPT]
        noted = {
            "salt": secrets.token_bytes(SALT_BYTES).hex(),
            "rows": kept,
            "seen": seen,
            "requests": order.peers is not None,
        }
        return replace(saved, facts={**saved.facts, **noted})

    # --- incoming -----------------------------------------------------------------------------------------------

    def opened(
        self, order: Anchor | Train | Finish, layout: Layout, own: Float32Array, latest: SavedRound | None
    ) -> tuple[TensorSet | None, Refusal | None]:
        """Return the order's weights in clear, or why they must not be used. layout: that of the clear values. own: the
        participant's model, which a train order without weights leaves unchanged."""
        if order.uploads is None or order.weights is None:
            return TensorSet.of_flat(layout, own.copy()) if isinstance(order, Train) else None, None
        try:
            made = read_ingredients(order.uploads)
            self._require_due(order, made, {} if latest is None else latest.facts, latest)
            uploads = [
                Upload(
                    member=one.member,
                    round_no=one.round_no,
                    phase=str(self._phase(one.round_no)),
                    salt=one.salt,
                    weight=one.weight,
                )
                for one in made.uploads
            ]
            values = self._sealer.open_sum(words_of(order.weights), uploads)
        except (BrokenSeal, InvalidField) as error:
            return None, Refusal(code="bad-seal", reason=f"{order.KIND} {order.round_no}: {error}")
        return TensorSet.of_flat(layout, values), None

    def opened_anchor(self, order: Anchor, layout: Layout, latest: SavedRound | None) -> Anchor:
        """Return the anchor in clear; an anchor from warm-up is a sum of uploads."""
        if order.uploads is None:
            return order
        weights, refused = self.opened(order, layout, np.zeros(0, dtype=np.float32), latest)
        if refused is not None:
            raise OrderRefused(refused)
        return replace(order, weights=weights, uploads=None)

    def _require_due(
        self, order: Anchor | Train | Finish, made: Ingredients, facts: Mapping[str, Any], latest: SavedRound | None
    ) -> None:
        """Raise BrokenSeal unless the announced uploads are those that this order must be mixed from."""
        if not isinstance(order, Anchor) and made.member != self._name:
            raise BrokenSeal(f"the row of {made.member}, expected the row of {self._name}")
        late = made.round_no != order.round_no if isinstance(order, Train) else made.round_no > order.round_no
        if late:
            raise BrokenSeal(f"a row of round {made.round_no}, expected one of round {order.round_no}")
        barrier = self.welcome.plan.mode == "barrier"
        if barrier and any(one.round_no >= made.round_no for one in made.uploads):
            raise BrokenSeal("an upload of a round that is not over")
        mine = next((one for one in made.uploads if one.member == self._name), None)
        trained = latest if latest is not None and latest.kind == Update.KIND else None
        if mine is not None and trained is not None and mine.round_no == trained.round_no:
            if mine.salt.hex() != facts.get("salt"):
                raise BrokenSeal("another upload under this participant's name than its own")
        elif mine is not None and trained is not None and mine.round_no > trained.round_no:
            raise BrokenSeal(f"an upload of round {mine.round_no} that this participant never made")
        if self._hides_statistics and not isinstance(order, Anchor):
            self._require_requested(made, facts, to_self=not barrier)

    def _require_requested(self, made: Ingredients, facts: Mapping[str, Any], *, to_self: bool) -> None:
        """Raise BrokenSeal unless the weights follow from a requested row; without one there is nothing to compare."""
        phase = self._phase(made.round_no - 1)
        announced = {one.member: one.weight for one in made.uploads}
        rule = self._rule(phase)
        known = [dict(row) for name, row in facts.get("rows", []) if name == str(phase)]
        if not known:
            return  # a member without a row gets equal shares of all members; it cannot know how many there are
        if to_self:
            fits = any(
                all(weight <= row.get(name, 0) + rows.SLACK for name, weight in announced.items() if name != self._name)
                for row in known
            )
        else:
            worth = {
                one.member: 1.0 if one.member == self._name else self._worth(made.round_no - 1 - one.round_no)
                for one in made.uploads
            }
            fits = any(
                rows.agree(rows.granted(row, self._name, worth, rule, members=len(row)), announced) for row in known
            )
        if not fits:
            raise BrokenSeal("announced weights that do not follow from the row that was requested")

    def _worth(self, age: int) -> float:
        exponent = self._sealing.age_exponent
        if exponent is None:
            return 1.0 if age <= 0 else 0.0
        return math.pow(1.0 + max(age, 0), -exponent)

    # --- rows ---------------------------------------------------------------------------------------------------

    def _request(
        self, boxes: Mapping[str, bytes], order: Train, seen: Mapping[str, int]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Compute this participant's row of W from all members' statistics; also return their rounds. BrokenSeal if
        some are older than those seen before."""
        found = {name: self._boxes.open(box, purpose=STATISTICS, member=name) for name, box in sorted(boxes.items())}
        rounds = {name: one.round_no for name, one in found.items()}
        for name, round_no in rounds.items():
            if round_no < seen.get(name, 0) or round_no > order.round_no:
                raise BrokenSeal(f"statistics of {name} of round {round_no}, expected none older than before")
        phase = Phase(order.phase)
        rule = self._rule(phase)
        if self._name not in found:
            return rows.alike(tuple(found), self._name, rule), {**seen, **rounds}
        counts = {name: int(one.facts["samples"]) for name, one in found.items()}
        measure = self._measured(phase)
        stats = {
            name: measures.stats_of(one.arrays, self.spec, self.strategy, measure, samples=counts[name])
            for name, one in found.items()
            if one.arrays
        }
        row = self._row(phase, measure, counts, stats)
        return rows.request(row, self._name, rule), {**seen, **rounds}

    def _row(
        self, phase: Phase, measure: Measure, counts: Mapping[str, int], stats: Mapping[str, BnStats]
    ) -> dict[str, float]:
        """Return the strategy's weights. If W needs statistics, members without them get weight 0."""
        names = tuple(counts)
        if phase is Phase.MIXED and measure is not Measure.NONE:
            names = tuple(stats)
            if self._name not in stats:
                return dict.fromkeys(counts, 1.0)
        evidence = Evidence(
            counts=tuple(max(counts[name], 1) for name in names), stats=tuple(stats[n] for n in names if n in stats)
        )
        weights = mixing_of_phase(self.strategy, phase, evidence).weights[names.index(self._name)]
        return {**dict.fromkeys(counts, 0.0), **dict(zip(names, map(float, weights), strict=True))}

    def _measured(self, phase: Phase) -> Measure:
        """The measure from which W of a phase is computed."""
        if phase is not Phase.MIXED:
            return Measure.NONE
        first = self.strategy.first_measure
        return first if first is not Measure.NONE else self.strategy.round_measure

    # --- names --------------------------------------------------------------------------------------------------

    def _phase(self, round_no: int) -> Phase:
        plan = self.welcome.plan
        if round_no < plan.warmup_rounds:
            return Phase.WARMUP
        return self.strategy.round_plan(round_no - plan.warmup_rounds, plan.rounds - plan.warmup_rounds).phase

    def _rule(self, phase: Phase) -> rows.RowRule:
        return rows.RowRule.of(self.strategy, phase, max_peer_weight=self._sealing.max_peer_weight)

    def _own_upload(self, round_no: int, salt: str) -> Upload:
        phase = str(self._phase(round_no))
        return Upload(member=self._name, round_no=round_no, phase=phase, salt=bytes.fromhex(salt))

    @property
    def hides_counts(self) -> bool:
        """Whether only members may learn the number of samples."""
        return self._hides_statistics

    @property
    def _hides_statistics(self) -> bool:
        return self._sealing.statistics_to == "members"

    @property
    def _name(self) -> str:
        return self.welcome.participant

    @property
    def _sealing(self) -> Sealing:
        sealing = self.welcome.plan.sealed
        if sealing is None:
            raise InvalidInput("plan.sealed", "none", "a sealed run")
        return sealing

    @cached_property
    def _sealer(self) -> Sealer:
        return Sealer(self.key, self.welcome.run)

    @property
    def _boxes(self) -> Boxes:
        return Boxes(key=self.key, run=self.welcome.run, plan=plan_digest(self.welcome.plan.write([])))
