"""Carry out the orders of one run at a participant: each gives a report, which is saved before it is sent. Called by
the worker thread; uses no sockets.

Owns the local clients of the run (one of the run's strategy, and a FedAvg one for warm-up rounds, whose BN is shared).
Which round comes next and what is sent is decided elsewhere; nothing is computed that the plan does not ask for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch

from fedap_core import measures
from fedap_core.model_spec import ModelSpec
from fedap_core.nn.state import State
from fedap_core.strategies import Measure, Strategy, make_strategy
from fedap_core.workspace import DELIVERED, TRAINED, headline_rank
from participant.decisions.consent import Refusal, require_layouts, strategy_of
from participant.decisions.events import Report
from participant.decisions.layouts import floating_layout, shared_layout
from participant.record.agreement import keep_agreement, refuse_another_algorithm
from participant.record.model_file import module_of
from participant.record.privacy_ledger import PrivacyLedger
from participant.record.private_state import PrivateState, SavedRound
from participant.sealing.sealed_run import SealedRun
from participant.training.alone import alone_scores, fine_tune, judged_by_split, train_alone
from participant.training.delivered import anchor_model, delivered_values, initial_model, require_finite
from participant.training.examining import Evaluations, Examiner, headline
from participant.training.feedback import Feedback
from participant.training.home_data import HomeData
from participant.training.home_settings import HomeSettings
from participant.training.local import LocalClient, LocalPlan, use_threads
from participant.training.outgoing import OutgoingTensors, score_of, tables_of
from participant.training.pace import Pace, Progress
from participant.training.private_release import OutgoingStatistics
from participant.training.private_updates import steps_of
from participant.training.reports import goodbye_of, reported_values, saved_scores, update_of
from protocol.encodings import encoding_of
from protocol.messages import Anchor, Finish, Goodbye, Score, Stats, Train, Update, Welcome

WARMUP = "warmup"


class HomeRun:
    """Create once per run, then pass one order after another; each method returns the report to send."""

    def __init__(
        self,
        *,
        welcome: Welcome,
        spec: ModelSpec,
        data: HomeData,
        state: PrivateState,
        settings: HomeSettings,
        watch: Callable[[Progress], None] = lambda _progress: None,
    ) -> None:
        self._plan = welcome.plan
        self._welcome = welcome
        self._spec = spec
        self._data = data
        self._state = state
        self._settings = settings
        self._watch = watch
        self._strategy = strategy_of(self._plan, settings.trusted)
        require_layouts(self._plan, spec, self._strategy)
        threads = settings.threads or self._plan.compute.threads
        use_threads(threads)
        name = welcome.participant
        private = steps_of(settings.update_privacy, self._strategy, welcome, PrivacyLedger.of(state), spec.variances)
        self._outgoing = OutgoingTensors(
            encoding=encoding_of(self._plan.encoding),
            participant=name,
            seed=self._plan.seed,
            steps=(*private, *settings.outgoing_steps),
            variances=spec.variances,
        )
        self._feedback = Feedback(self._outgoing)
        self._positions = data.split(
            protocol=self._plan.split, validation=self._plan.validation, seed=self._plan.seed, name=name
        )
        self._statistics = OutgoingStatistics(
            settings.statistics_privacy, self._strategy, data=data.dataset, train=self._positions["train"], state=state
        )
        self._splits = {part: data.samples(positions) for part, positions in self._positions.items()}
        self._sealed = SealedRun.of(settings.group_key, welcome, self._strategy, spec, len(self._positions["train"]))
        earlier = state.current_run()
        if not settings.algorithm_is_named and earlier not in (None, welcome.run):
            refuse_another_algorithm(state.folder / "state" / str(earlier), welcome)
        self._files = state.run(welcome.run, spec)
        keep_agreement(self._files, welcome, accepted=settings.accept_plan)
        self._start = self._read_start()
        self._latest = self._files.latest()
        self._client, self._client_phase = self._open_client(WARMUP if self._is_warming() else "mixed")
        self._judged = [part for part in self._splits if part != "train"]
        self._examiner = Examiner(self._judged, threads=threads, beside=settings.beside)
        self._twins: dict[bool, LocalClient] = {}
        self.refused: Refusal | None = None
        """Why the weights of the latest order were refused; None if they were used."""

    def close(self) -> None:
        """Release the evaluation thread; no further orders will come."""
        self._examiner.close()

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of training and test samples, which weight the run; 0 if hidden from the coordinator."""
        if self._sealed is not None and self._sealed.hides_counts:
            return 0, 0
        return len(self._positions["train"]), len(self._positions["test"])

    @property
    def finished_report(self) -> Report | None:
        """The last report from before a restart, ready to be sent again."""
        saved = self._latest
        if saved is None:
            return None
        if saved.kind == Goodbye.KIND:
            return goodbye_of(self._welcome.run, saved, self._outgoing, self._sealed)
        layout = shared_layout(self._spec, self._strategy_of(saved.phase))
        return update_of(self._welcome.run, saved, layout, self._outgoing, self._sealed)

    # --- orders -------------------------------------------------------------------------------------------------

    def measure(self, order: Anchor) -> Stats:
        """Measure statistics of the training samples under the anchor, if the order asks for them. They are not saved:
        measuring again gives the same result."""
        self.refused = None
        if self._sealed is not None:
            order = self._sealed.opened_anchor(order, floating_layout(self._spec), self._latest)
        anchor = anchor_model(order, self._spec, self._files, self._start, self._settings.anchor_file)
        if self._plan.start_from == "anchor" and self._has_not_begun():
            self._files.write_start(anchor)
            self._start = anchor
            self._client, self._client_phase = self._open_client("mixed")
        samples, arrays = len(self._positions["train"]), {}
        if order.measure != Measure.NONE:
            stats = self._statistics.measure(self._client, order, anchor)
            samples, arrays = stats.samples, dict(measures.arrays_of(stats))
        moments = self._outgoing.arrays("statistics", arrays, round_no=order.round_no)
        report = Stats(run=order.run, round_no=order.round_no, samples=samples, moments=moments)
        return report if self._sealed is None else self._sealed.statistics(report)

    def train(self, order: Train, should_stop: Callable[[], bool]) -> Update | None:
        """Evaluate the delivered model, train it further and save the result. None if asked to stop: nothing is kept.
        A request to stop stays true until this has ended.

        Unsound weights are refused: training then continues from the own latest model, and nothing is evaluated.
        """
        self._enter(order.phase)
        self._deliver(order, should_stop)
        judged = self._begin_judging(order)
        passes = self._strategy_of(order.phase).passes(self._plan.sgd.epochs)
        pace = Pace(self._plan, len(self._splits["train"]), order.round_no, passes, self._watch, should_stop)
        report = self._client.train(order.round_no, measure=Measure(order.measure), should_stop=pace.asked)
        if pace.was_stopped:
            self._client, self._client_phase = self._open_client(order.phase)
            return None
        trained = self._client.state()
        require_finite(trained, order.round_no)
        evaluations = judged()
        extras = self._carried_on() | self._tables(evaluations)
        if report.stats is not None:
            extras |= _tensors("statistics/", measures.arrays_of(report.stats))
        loss = report.metrics.loss if math.isfinite(report.metrics.loss) and report.metrics.steps else None
        saved = SavedRound(
            kind=Update.KIND,
            round_no=order.round_no,
            phase=order.phase,
            model=trained,
            extras=extras,
            facts={
                "steps": report.metrics.steps,
                "train_loss": loss,
                "scores": saved_scores(self._scores(evaluations)),
            },
        )
        layout = shared_layout(self._spec, self._strategy_of(order.phase))
        saved, difference = self._feedback.encode_update(saved, layout, self._latest, self._start)
        if self._sealed is not None:
            saved = self._sealed.noted(saved, order, self._latest)
        self._files.write_latest(saved)
        self._latest = saved
        judged_last = headline(evaluations)
        accuracy = judged_last["test"].accuracy if "test" in judged_last else None
        pace.done(loss, accuracy)  # only now: a round that is shown as done is never trained again
        update = update_of(self._welcome.run, saved, layout, self._outgoing, self._sealed)
        return update if difference is None else replace(update, weights=difference)

    def finish(self, order: Finish) -> Goodbye:
        """Take the last weights, evaluate, and save the personal model. Unsound weights are refused: the personal model
        is then the one after the own last training, and no score is that of a delivered model."""
        if not self._has_not_begun() or order.weights is not None:
            self._enter("mixed")
        self._deliver(order)
        evaluations = self._examiner.examine(self._client, order.round_no)
        scores, instead = self._scores(evaluations), self._kept_instead(order)
        if instead:
            own = (replace(one, model=TRAINED) if one.model == DELIVERED else one for one in scores)
            scores = () if self._has_not_begun() else tuple(own)
        if self._settings.share_comparison:
            self.train_alone(lambda: False)
        saved = SavedRound(
            kind=Goodbye.KIND,
            round_no=order.round_no,
            phase="mixed",
            model=self._client.state(),
            extras=self._carried_on() | self._tables(evaluations),
            facts={
                "scores": saved_scores(scores),
                "judged": judged_by_split(headline(evaluations)),
                "comparison": alone_scores(self._files) if self._settings.share_comparison else [],
                "reason": order.reason,
                "mixed_from": {one.member: one.weight for one in order.mixed_from} if self.refused is None else {},
                "similarity": order.similarity,
                "instead": instead,
            },
        )
        personal = self._client.handed_over(order.round_no)
        self._state.write_personal(self._spec, personal, self._provenance(order, scores, instead))
        self._files.write_latest(saved)
        self._latest = saved
        return goodbye_of(self._welcome.run, saved, self._outgoing, self._sealed)

    def train_alone(self, should_stop: Callable[[], bool]) -> None:
        """Train the model that is trained alone up to the latest finished round; once the run is over, also fine-tune
        the federated one."""
        saved, alone = self._latest, make_strategy("base")
        if saved is None or self._strategy.name == alone.name:
            return
        is_over = saved.kind == Goodbye.KIND
        is_done = train_alone(
            lambda state: self._client_of(alone, state),
            self._files,
            self._start,
            last=saved.round_no - is_over,
            judged=self._judged,
            should_stop=should_stop,
            tell=is_over,
        )
        if is_done and is_over and "validation" in self._judged and not saved.facts.get("instead"):
            epochs = self._strategy.finetune + self._plan.sgd.epochs
            client = self._client_of(replace(self._strategy, finetune=epochs), self._start)
            fine_tune(client, self._files, saved, self._judged)

    # --- clients ------------------------------------------------------------------------------------------------

    def _read_start(self) -> State:
        """Return the model of round 0, made durable before anything depends on it."""
        if not self._files.has_start:
            own_file = self._settings.model_file
            self._files.write_start(initial_model(self._welcome, self._spec, self._files, own_file))
        self._state.set_current(self._welcome.run)
        return self._files.read_start()

    def _open_client(self, phase: str) -> tuple[LocalClient, str]:
        """Create the client of a phase, in the state of its latest finished round or of its start."""
        warming = phase == WARMUP
        strategy = self._strategy_of(phase)
        saved = self._latest
        goes_on = saved is not None and (saved.phase == WARMUP) == warming
        client = self._client_of(strategy, self._start)  # what the strategy keeps may start as a copy of it
        if saved is not None and goes_on:
            client.load(saved.model, saved.extras_of("home"))
            if client.velocity is not None and "velocity" in saved.extras:
                client.velocity.copy_(saved.extras["velocity"])
        return client, phase

    def _client_of(self, strategy: Strategy, state: State) -> LocalClient:
        plan = LocalPlan(
            strategy=strategy,
            sgd=self._plan.sgd,
            seed=self._plan.seed,
            compute=self._plan.compute,
            rounds=range(self._plan.warmup_rounds, self._plan.rounds),
        )
        module = module_of(self._spec, state)
        return LocalClient(self._welcome.participant, splits=self._splits, module=module, spec=self._spec, plan=plan)

    def _enter(self, phase: str) -> None:
        """Switch between warm-up and the other rounds: each has its own model."""
        if (phase == WARMUP) != (self._client_phase == WARMUP):
            self._client, self._client_phase = self._open_client(phase)

    def _is_warming(self) -> bool:
        if self._latest is not None:
            return self._latest.phase == WARMUP
        return self._plan.warmup_rounds > 0

    def _has_not_begun(self) -> bool:
        """Whether no round after warm-up is finished."""
        return self._latest is None or self._latest.phase == WARMUP

    def _strategy_of(self, phase: str) -> Strategy:
        return make_strategy("fedavg") if phase == WARMUP else self._strategy

    # --- rounds -------------------------------------------------------------------------------------------------

    def _deliver(self, order: Train | Finish, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Load the weights of an order into the client, unless they are unsound: `refused` then says why."""
        self.refused = None
        self._feedback.delivered(None)
        layout = shared_layout(self._spec, self._strategy_of(self._client_phase))
        weights, own = order.weights, self._client.shared
        if self._sealed is not None:
            weights, self.refused = self._sealed.opened(order, layout, own, self._latest)
        if weights is not None and order.base is not None:
            base = reported_values(self._latest, order.base, layout, self._outgoing)
            weights = self._outgoing.in_full(layout, base + weights.flat())
        if weights is None or self.refused is not None:
            return
        values, self.refused = delivered_values(order, weights, layout, own=own, spec=self._spec)
        if values is None:
            return
        brought = self._sealed is None or order.uploads is not None  # else they are our own, unknown to others
        self._feedback.delivered(values if brought else None)
        untrained = None
        if self._client_phase != WARMUP and self._has_not_begun():  # only then: copying a large model is expensive
            untrained = self._outgoing.as_delivered(layout, own)
        self._client.deliver(order.round_no, values, untrained=untrained, should_stop=should_stop)

    def _carried_on(self) -> State:
        """The tensors, besides the shared model, that the next round depends on."""
        extras = {f"home/{name}": tensor for name, tensor in self._client.kept().items()}
        if self._client.velocity is not None:
            extras["velocity"] = self._client.velocity.clone()
        return extras

    def _tables(self, evaluations: Evaluations) -> State:
        if not (self._settings.share_class_counts and evaluations):
            return {}
        counts = self._data.class_counts(self._positions["train"])
        return _tensors("tables/", tables_of(counts, headline(evaluations)))

    def _evaluates_delivery(self, order: Train) -> bool:
        """Whether the plan asks for an evaluation of the previous round's result."""
        first = 0 if order.phase == WARMUP else self._plan.warmup_rounds
        before = order.round_no - 1
        return before >= first and self._plan.evaluates(before)

    def _begin_judging(self, order: Train) -> Callable[[], Evaluations]:
        """Start evaluating the delivered model, if the plan asks for it; the result is fetched after training."""
        if self.refused is not None or not self._evaluates_delivery(order):
            return dict
        return self._examiner.begin(self._client, self._twin, order.round_no)

    def _twin(self) -> LocalClient:
        """Return a client of the current phase whose model is not trained; created before training draws from torch's
        generator."""
        warming = self._client_phase == WARMUP
        if warming not in self._twins:
            self._twins[warming] = self._client_of(self._strategy_of(self._client_phase), self._start)
        return self._twins[warming]

    def _scores(self, evaluations: Evaluations) -> tuple[Score, ...]:
        return tuple(score_of(part, one, model=model) for (model, part), one in evaluations.items())

    def _provenance(self, order: Finish, scores: tuple[Score, ...], instead: str) -> dict[str, str]:
        final = {s.split: s for s in sorted(scores, key=lambda one: -headline_rank(one.model))}
        described = {f"{s.split}_accuracy": f"{s.correct / s.samples:.6f}" for s in final.values() if s.samples}
        described |= {split: str(s.samples) for split, s in ((f"{name}_samples", s) for name, s in final.items())}
        return {
            "run": order.run,
            "participant": self._welcome.participant,
            "algorithm": self._plan.strategy,
            "rounds": str(order.round_no),
            "ended": order.reason,
            "seed": str(self._plan.seed),
            "train_samples": str(len(self._positions["train"])),
            "model": instead or f"mixed after round {order.round_no}",
            **described,
        }

    def _kept_instead(self, order: Finish) -> str:
        """Say which model is kept instead of the one that `finish` should deliver, and why; empty if that one is."""
        shares = bool(shared_layout(self._spec, self._strategy).specs)
        if self.refused is None and (order.weights is not None or not shares):
            return ""
        why = "finish brought no weights" if self.refused is None else f"refused: {self.refused.reason}"
        rounds = 0 if self._latest is None else self._latest.round_no + 1
        own = "the initial model" if self._has_not_begun() else f"own training of round {rounds}"
        return f"{own} ({why})"


def _tensors(prefix: str, arrays: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]) -> State:
    return {prefix + name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
