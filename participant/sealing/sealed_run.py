"""The sealed side of one run at a participant: clear reports become sealed ones, sealed orders become clear ones.

Nothing but this stands between `HomeRun`, which knows clear messages only, and the wire. What it needs across a crash
(salts, requested rows, rounds of others' statistics) lies in the facts of the saved round. A sum is refused when its
announced weights are not those that follow from the requested row, when it holds another upload of one's own than the
latest, or when its check value is wrong.
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
from protocol.sealed_sets import SEALED, Ingredients, apart, box_set, read_ingredients, request_set, words_of
from protocol.tensors import Layout, TensorSet

STATISTICS, SCORES = "statistics", "scores"
_ROWS_KEPT = 2
"""Requested rows that may still be in use: the latest, and the one before while the latest is on its way."""


@dataclass(frozen=True)
class SealedRun:
    """One run of one participant. samples: those it trains on."""

    key: GroupKey
    welcome: Welcome
    strategy: Strategy
    spec: ModelSpec
    samples: int

    @classmethod
    def of(
        cls, key: GroupKey | None, welcome: Welcome, strategy: Strategy, spec: ModelSpec, samples: int
    ) -> SealedRun | None:
        """None for a participant without a key, whose runs are not sealed."""
        return None if key is None else cls(key, welcome, strategy, spec, samples)

    # --- what leaves --------------------------------------------------------------------------------------------

    def statistics(self, report: Stats) -> Stats:
        """The answer to `anchor`."""
        if not self._hides_statistics:
            return report
        box = self._boxes.seal(
            Contents(round_no=report.round_no, facts={"samples": self.samples}, arrays=report.moments.arrays()),
            purpose=STATISTICS,
            member=self._name,
        )
        return replace(report, samples=0, moments=box_set(box))

    def update(self, report: Update, facts: Mapping[str, Any]) -> Update:
        """The report of a trained round. facts: of the saved round, with what `noted` put there."""
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
        told = {"steps": report.steps, "train_loss": report.train_loss}
        return replace(report, steps=0, train_loss=None, scores=(), tables=self._scores(report, told))

    def goodbye(self, report: Goodbye) -> Goodbye:
        """The last report of a run."""
        return (
            report if self._sealing.scores == "clear" else replace(report, scores=(), tables=self._scores(report, {}))
        )

    def _scores(self, report: Update | Goodbye, told: Mapping[str, Any]) -> TensorSet:
        tables = {} if report.tables is None else report.tables.arrays()
        facts = {**told, "scores": [score.write([]) for score in report.scores]}
        contents = Contents(round_no=report.round_no, facts=facts, arrays=tables)
        return box_set(self._boxes.seal(contents, purpose=SCORES, member=self._name))

    def noted(self, saved: SavedRound, order: Train, latest: SavedRound | None) -> SavedRound:
        """A trained round with what its upload needs: a fresh salt, and the row to request, if the order asks for one.
        OrderRefused if others' statistics cannot be used."""
        facts: Mapping[str, Any] = {} if latest is None else latest.facts
        kept: list[Any] = list(facts.get("rows", []))
        seen: dict[str, int] = dict(facts.get("seen", {}))
        if order.peers is not None:
            try:
                row, seen = self._request(apart(order.peers), order, seen)
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

    # --- what comes ---------------------------------------------------------------------------------------------

    def opened(
        self, order: Anchor | Train | Finish, layout: Layout, own: Float32Array, latest: SavedRound | None
    ) -> tuple[TensorSet | None, Refusal | None]:
        """The order's weights in clear, or why they must not be used. layout: of the values in them. own: one's model,
        which an order to train without weights leaves as it is."""
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
        """An anchor in clear: one that warm-up made is a sum of uploads."""
        if order.uploads is None:
            return order
        weights, refused = self.opened(order, layout, np.zeros(0, dtype=np.float32), latest)
        if refused is not None:
            raise OrderRefused(refused)
        return replace(order, weights=weights, uploads=None)

    def _require_due(
        self, order: Anchor | Train | Finish, made: Ingredients, facts: Mapping[str, Any], latest: SavedRound | None
    ) -> None:
        """BrokenSeal unless the announced ingredients are those that this order must have."""
        if not isinstance(order, Anchor) and made.member != self._name:
            raise BrokenSeal(f"the row of {made.member}, expected that of {self._name}")
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
        """The weights must follow from a row that was requested, or from none where none was."""
        phase = self._phase(made.round_no - 1)
        announced = {one.member: one.weight for one in made.uploads}
        rule = self._rule(phase)
        known = [dict(row) for name, row in facts.get("rows", []) if name == str(phase)]
        if not known:
            return  # a member without a row gets the same of everybody; how many these are, it cannot know
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
        """One's own row of W from everybody's statistics, and the rounds these are of. BrokenSeal if some are older
        than those that were seen before."""
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
        """The strategy's weights. Members without statistics, where W needs them, are not listened to."""
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
        """The statistics that W of a phase is computed from."""
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
        """Whether nobody but the members may learn how many samples there are."""
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
