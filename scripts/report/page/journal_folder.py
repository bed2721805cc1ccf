"""Reads a coordinator's run folder: the journal's facts, and the bytes counted on the wire.

A coordinator does not know what members keep private (classes and confusion matrices, unless they agreed to share
them), so the report does not have it either. Paths, keys and addresses of the configuration stay out of the report,
because it is meant to be passed on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from coordinator.config import RunConfig, make_config
from coordinator.decisions import facts
from coordinator.decisions.scoring import scores_by_split
from coordinator.record.journal import JOURNAL, SqliteJournal, facts_of
from coordinator.record.traffic import TrafficCounts
from fedap_core.errors import InvalidInput
from fedap_core.model_spec import METADATA_KEY, ModelSpec
from fedap_core.sealing.limitations import cannot_be_had
from participant.sealing.opened_scores import Seal
from protocol.contracts import Frames
from protocol.messages import Score
from protocol.tensors import Array
from scripts.engines.processes.evidence import stored_arrays
from scripts.run.clusters import MOST_DRAWN, clusters_of
from scripts.run.damage import intact
from scripts.run.journal_rounds import JournalRounds
from scripts.run.mixing_record import MixingRecord
from scripts.run.records import ClientScore, Counts, RoundRecord, Run

_SHOWN = ("rounds", "mode", "split", "start_from", "evaluate_every", "encoding")
Tables = Mapping[str, Array]


def read_journal_runs(folder: Path, seal: Seal | None = None) -> list[Run]:
    """Read the run whose journal is in this folder, while it is running or afterwards, and the members' results alone
    as a second run, if they share them. seal: decrypts scores that members have sealed."""
    config, spec, journal = _read(folder, seal)
    federated = _run(folder, seal, config, spec, journal)
    return [federated, *_alone(federated, journal)]


def _run(folder: Path, seal: Seal | None, config: RunConfig, spec: ModelSpec | None, journal: JournalRounds) -> Run:
    clients = tuple(sorted(journal.members))
    tables = _shared_tables(folder, config, seal)
    counts = _class_counts(tables, clients)
    traffic = TrafficCounts(folder, key=lambda _closed, member, round_no, way: (round_no, way, member))
    traffic.read(strict=True)
    rounds, notes = list(_rounds(journal, clients, tables, traffic.counted)), list[str]()
    if config.mode == "continuous":
        rounds, notes = _with_last_scores(rounds, clients)
    notes += _sealed_notes(config)
    return Run(
        source=config.run,
        algorithm=config.algorithm.name,
        options={key: str(value) for key, value in config.algorithm.options.items()},
        seed=config.seed,
        asked=config.rounds,
        clients=clients,
        classes=_class_names(spec, counts),
        class_counts=counts,
        rounds=tuple(rounds),
        notes=tuple(notes),
        mixing=_mixing(journal, clients),
        settings=dict(_settings(config)),
    )


def _alone(federated: Run, journal: JournalRounds) -> Iterator[Run]:
    """Yield the members' shared scores of training alone as a run with one round, the federation's last; nothing if
    nobody shares them."""
    if not journal.alone or not federated.evaluated:
        return
    splits = _by_split({member: _client_scores(scores) for member, scores in journal.alone.items()}, federated.clients)
    last = RoundRecord(number=federated.evaluated[-1].number, splits=splits)
    yield replace(
        federated,
        algorithm="base",
        options={},
        rounds=(last,),
        mixing=None,
        settings=dict(federated.settings) | {"algorithm": "base"},
    )


def _with_last_scores(rounds: list[RoundRecord], clients: Sequence[str]) -> tuple[list[RoundRecord], list[str]]:
    """Put each member's own last score into the last record: without barriers, members end in different rounds."""
    scored = [record for record in rounds if record.scores]
    if not scored:
        return rounds, []
    missing = (None,) * len(clients)
    latest = {at: record for record in scored for at, one in enumerate(record.scores) if one is not None}
    splits = {
        split: tuple(latest[at].splits.get(split, missing)[at] if at in latest else None for at in range(len(clients)))
        for split in scored[-1].splits
    }
    at_end = replace(scored[-1], splits=splits)
    first, last = min(record.number for record in latest.values()) + 1, scored[-1].number + 1
    note = f"Rounds were not synchronised: every client counts with its last score, of rounds {first} to {last}."
    return [at_end if record is scored[-1] else record for record in rounds], [note]


def _read(folder: Path, seal: Seal | None) -> tuple[RunConfig, ModelSpec | None, JournalRounds]:
    journal = SqliteJournal(folder / JOURNAL, read_only=True)
    try:
        stored = journal.metadata("config")
        if stored is None:
            raise InvalidInput("run", str(folder), "a run that has begun")
        described = journal.metadata("model")
        spec = None
        if described is not None:
            spec = ModelSpec.from_metadata({METADATA_KEY: described}, source=str(folder / JOURNAL))
        with intact(folder / JOURNAL):
            config, journalled = make_config(json.loads(stored)), list(facts_of(journal))
        if config.seals_scores and seal is None:
            fix = "Only a member can write the report: give --group-key, and --state with the folder that join used."
            raise InvalidInput("run", config.run, "scores that can be read; those of this run are sealed", fix)
        rounds = JournalRounds()
        for fact, time_s in journalled:
            rounds.add(_opened(fact, folder, seal) if config.seals_scores and seal is not None else fact, time_s)
        return config, spec, rounds
    finally:
        journal.close()


def _opened(fact: facts.Fact, folder: Path, seal: Seal) -> facts.Fact:
    """Return a report with the scores that its member sealed, decrypted."""
    if not isinstance(fact, facts.UpdateAccepted | facts.GoodbyeAccepted):
        return fact
    contents = seal.opened(folder).get((fact.round_no, fact.member))
    scores = () if contents is None else contents.facts["scores"]
    return replace(fact, scores=tuple(Score.read(one, Frames(()), newer=False) for one in scores))


def _sealed_notes(config: RunConfig) -> list[str]:
    if not config.sealed:
        return []
    limits = cannot_be_had(statistics_to_members=config.sealing.statistics_to == "members")
    return ["The run is sealed: the coordinator cannot read updates.", *limits]


def _shared_tables(folder: Path, config: RunConfig, seal: Seal | None) -> Mapping[tuple[int, str], Tables]:
    """Return (round, member) -> arrays by name; empty if they are sealed and there is no key."""
    if not config.seals_scores:
        return {(round_no, member): arrays for round_no, member, arrays in _tables(folder / "tables")}
    return {} if seal is None else {place: one.arrays for place, one in seal.opened(folder).items() if one.arrays}


def _tables(folder: Path) -> Iterator[tuple[int, str, Tables]]:
    """Yield (round, member, arrays by name) for all tables that members agreed to share."""
    for path in sorted(folder.glob("*/*")):
        with suppress(InvalidInput):  # a file still being written, or left behind by a crash
            yield int(path.parent.name), path.name, stored_arrays(path)


def _class_counts(tables: Mapping[tuple[int, str], Tables], clients: Sequence[str]) -> Counts | None:
    """Count each client's samples, those of training and of the confusion matrices; None unless all share them."""
    found = {member: _all_counts(arrays) for (_, member), arrays in sorted(tables.items())}
    if not clients or not found.keys() >= set(clients):
        return None
    return tuple(tuple(map(int, found[client])) for client in clients)


def _class_names(spec: ModelSpec | None, counts: Counts | None) -> tuple[str, ...]:
    """Return the class names of the model file, or numbers if the folder does not have them."""
    if counts is None:
        return ()
    named = spec is not None and len(spec.classes) == len(counts[0])
    return tuple(spec.classes) if spec is not None and named else tuple(f"class {at}" for at in range(len(counts[0])))


def _all_counts(arrays: Tables) -> Array:
    tested = [array.sum(axis=1) for name, array in arrays.items() if name.startswith("confusion/")]
    return np.asarray(np.sum([arrays["class_counts"], *tested], axis=0))


def _settings(config: RunConfig) -> Iterator[tuple[str, str]]:
    yield "run", config.run
    yield "algorithm", config.algorithm.name
    yield "seed", str(config.seed)
    yield from ((name, str(getattr(config, name))) for name in _SHOWN)
    yield from ((f"training.{name}", str(value)) for name, value in config.training.model_dump(mode="json").items())


def _rounds(
    journal: JournalRounds,
    clients: Sequence[str],
    tables: Mapping[tuple[int, str], Tables],
    traffic: Mapping[tuple[int, str, str], int],
) -> Iterator[RoundRecord]:
    for number, one in sorted(journal.rounds.items()):
        found = {member: scores_by_split(list(scores.values())) for member, scores in one.scores.items()}
        shared = {member: tables.get((one.stored_under[member], member)) for member in found}
        known = {member: _client_scores(scores, shared[member]) for member, scores in found.items() if "test" in scores}
        if number < 0 or (one.closed_s is None and not known):  # skip the initial model and open rounds
            continue
        up, down = ([traffic.get((number, way, client), 0) for client in clients] for way in ("in", "out"))
        timed = one.opened_s is not None and one.closed_s is not None
        yield RoundRecord(
            number=number,
            splits=_by_split(known, clients),
            seconds={"round": (one.closed_s or 0.0) - (one.opened_s or 0.0)} if timed else {},
            up=tuple(up) if any(up) else (),
            down=tuple(down) if any(down) else (),
        )


def _client_scores(scores: Mapping[str, Score], shared: Tables | None = None) -> dict[str, ClientScore]:
    """Return one member's scores by split; the one on test samples with its shared matrix."""
    return {
        split: ClientScore.of(score, _confusion(shared, score) if split == "test" else None)
        for split, score in scores.items()
    }


def _by_split(
    known: Mapping[str, Mapping[str, ClientScore]], clients: Sequence[str]
) -> dict[str, tuple[ClientScore | None, ...]]:
    """Turn scores by member and split into the columns of a record, without splits that nobody has."""
    names = {split: None for scores in known.values() for split in scores}
    return {split: tuple(known.get(client, {}).get(split) for client in clients) for split in names}


def _confusion(shared: Tables | None, score: Score) -> Counts | None:
    """Return the shared matrix if it belongs to this score, that is if its sums match."""
    matrix = None if shared is None else shared.get("confusion/test")
    if matrix is None or int(matrix.sum()) != score.samples or int(matrix.trace()) != score.correct:
        return None
    return tuple(tuple(map(int, row)) for row in matrix)


def _mixing(journal: JournalRounds, clients: Sequence[str]) -> MixingRecord | None:
    """Return the last W if it covers everybody who ever joined; in a sealed run, built from the rows they requested."""
    requested, weighed = journal.requested, journal.weighed
    if requested and all(set(requested.get(client, ())) == set(clients) for client in clients):
        rows = np.array([[requested[client][one] for one in clients] for client in clients], dtype=np.float64)
        return _with_clusters(MixingRecord(weights=rows / rows.sum(axis=1, keepdims=True)))
    if weighed is None or sorted(weighed.members) != list(clients):
        return None
    order = [weighed.members.index(client) for client in clients]
    weights = np.array(weighed.weights, dtype=np.float64)
    alike = tuple(weighed.similarity[place] for place in order) if weighed.similarity else ()
    return _with_clusters(MixingRecord(weights=weights[np.ix_(order, order)], similarity=alike))


def _with_clusters(mixing: MixingRecord) -> MixingRecord:
    """Add clusters, which a journal does not have: clients that take from the same others are similar."""
    return replace(mixing, clusters=tuple(clusters_of(mixing.weights))) if len(mixing) > MOST_DRAWN else mixing
