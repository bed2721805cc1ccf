"""The engine of processes: a real federation that leaves, bit for bit, the run folder of the inline engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinator.record.journal import JOURNAL, SqliteJournal
from fedap_core.errors import InvalidInput
from fedap_core.strategies import STRATEGIES
from participant.decisions.allowance import parse_allowance
from participant.record.model_file import read_model
from scripts.engines.processes.configuring import join_settings
from scripts.engines.processes.run import ProcessOptions, run_processes
from scripts.lab import main
from scripts.run.records import Json
from scripts.run.run_folder import RunFolder
from scripts.run.settings import RunSettings
from tests.support.cohorts import clients_of, lab_arguments, model_bits, run_command, run_small, small_run

ALL = tuple(name for name in STRATEGIES if name not in ("fedap-sbn", "fedap-unweighted"))
FIVE_CLIENTS = {"clients": 5, "data_options": {"samples": "400", "classes": "3", "shape": "1x16x16"}}

VARIANTS: dict[str, RunSettings] = {
    "the anchor is made by warm-up": small_run("fedap", rounds=4, anchor={"kind": "warmup", "rounds": 2}),
    "everybody starts from the pooled anchor": small_run("fedbn", start_from="anchor"),
    "W and the start are the anchor's": small_run("fedap", start_from="anchor"),
    "some rounds are not evaluated": small_run("fedap", rounds=14, evaluate_every=3),
    "there is a validation split": small_run("f-fedap", rounds=4, cohort={"protocol": "reference", "min_samples": 16}),
    "an algorithm has options": small_run("fedap", options={"self_weight": 0.7, "full_covariance": True}),
    "convolutions are torch's own": small_run("fedap", layers="stock"),
    "the learning rate falls after warm-up": small_run(
        "fedbn", rounds=4, anchor={"kind": "warmup", "rounds": 2}, start_from="anchor", lr_schedule="cosine"
    ),
    "updates are int8 differences": small_run("fedap", encoding="int8"),
    "updates are topk differences, and delivery moves the model": small_run("fedadam", encoding="topk"),
    "running variances are topk differences, too": small_run("fedavg", rounds=8, encoding="topk"),
    "differences travel both ways after warm-up": small_run(
        "fedap", rounds=4, encoding="coarse", anchor={"kind": "warmup", "rounds": 2}
    ),
    "two of five take part, under FedAvg and coarse": small_run(
        "fedavg", rounds=5, cohort=FIVE_CLIENTS, participation=0.4, encoding="coarse"
    ),
    "two of five take part in a round": small_run("fedap", rounds=6, cohort=FIVE_CLIENTS, participation=0.4),
    "somebody never takes part": small_run("fedbn", rounds=2, cohort=FIVE_CLIENTS, participation=0.4),
    "somebody never takes part after warm-up": small_run(
        "fedap", rounds=3, cohort=FIVE_CLIENTS, participation=0.4, anchor={"kind": "warmup", "rounds": 1}
    ),
    "two of five take part, under FedAvg and int8": small_run(
        "fedavg", rounds=5, cohort=FIVE_CLIENTS, participation=0.4, encoding="int8"
    ),
    "two of five take part after warm-up": small_run(
        "fedap", rounds=6, cohort=FIVE_CLIENTS, participation=0.4, anchor={"kind": "warmup", "rounds": 2}
    ),
    "rows have two neighbours": small_run("fedap", cohort=FIVE_CLIENTS, options={"neighbours": 2}),
    "rows have two neighbours among those who have taken part": small_run(
        "fedap-plus", rounds=6, cohort=FIVE_CLIENTS, participation=0.4, options={"neighbours": 2}
    ),
    "every site is a client": small_run("fedap", cohort={"partition": "site"}),
    "half precision": small_run("ditto", encoding="bf16"),
    "training has momentum and two epochs": small_run("fedavg", momentum=0.9, weight_decay=1e-3, epochs=2),
}


def run_both(tmp_path: Path, settings: RunSettings, *, together: int = 1) -> tuple[RunFolder, RunFolder]:
    options = ProcessOptions(root=tmp_path / "processes", participants_per_process=together)
    cohort = clients_of(settings)
    return run_processes(settings, cohort, options), run_small(tmp_path / "inline", settings, cohort=cohort)


def without_costs(record: Json) -> Json:
    return {key: value for key, value in record.items() if key not in ("seconds", "bytes", "compressed")}


def require_equal(processes: RunFolder, inline: RunFolder) -> None:
    """Models, every number of every round, W with its distances where one stands for the run."""
    assert model_bits(processes) == model_bits(inline)
    assert [without_costs(record) for record in processes.rounds()] == [
        without_costs(record) for record in inline.rounds()
    ]
    written = [path.read_bytes() for folder in (processes, inline) if (path := folder.path / "mixing.json").exists()]
    assert len(set(written)) == (0 if inline.settings.strategy().mixes_by_values else 1)
    assert len(written) in (0, 2)
    assert processes.path.name == inline.path.name
    assert processes.summary() == inline.summary()


def test_processes_leave_the_inline_engines_run_folder_and_count_bytes_and_seconds(tmp_path: Path) -> None:
    """Three rounds, one process for each of three participants. What leaves in a round is at least the shared weights,
    four bytes each, and less than twice as much: scores, names and framing beside them are small."""
    processes, inline = run_both(tmp_path, small_run("fedap"))
    require_equal(processes, inline)
    spec, *_ = read_model(processes.models(2) / "c1.safetensors")
    weights = 4 * sum(tensor.size for tensor in spec.shared(processes.settings.strategy().home))
    for record in processes.rounds():
        for way in ("up", "down"):
            counted = record["bytes"][way]
            assert len(counted) == 3
            assert min(counted) >= weights
        assert max(record["bytes"]["up"]) < 2 * weights
        assert record["seconds"]["round"] > 0.0
    last = processes.rounds()[-1]["bytes"]["down"]
    assert min(last) >= 2 * weights  # the order to train, and the last model


def test_differences_travel_both_ways_in_a_fraction_of_the_bytes(tmp_path: Path) -> None:
    """The first model comes as values of a byte; then each way has about a quarter of a byte per value, and scores and
    names beside it."""
    processes, inline = run_both(tmp_path, small_run("fedap", encoding="coarse"))
    require_equal(processes, inline)
    spec, *_ = read_model(processes.models(2) / "c1.safetensors")
    weights = 4 * sum(tensor.size for tensor in spec.shared(processes.settings.strategy().home))
    middle = processes.rounds()[1]["bytes"]
    assert max(middle["up"] + middle["down"]) < 0.15 * weights


def test_participants_that_share_processes_compute_the_same(tmp_path: Path) -> None:
    """Five participants in three processes; f-FedAP measures during training."""
    processes, inline = run_both(tmp_path, small_run("f-fedap", cohort=FIVE_CLIENTS), together=2)
    require_equal(processes, inline)


def test_an_algorithm_with_a_second_model_leaves_it_to_a_longer_run(tmp_path: Path) -> None:
    """Ditto's personal models and both kinds of scores are the inline engine's; three rounds that go on from two of
    either engine end where three rounds from the beginning end."""
    processes, inline = run_both(tmp_path, small_run("ditto", rounds=2, options={"finetune": 1, "reestimate": True}))
    require_equal(processes, inline)
    assert [sorted(record) for record in inline.rounds()] == [
        ["delivered", "phase", "round", "seconds", "test", "train_loss"]
    ] * 2
    assert inline.rounds()[-1]["delivered"]["test"]["loss"] != inline.rounds()[-1]["test"]["loss"]
    longer = small_run("ditto", rounds=3, options={"finetune": 1, "reestimate": True})
    ends = [model_bits(run_small(tmp_path / root, longer)) for root in ("processes", "inline", "afresh")]
    assert ends[0] == ends[1] == ends[2]


def test_a_result_of_either_engine_is_reused_by_the_other(tmp_path: Path) -> None:
    settings = small_run("fedbn", rounds=1)
    folder = run_small(tmp_path, settings)
    before = (folder.path / "rounds.jsonl").stat().st_mtime_ns
    again = run_processes(settings, clients_of(settings), ProcessOptions(root=tmp_path))
    assert again.path == folder.path
    assert (again.path / "rounds.jsonl").stat().st_mtime_ns == before
    assert not (again.path / "federation").exists()


def test_what_is_kept_of_the_federation_is_its_record(tmp_path: Path) -> None:
    """Samples, weights and logs go, the journal stays."""
    settings = small_run("base", rounds=1)
    folder = run_processes(settings, clients_of(settings), ProcessOptions(root=tmp_path))
    kept = sorted(path.name for path in (folder.path / "federation").iterdir())
    assert kept == ["coordinator", "identity", "run.toml"]
    assert all(path.is_file() for path in (folder.path / "federation" / "coordinator").iterdir())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (small_run("fedavg", device="auto"), "device: got auto, expected cpu"),
        (small_run("fedavg", learning_rate=1000.0), "Training diverged? Lower the learning rate."),
    ],
    ids=["device", "diverged"],
)
def test_what_cannot_work_is_said_in_words(settings: RunSettings, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        run_processes(settings, clients_of(settings), ProcessOptions(root=tmp_path))
    assert said in str(caught.value)


def test_clients_that_are_trained_in_turn_cannot_run_without_barriers(tmp_path: Path) -> None:
    shown = run_command(main, *lab_arguments(tmp_path, "fedavg", rounds=1, more=["--mode", "continuous"]))
    assert shown.is_one_clear_line
    assert "--engine processes" in shown.complaint


def test_without_barriers_a_fast_participant_may_train_more_rounds_than_planned(tmp_path: Path) -> None:
    """Four rounds of three members are twelve updates; if the others are slow, most of them are of the fast one. It
    used to refuse every order after its fourth round, so that all waited for the slow one."""

    def allows(rounds: int, mode: str) -> bool:
        settings = small_run("fedap", rounds=4, mode=mode)
        joined = join_settings(
            settings, "fast", endpoint="ipc://x", shard=tmp_path, initial=tmp_path / "x", state=tmp_path / "state"
        )
        return parse_allowance(joined.allow, cores=1).limits["rounds"].admits(rounds)

    assert allows(12, "continuous")
    assert [allows(rounds, "barrier") for rounds in (4, 5)] == [True, False]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["f32", "coarse"])
def test_without_barriers_a_line_stands_for_as_many_updates_as_there_are_members(encoding: str, tmp_path: Path) -> None:
    """Four rounds of three members: at least twelve updates were admitted, four lines tell of them, and the last has
    everybody's final model."""
    settings = small_run("fedap", rounds=4, mode="continuous", encoding=encoding)
    folder = run_processes(settings, clients_of(settings), ProcessOptions(root=tmp_path))
    records = folder.rounds()
    assert [record["round"] for record in records] == [0, 1, 2, 3]
    assert [len(matrix) for matrix in records[-1]["test"]["confusion"]] == [3, 3, 3]
    assert folder.summary().per_client == tuple(records[-1]["test"]["accuracy"])
    journal = SqliteJournal(folder.path / "federation" / "coordinator" / JOURNAL, read_only=True)
    assert sum(entry.kind == "UpdateAccepted" for entry in journal.entries()) >= 12
    journal.close()
    assert RunFolder(tmp_path, settings.model_copy(update={"mode": "barrier"})).path != folder.path


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALL)
def test_every_algorithm_leaves_the_inline_engines_run_folder(algorithm: str, tmp_path: Path) -> None:
    settings = small_run(algorithm, rounds=4, cohort={"data": "watch", "data_options": {}, "partition": "site"})
    require_equal(*run_both(tmp_path, settings.model_copy(update={"model": "har-cnn"})))


@pytest.mark.slow
@pytest.mark.parametrize("what", VARIANTS)
def test_every_protocol_leaves_the_inline_engines_run_folder(what: str, tmp_path: Path) -> None:
    require_equal(*run_both(tmp_path, VARIANTS[what]))


@pytest.mark.slow
def test_the_demo_ends_with_a_table_a_sentence_and_a_page(tmp_path: Path) -> None:
    shown = run_command(main, "demo", "--rounds", "2", "--out", str(tmp_path / "demo"))
    assert (shown.code, shown.complaint) == (0, "")
    report = shown.out.splitlines()[-1]
    assert all(name in shown.out for name in ("base", "fedavg", "fedbn", "fedap", "fedap-plus"))
    words = " ".join(shown.out.split())  # lines are as wide as the terminal
    assert re.search(r"FedAP\+ (raised|did not raise) the mean accuracy: .* \d+ of 10 people gained\. Report: ", words)
    assert report == f"Report: {tmp_path / 'demo' / 'report.html'}"
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
