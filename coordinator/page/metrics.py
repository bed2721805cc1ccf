"""Exports a run as Prometheus metrics, built from an overview at every scrape. Defines their names and meanings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coordinator.decisions.stages import Stage
from coordinator.decisions.state import Status
from coordinator.watching.overview import RunOverview


class RunMetrics(Collector):
    """Collects metrics from the overview that `read_overview` returns, at every scrape."""

    def __init__(self, read_overview: Callable[[], RunOverview]) -> None:
        self._read_overview = read_overview
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """Return the metrics in the exposition format."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not collect."""
        return []

    def collect(self) -> Iterator[Metric]:
        run = self._read_overview()
        yield from _of_run(run)
        yield from _of_members(run)


def _of_run(run: RunOverview) -> Iterator[Metric]:
    plain: dict[str, tuple[str, float | None]] = {
        "fedap_coordinator_running": (
            "Whether a coordinator process serves the run.",
            None if run.running is None else run.running,
        ),
        "fedap_run_ended": ("Whether the run has ended.", run.ended),
        "fedap_run_paused": ("Whether the run is paused because of its disk.", bool(run.paused)),
        "fedap_run_notices": ("Active notices to the operator.", len(run.notices)),
        "fedap_run_seconds": ("Time on the run clock.", run.ran_s),
        "fedap_run_seconds_left": ("Expected time until all rounds are trained.", run.seconds_left),
        "fedap_round": ("The round that is open, from 1.", run.round),
        "fedap_rounds": ("Rounds of the run.", run.rounds),
        "fedap_round_open_seconds": ("How long the round has been open.", run.round_open_s),
        "fedap_round_last_seconds": ("How long the last closed round took.", run.last_round_s),
        "fedap_accuracy_mean": ("Mean test accuracy over members' latest scores.", run.mean_accuracy),
        "fedap_accuracy_lowest": ("Lowest test accuracy among members' latest scores.", run.lowest_accuracy),
        "fedap_disk_free_bytes": ("Free disk space of the run's folder.", run.disk_free_bytes),
        "fedap_disk_reserve_bytes": ("Free disk space to keep.", run.disk_reserve_bytes),
    }
    for name, (meaning, value) in plain.items():
        metric = GaugeMetricFamily(name, meaning, labels=["run"])
        if value is not None:
            metric.add_metric([run.run], float(value))
        yield metric
    stage = GaugeMetricFamily("fedap_run_stage", "1 for the stage that the run is in.", labels=["run", "stage"])
    for one in Stage:
        stage.add_metric([run.run, str(one)], float(str(one) == run.stage))
    yield stage
    members = GaugeMetricFamily("fedap_members", "Members by status.", labels=["run", "status"])
    for status in Status:
        members.add_metric([run.run, str(status)], sum(one.status == status for one in run.members))
    yield members


def _of_members(run: RunOverview) -> Iterator[Metric]:
    labels = ["run", "member"]
    present = GaugeMetricFamily("fedap_member_present", "Whether the member is present.", labels=labels)
    heard = GaugeMetricFamily(
        "fedap_member_silent_seconds", "Seconds since the last message of the member.", labels=labels
    )
    trained = GaugeMetricFamily("fedap_member_round", "Last round that the member trained.", labels=labels)
    accuracy = GaugeMetricFamily("fedap_member_accuracy", "Its latest test accuracy.", labels=labels)
    strikes = GaugeMetricFamily("fedap_member_strikes", "Refused messages that count towards exclusion.", labels=labels)
    samples = GaugeMetricFamily("fedap_member_train_samples", "Its training samples.", labels=labels)
    moved = CounterMetricFamily(
        "fedap_member_bytes", "Bytes received from and sent to it.", labels=[*labels, "direction"]
    )
    for one in run.members:
        who = [run.run, one.name]
        present.add_metric(who, float(one.status == Status.PRESENT))
        trained.add_metric(who, one.round)
        strikes.add_metric(who, one.strikes)
        samples.add_metric(who, one.train_samples)
        if one.heard_s is not None:
            heard.add_metric(who, one.heard_s)
        if one.accuracy is not None:
            accuracy.add_metric(who, one.accuracy)
        moved.add_metric([*who, "received"], one.received_bytes)
        moved.add_metric([*who, "sent"], one.sent_bytes)
    yield from (present, heard, trained, accuracy, strikes, samples, moved)
