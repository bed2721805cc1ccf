"""Runs one whole federation in this process (or in forked workers): the coordinator's arithmetic without its network.

Deterministic: the same settings give the same bits, whatever the number of workers. All that a strategy decides is left
to it; the order of a round is train, mix, evaluate what was delivered.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedap_core.aggregation import mix_entries
from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.bn_stats import BnStats
from fedap_core.directions import DirectionHistory, withhold
from fedap_core.errors import InvalidInput
from fedap_core.neighbours import NearestMembers
from fedap_core.parts import TensorSpec, variance_ranges
from fedap_core.robust import robust_mix_rows
from fedap_core.strategies import Evidence, Measure, Mixing, Phase, mixing_of_phase
from fedap_core.workspace import DELIVERED, HANDED_OVER
from participant.record.model_file import make_initial, read_spec, write_model
from participant.training.local import LocalReport
from scripts.engines.base import EngineOptions
from scripts.engines.opening import open_pool
from scripts.engines.pool import Chosen, ClientPool
from scripts.engines.sampling import Sampling
from scripts.engines.sealed_rows import mix_as_sealed
from scripts.engines.tables import room_for_rows
from scripts.engines.transport import Transport
from scripts.run.anchors import require_same_model, require_trained_on, train_pooled_anchor
from scripts.run.cohort import Cohort, model_file_name
from scripts.run.forked import run_in_child
from scripts.run.private_measuring import measured_privately
from scripts.run.private_training import PrivateRows
from scripts.run.provenance import require_fitting_model
from scripts.run.records import ClientScore, RoundRecord
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings
from scripts.run.versions import versions

T = TypeVar("T")

DIRECTIONS = "directions.json"
"""File beside saved models: the direction of every client's steps so far, if the mixing rule needs it."""

SAVE_EVERY_S = 60.0
"""A killed run loses at most about this much work."""

SAVING_SHARE = 0.05
"""Largest share of a run's time spent on saving: if saving takes long, it happens less often."""

WHOLE_UP_TO = 1000
"""Up to this many clients the whole W is kept, with what explains it, even if rows have few entries."""

LARGEST_WHOLE = 5000
"""With more clients, W from statistics must have few entries per row."""

MADE_IN_MEMORY = 1 << 28
"""Bytes of mixed rows; if there are more, they are kept in a file until they are delivered."""

LET_GO_AFTER = 500
"""Rows of such a file that are in memory at the same time."""


PoolMaker = Callable[[RunSettings, Cohort, Path, EngineOptions], ClientPool]
"""Makes the pool of clients from (settings, cohort, initial model file, options)."""


def run_inline(
    settings: RunSettings, cohort: Cohort, options: EngineOptions, open_pool: PoolMaker = open_pool
) -> RunFolder:
    """Run the missing rounds of a run and return its folder."""
    folder = RunFolder(options.root, settings)
    folder.make_once(cohort.described(), lambda: _run_missing(folder, settings, cohort, options, open_pool))
    return folder


def _run_missing(
    folder: RunFolder, settings: RunSettings, cohort: Cohort, options: EngineOptions, open_pool: PoolMaker
) -> None:
    initial = initial_file(settings, cohort, options)
    anchor = anchor_file(settings, cohort, initial, options) if settings.uses_anchor else None
    first = folder.begin(versions(), cohort.described(), keep_models=options.keep_models)
    start = anchor if settings.start_from == "anchor" and anchor is not None else initial
    pool = open_pool(settings, cohort, start, options)
    try:
        tensors = settings.strategy().travelling(read_spec(initial))
        InlineFederation(settings, cohort, folder, pool, options, tensors).run(first, anchor)
    finally:
        pool.close()


def initial_file(settings: RunSettings, cohort: Cohort, options: EngineOptions) -> Path:
    """Return the model file that every algorithm of a comparison starts from."""
    path = options.root / "initial" / f"{settings.initial_identity}.safetensors"

    def work() -> None:
        data = cohort.data
        spec, state = make_initial(
            settings.model,
            input_shape=data.input_shape,
            classes=data.classes,
            preprocessing=data.preprocessing,
            seed=settings.seed,
        )
        write_model(path, spec, state)

    _make_once(path, work, options)
    require_fitting_model(settings.cohort.data, read_spec(path), cohort.data, path)
    return path


def anchor_file(settings: RunSettings, cohort: Cohort, initial: Path, options: EngineOptions) -> Path:
    """Return the model file that W is measured under."""
    if settings.anchor.kind == "file":
        path = Path(settings.anchor.path)
        require_same_model(path, read_spec(initial))
        return path
    if settings.anchor.kind == "warmup":
        return _warm_up(settings, cohort, options)
    path = options.root / "anchors" / f"{settings.anchor_identity}.safetensors"
    _make_once(path, lambda: train_pooled_anchor(settings, cohort, initial, path), options)
    require_trained_on(path, cohort, settings.cohort.data)
    return path


def _make_once(path: Path, work: Callable[[], None], options: EngineOptions) -> None:
    """Make a file if it does not exist; in a child process if this one still has to fork its workers."""
    if not path.exists() and options.workers > 1:
        run_in_child(work)
    elif not path.exists():
        work()


def _warm_up(settings: RunSettings, cohort: Cohort, options: EngineOptions) -> Path:
    """Run the first rounds as FedAvg with shared BN; the model after `anchor.rounds` rounds is the anchor."""
    weighting = {"equal": True} if settings.sealed else {}  # members do not know each other's sample counts yet
    warm = settings.model_copy(
        update={
            "algorithm": "fedavg", "options": weighting, "rounds": settings.anchor.rounds, "start_from": "initial",
            "sgd": replace(settings.sgd, lr_schedule="constant"), "participation": 1.0,
        }
    )  # fmt: skip
    rounds = settings.anchor.rounds
    root = options.root / "warmup" / f"{rounds} rounds"  # separate: a longer run drops the models of a shorter one
    folder = run_inline(warm, cohort, EngineOptions(root=root, workers=options.workers))
    return folder.models(rounds - 1) / model_file_name(cohort.clients[0].name)


class InlineFederation:
    """The rounds of one run."""

    def __init__(
        self,
        settings: RunSettings,
        cohort: Cohort,
        folder: RunFolder,
        pool: ClientPool,
        options: EngineOptions,
        tensors: tuple[TensorSpec, ...],
    ) -> None:
        """tensors: the shared ones, in wire order; robust mixing treats each separately."""
        self._settings = settings
        self._strategy = settings.strategy()
        self._cohort = cohort
        self._folder = folder
        self._pool = pool
        self._options = options
        self._counts = tuple(len(client.splits["train"]) for client in cohort.clients)
        self._mixing: Mixing | None = None
        self._nearest: NearestMembers | None = None  # replaces `_mixing` if the whole W is not kept
        self._tensors = tensors
        self._trained = sum(tensor.size for tensor in tensors if tensor.trainable)
        self._followed = DirectionHistory.of(len(cohort.clients)) if self._strategy.looks_at_directions else None
        self._transport = Transport(settings.encoding, pool.rows, variance_ranges(tensors))
        self._sampling = Sampling(settings, len(cohort.clients))
        self._private = PrivateRows(settings, cohort.names, tensors)

    def run(self, first: int, anchor: Path | None) -> None:
        """Run rounds first .. rounds - 1; round `first` resumes from the saved models of the one before."""
        skipped = self._settings.warm_up_rounds
        if first > 0:
            self._pool.load(self._folder.models(first - 1))
            self._transport.load(self._folder.models(first - 1))
            self._sampling.load(self._folder.models(first - 1))
            self._nearest = self._folder.read_nearest()
            self._mixing = None if self._nearest is not None else self._folder.read_mixing()
            if self._followed is not None:
                text = (self._folder.models(first - 1) / DIRECTIONS).read_text(encoding="utf-8")
                self._followed = DirectionHistory.from_plain(json.loads(text))
        unknown = self._mixing is None and self._nearest is None
        if unknown and self._strategy.first_measure is not Measure.NONE:
            if anchor is None:
                raise InvalidInput("anchor", "none", f"a model to measure under ({self._strategy.name})")
            stats = self._measured(anchor)
            self._settle(Evidence(counts=self._counts, stats=tuple(stats)), from_round=skipped)
        if first <= skipped:
            self._deliver(skipped, self._sampling.chosen(skipped))
        saved_at, pause = time.monotonic(), SAVE_EVERY_S
        for round_no in range(max(first, skipped), self._settings.rounds):
            self._round(round_no, skipped)
            last = round_no == self._settings.rounds - 1
            now = time.monotonic()
            if self._options.keep_models and (last or now - saved_at > pause):
                self._save(round_no)
                saved_at = time.monotonic()
                pause = max(SAVE_EVERY_S, (saved_at - now) / SAVING_SHARE)

    def _measured(self, anchor: Path) -> Sequence[BnStats]:
        if self._settings.statistics_privacy is None:
            return self._pool.measure(anchor, self._strategy.first_measure)
        return measured_privately(self._settings, self._cohort, anchor)

    def _round(self, round_no: int, skipped: int) -> None:
        began = time.monotonic()
        plan = self._strategy.round_plan(round_no - skipped, self._settings.rounds - skipped)
        chosen, receivers = self._sampling.chosen(round_no), self._sampling.chosen(round_no + 1)
        reports = self._train(round_no, plan.measure, chosen)
        trained = time.monotonic()
        self._require_finite(round_no, reports, chosen)
        weights = self._weights(round_no, plan.phase, reports)
        if weights is None and self._nearest is not None:
            self._mix_nearest(self._nearest, round_no, receivers)
        elif weights is not None:
            self._mix(weights, plan.phase, round_no, receivers)
        else:
            raise InvalidInput("mixing", "none", "weights for a mixed round")
        self._deliver(round_no + 1, receivers)
        mixed = time.monotonic()
        last = round_no == self._settings.rounds - 1
        another, evaluates = self._strategy.hands_over_another, self._settings.evaluates(round_no)
        following = round_no + 1
        delivered = self._evaluated(DELIVERED, following, last and not another, receivers) if evaluates else {}
        final = self._evaluated(HANDED_OVER, following, last, receivers) if evaluates and another else {}
        spent = {"train": trained - began, "mix": mixed - trained, "evaluate": time.monotonic() - mixed}
        record = RoundRecord(
            number=round_no,
            phase=plan.phase,
            train_loss=tuple(self._among_all([report.metrics.loss for report in reports], chosen, math.nan)),
            splits=final or delivered,
            delivered=delivered if another else {},
            seconds={name: round(seconds, 4) for name, seconds in spent.items()},
            compressed=self._transport.kept_share,
        )
        self._folder.append(record)
        self._options.on_round(round_no, record.mean)

    def _among_all(self, found: Sequence[T], chosen: Chosen, missing: T) -> list[T]:
        """Return one entry for each client, in order; `missing` for those not chosen."""
        if chosen is None:
            return list(found)
        known = dict(zip(chosen, found, strict=True))
        return [known.get(place, missing) for place in range(len(self._counts))]

    def _train(self, round_no: int, measure: Measure, chosen: Chosen) -> list[LocalReport]:
        """Train the chosen clients; note the direction of their steps if the mixing rule needs it."""
        followed = self._followed
        before = [] if followed is None else [row[: self._trained].copy() for row in self._pool.rows]
        self._private.begin(self._pool.rows, range(len(self._counts)) if chosen is None else chosen)
        reports = self._pool.train(round_no, measure, chosen)
        self._private.release(self._pool.rows, round_no)
        self._transport.report(self._pool.rows, chosen)
        self._sampling.trained(chosen or range(len(self._counts)), round_no)
        if followed is not None:
            followed.note(row[: self._trained] - one for row, one in zip(self._pool.rows, before, strict=True))
        return reports

    def _deliver(self, round_no: int, receivers: Chosen) -> None:
        """Deliver their rows to these clients for that round."""
        self._transport.deliver(self._pool.rows, receivers)
        others_have_trained = round_no > self._settings.warm_up_rounds
        entering = self._sampling.entering(receivers) if others_have_trained else []
        if self._strategy.acts_on_delivery or entering:
            self._pool.deliver(round_no, receivers, entering)

    def _evaluated(
        self, model: str, round_no: int, confusion: bool, receivers: Chosen
    ) -> dict[str, tuple[ClientScore | None, ...]]:
        """Return scores by split of the clients that received a model and have this split: as delivered, or as it would
        be handed over."""
        scores = {}
        for split in self._cohort.judged:
            judged = self._holders(split, receivers)
            known: list[ClientScore | None] = [
                ClientScore.of(one, one.confusion if confusion else None)
                for one in self._pool.evaluate(split, model, round_no, judged)
            ]
            scores[split] = tuple(self._among_all(known, judged, None))
        return scores

    def _holders(self, split: str, receivers: Chosen) -> Chosen:
        clients = self._cohort.clients
        if all(split in client.splits for client in clients):
            return receivers
        return [
            place
            for place in (range(len(clients)) if receivers is None else receivers)
            if split in clients[place].splits
        ]

    def _mix_nearest(self, nearest: NearestMembers, round_no: int, receivers: Chosen) -> None:
        rows = self._pool.rows
        served = range(len(rows)) if receivers is None else receivers
        made, release = self._room(len(served), rows[0].size)
        entries = self._sampling.entries(nearest, served, round_no)
        self._transport.givers = self._sampling.givers(round_no)
        blocks = [slice(start, start + LET_GO_AFTER) for start in range(0, len(served), LET_GO_AFTER)]
        for block in blocks:
            mix_entries(entries[block], rows, made[block])
            release()
        for block in blocks:
            for place, row in zip(served[block], made[block], strict=True):
                rows[place][...] = row
            release()

    def _room(self, count: int, size: int) -> tuple[Sequence[Float32Array], Callable[[], None]]:
        return room_for_rows(self._options.root, count, size, most_bytes=MADE_IN_MEMORY)

    def _mix(self, weights: FloatArray, phase: Phase, round_no: int, receivers: Chosen) -> None:
        rows = givers = self._pool.rows
        self._transport.givers = range(len(rows))
        served = range(len(rows)) if receivers is None else receivers
        own: tuple[int | None, ...] = tuple(served)
        personal = self._strategy.is_personal(phase)
        if self._settings.sealed:
            skipped = self._settings.warm_up_rounds
            measure = self._strategy.round_plan(round_no - skipped, self._settings.rounds - skipped).measure
            known = weights if measure is Measure.NONE else np.ones_like(weights)  # W is known a round later
            mix_as_sealed(known, self._cohort.names, self._strategy, phase, rows)
            return
        if self._sampling.is_partial:
            using, weights = self._sampling.weights(weights, served, phase, round_no)
            self._transport.givers = places = {giver: place for place, giver in enumerate(using)}
            own, givers = tuple(places.get(one) for one in served), [rows[giver] for giver in using]
        if self._followed is not None:
            weights = withhold(weights, tuple(served), self._followed.doubt, personal=personal)
        mixture = self._strategy.mixture(phase, weights, own, self._tensors)
        if not self._sampling.is_partial:
            robust_mix_rows(mixture, self._strategy.robustness, rows, rows)
            return
        made, _ = self._room(len(served), rows[0].size)  # separate: whoever receives nothing keeps its latest update
        robust_mix_rows(mixture, self._strategy.robustness, givers, made)
        for place, row in zip(served, made, strict=True):
            rows[place][...] = row

    def _weights(self, round_no: int, phase: Phase, reports: list[LocalReport]) -> FloatArray | None:
        """Return W; None if only its nearest members are known."""
        stats = tuple(report.stats for report in reports if report.stats is not None)
        evidence = Evidence(counts=self._counts, stats=stats)
        if phase is not Phase.MIXED:
            return mixing_of_phase(self._strategy, phase, evidence).weights
        if self._mixing is None and self._nearest is None:
            self._settle(evidence, from_round=round_no)
        return None if self._mixing is None else self._mixing.weights

    def _settle(self, evidence: Evidence, from_round: int) -> None:
        names = self._cohort.names
        if len(names) > WHOLE_UP_TO and (nearest := self._strategy.nearest(evidence)) is not None:
            self._nearest = nearest
            self._folder.write_nearest(nearest, names, from_round, neighbours=self._strategy.most_givers)
            return
        if len(names) > LARGEST_WHOLE and evidence.stats:
            expected = f"few neighbours per client and default options, with more than {LARGEST_WHOLE} clients"
            raise InvalidInput("algorithm", self._settings.label, expected, "Use fedap:neighbours=32.")
        self._mixing = self._strategy.mixing(evidence)
        if not self._sampling.is_partial:  # otherwise a row's givers are chosen among those that have taken part
            everybody = np.ones(len(self._counts), dtype=np.bool_)
            self._mixing = replace(
                self._mixing, weights=self._strategy.narrowed(self._mixing.weights, usable=everybody)
            )
        if not self._strategy.mixes_by_values and (evidence.stats or len(names) <= WHOLE_UP_TO):
            self._folder.write_mixing(self._mixing, names, from_round)

    def _require_finite(self, round_no: int, reports: list[LocalReport], chosen: Chosen) -> None:
        """Stop before anyone receives broken weights; the loss reveals those that are not sent."""
        rows = self._pool.rows
        for place, report in zip(range(len(rows)) if chosen is None else chosen, reports, strict=True):
            client, row = self._cohort.clients[place], rows[place]
            if not (math.isfinite(report.metrics.loss) and np.isfinite(row).all()):
                raise InvalidInput(
                    f"update of {client.name} in round {round_no + 1}", "values that are not finite", "finite weights",
                    "Training diverged: lower the learning rate.",
                )  # fmt: skip

    def _save(self, round_no: int) -> None:
        with self._folder.saving_models(round_no) as half:
            self._pool.save(half, round_no)
            self._transport.save(half)
            self._sampling.save(half)
            if self._followed is not None:
                (half / DIRECTIONS).write_text(json.dumps(self._followed.plain()) + "\n", encoding="utf-8")
