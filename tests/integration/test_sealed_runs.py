"""Sealed runs with real processes: the models that the lab computes, a coordinator in whose memory, files and messages
nothing of the members' values is found, and the same bits whoever is killed."""

from __future__ import annotations

import json
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator.record.blobs import describe, read_bytes
from participant.config import DataSettings
from participant.joining import open_home
from participant.privacy import stays_home, subject_of, what_leaves
from participant.record.model_file import read_model
from participant.sealing.boxes import Boxes, plan_digest
from participant.sealing.group_key import GroupKey, make_group_key
from participant.sealing.sealed_run import STATISTICS
from protocol.messages import Sealing
from protocol.plan import MAX_PEER_WEIGHT
from tests.integration.test_kills_of_both_sides import LIVES, MORTAL, Undertaker
from tests.integration.test_warmup import WARM, travelled
from tests.support.cohorts import MODELS, small_run, wait_until
from tests.support.players import Player, Reference, final_bits, players, run_reference
from tests.support.processes import ServeProcess
from tests.support.proxy import Cut, Proxy, Recorder
from tests.support.sealing import joining, sealed_file
from tests.support.whole_runs import run_to_its_end

ROUNDS = 3


@pytest.mark.parametrize(
    ("algorithm", "statistics_to"),
    [
        ("fedap", "members"),
        pytest.param("fedap", "coordinator", marks=pytest.mark.slow),
        pytest.param("scaffold", "members", marks=pytest.mark.slow),
        pytest.param("feddbe", "members", marks=pytest.mark.slow),
        pytest.param("f-fedap", "members", marks=pytest.mark.slow),
        pytest.param("fedbn", "members", marks=pytest.mark.slow),
    ],
)
def test_a_sealed_run_has_the_bits_of_the_labs(tmp_path: Path, algorithm: str, statistics_to: str) -> None:
    """The lab rounds values and rows as members do, and has no pads: these leave no trace."""
    reference = run_reference(tmp_path / "inline", small_run(algorithm, rounds=ROUNDS, sealed=True))
    key = make_group_key(tmp_path / "group.key")
    config = sealed_file(tmp_path, reference, key, statistics_to=statistics_to, max_peer_weight=MAX_PEER_WEIGHT)
    made = run_to_its_end(tmp_path, reference, config, *joining(tmp_path, reference, statistics_to))
    assert not any(line.get("event") == "order.refused" for one in made.values() for line in one.lines())
    assert final_bits(made) == reference.bits
    if algorithm == "fedap":
        require_listed(made["c1"], tmp_path, reference, key, statistics_to)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "start_from", "statistics_to", "partition"),
    [
        ("fedap", "initial", "members", "dirichlet"),
        ("fedap", "initial", "coordinator", "iid"),
        ("f-fedap", "anchor", "members", "dirichlet"),
    ],
)
def test_a_sealed_warm_up_has_the_bits_of_the_labs(
    tmp_path: Path, algorithm: str, start_from: str, statistics_to: str, partition: str
) -> None:
    """Two rounds make the anchor. Where members have different numbers of samples, nobody knows them in warm-up."""
    settings = small_run(
        algorithm, rounds=6, cohort={"partition": partition}, anchor=WARM, start_from=start_from, sealed=True
    )
    reference = run_reference(tmp_path / "inline", settings)
    key = make_group_key(tmp_path / "group.key")
    config = sealed_file(tmp_path, reference, key, statistics_to=statistics_to, max_peer_weight=MAX_PEER_WEIGHT)
    options = (*joining(tmp_path, reference, statistics_to), "--allow", "warmup_rounds<=2")
    made = run_to_its_end(tmp_path, reference, config, *options)
    assert not any(line.get("event") == "order.refused" for one in made.values() for line in one.lines())
    assert travelled(final_bits(made)) == travelled(reference.bits)


def require_listed(player: Player, folder: Path, reference: Reference, key: GroupKey, statistics_to: str) -> None:
    """What the member recorded as sent is what `check` lists, by kind, tensors and size; rows name members."""
    described = {"data": folder / "c1.npz", "model_file": reference.initial, "name": "c1", "validation": 0.0}
    settings = DataSettings.model_validate({name: str(value) for name, value in described.items()})
    sealing = Sealing(fingerprint=key.fingerprint, statistics_to=statistics_to)
    algorithm = reference.settings.algorithm
    subject = subject_of(
        open_home(settings), settings, algorithm=algorithm, options={}, rounds=ROUNDS, warmup_rounds=0, encoding="f32",
        sealing=sealing,
    )  # fmt: skip
    assert "bn1.weight" in stays_home(subject)
    assert "conv1.weight" not in stays_home(subject)
    entries = {one.kind: one for one in what_leaves(subject)}
    assert ("0 instead of sample counts" in entries["hello"].when) == (statistics_to == "members")
    for line in player.sent():
        entry = entries[str(line["kind"])]
        names = [str(name) for name in line["names"]] if isinstance(line["names"], list) else []
        assert {name for name in names if name not in reference.names} == set(entry.tensor_names)
        assert isinstance(line["bytes"], int)
        assert -16 <= line["bytes"] - entry.tensor_bytes < 1500


def test_a_wrong_key_is_refused_at_hello_with_a_sentence(tmp_path: Path) -> None:
    reference = run_reference(tmp_path / "inline", small_run("fedavg", rounds=1))
    config = sealed_file(tmp_path, reference, GroupKey(secret=bytes(32)))
    make_group_key(tmp_path / "group.key")
    coordinator = ServeProcess("serve", "--config", str(config), log=tmp_path / "coordinator.log")
    try:
        with players(tmp_path, reference, coordinator.ready(), *joining(tmp_path, reference)) as made:
            wait_until(lambda: all(one.ended() is not None for one in made.values()), "everybody to be refused")
            assert {one.ended() for one in made.values()} == {2}
            assert all("the group key is not the one of this run's members" in one.log() for one in made.values())
    finally:
        coordinator.close()


# ---- nothing to be found at the coordinator


def memory_of(pid: int) -> Iterator[bytes]:
    """All that a process has in memory, region by region."""
    maps = Path(f"/proc/{pid}/maps").read_text()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for start, stop in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw", maps, re.MULTILINE):
            try:
                memory.seek(int(start, 16))
                yield memory.read(int(stop, 16) - int(start, 16))
            except OSError:  # a region that cannot be read by anybody, such as the kernel's
                continue


@contextmanager
def reader_of(path: Path) -> Iterator[int]:
    """A process that has this file in memory, while the context lasts: its id."""
    program = "import pathlib, sys; held = pathlib.Path(sys.argv[1]).read_bytes(); print('read', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "read\n"
        yield child.pid
        child.communicate("\n")


def encodings_of(values: np.ndarray[Any, np.dtype[np.float32]]) -> list[bytes]:
    """Some neighbouring weights in every form in which they could lie about."""
    fixed = np.rint(values.astype(np.float64) * 2.0**24).astype(np.int64)
    plain: list[np.ndarray[Any, np.dtype[Any]]] = [
        values,
        values.astype(np.float64),
        values.astype(np.float16),
        fixed,
        fixed * 2**20,
    ]
    return [one.tobytes() for one in plain] + [one.astype(one.dtype.newbyteorder(">")).tobytes() for one in plain]


def numbers_of(number: float) -> list[bytes]:
    return [struct.pack("<d", number), struct.pack(">d", number), repr(number).encode()]


def found_in(needles: dict[str, list[bytes]], places: Iterator[bytes]) -> set[str]:
    held = list(places)
    return {name for name, forms in needles.items() if any(form in place for form in forms for place in held)}


def copied(player: Player, folder: Path) -> Path:
    """The update that a member sent last: its own file goes when it has sent another."""
    saved = sorted((player.state / "state" / "whole").glob("round-*.safetensors"))
    return Path(shutil.copy(saved[-1], folder / "sent.safetensors"))


def secrets_of(player: Player, sent: Path) -> dict[str, list[bytes]]:
    """Values that the coordinator must not have: of the weights and the scores of one member."""
    _, tensors, notes = read_model(sent)
    weights = next(one.numpy() for name, one in tensors.items() if one.ndim == 4 and "extra" not in name)
    loss = re.search(r'"train_loss": ([0-9.e-]+)', notes["report"])
    assert loss is not None
    return {"weights": encodings_of(weights.reshape(-1)[:8]), "scores": numbers_of(float(loss[1]))}


def statistics_of(player: Player, folder: Path, boxes: Boxes) -> list[bytes]:
    """The same of its statistics, where they are sealed."""
    stored = describe(next((folder / "run" / "blobs" / "stats").glob(f"*/{player.name}")))
    box = bytes(read_bytes(stored.path, 0, stored.size_bytes))
    moments = boxes.open(box, purpose=STATISTICS, member=player.name)
    mean = next(one for name, one in moments.arrays.items() if name.endswith("/mean"))
    return [mean[:2].tobytes(), mean[:2].astype(np.float32).tobytes(), *numbers_of(float(mean[0]))]


@pytest.mark.parametrize("statistics_to", ["members", pytest.param("coordinator", marks=pytest.mark.slow)])
def test_nothing_of_the_members_values_is_found_at_the_coordinator(tmp_path: Path, statistics_to: str) -> None:
    """One member is stopped in mid-run, so that the coordinator waits with the updates of the others in memory. That
    the search finds what is there is shown by a process that has read the member's own file. Statistics are among these
    values unless the coordinator computes W."""
    reference = run_reference(tmp_path / "inline", small_run("fedap", rounds=ROUNDS))
    key = make_group_key(tmp_path / "group.key")
    pace = {"dead_after_s": 60.0}
    how = {"scores": "sealed", "statistics_to": statistics_to}
    config = sealed_file(tmp_path, reference, key, pace=pace, endpoint="tcp://127.0.0.1:*", **how)
    coordinator = ServeProcess("serve", "--config", str(config), log=tmp_path / "coordinator.log")
    try:
        with (
            Recorder(coordinator.ready()) as line,
            players(tmp_path, reference, line.endpoint, *joining(tmp_path, reference, statistics_to)) as made,
        ):
            first, *_, last = made.values()
            wait_until(lambda: is_saved(last, 0), "a round of the last member")
            last.kill(signal.SIGSTOP)
            wait_until(lambda: is_stored(tmp_path, first), "the latest update of the first member to be stored")
            boxes = Boxes(key=key, run="whole", plan=plan_digest(agreed(first)))
            sent = copied(first, tmp_path)
            needles = secrets_of(first, sent)
            if statistics_to == "members":
                needles["statistics"] = statistics_of(first, tmp_path, boxes)
            with reader_of(sent) as pid:
                assert "weights" in found_in(needles, memory_of(pid))
            assert found_in(needles, memory_of(coordinator.child.pid)) == set()
            files = (path for path in (tmp_path / "run").rglob("*") if path.is_file())
            assert found_in(needles, (path.read_bytes() for path in files)) == set()
            assert found_in(needles, iter([(tmp_path / "coordinator.log").read_bytes()])) == set()
            assert key.secret not in b"".join(memory_of(coordinator.child.pid))
            assert found_in(needles, iter(line.passed)) == set()
            assert found_in({"sealed": [stored_update(tmp_path, first)]}, iter(line.passed)) == {"sealed"}
            last.kill(signal.SIGCONT)
            wait_until(lambda: all(one.ended() is not None for one in made.values()), "the run to end")
            assert {name: one.ended() for name, one in made.items()} == dict.fromkeys(made, 0)
    finally:
        coordinator.close()


def is_saved(player: Player, round_no: int) -> bool:
    return any((player.state / "state" / "whole").glob(f"round-{round_no:07d}-*.safetensors"))


def is_stored(folder: Path, player: Player) -> bool:
    """Whether the coordinator has the latest round that a member has finished."""
    saved = sorted((player.state / "state" / "whole").glob("round-*-update.safetensors"))
    number = saved[-1].name.split("-")[1] if saved else ""
    return bool(saved) and (folder / "run" / "blobs" / "update" / number / player.name).is_file()


def stored_update(folder: Path, player: Player) -> bytes:
    """Some bytes of the latest update of a member, as the coordinator has it."""
    latest = sorted((folder / "run" / "blobs" / "update").glob(f"*/{player.name}"))[-1]
    return bytes(read_bytes(latest, 0, 256))


def agreed(player: Player) -> dict[str, object]:
    """The plan of a run, as its member has noted it."""
    noted = json.loads((player.state / "state" / "whole" / "agreement.json").read_text())
    plan: dict[str, object] = noted["plan"]
    return plan


# ---- kills


@pytest.mark.slow
@pytest.mark.parametrize("travels", [*MODELS])
@pytest.mark.parametrize("when", [*LIVES])
def test_whoever_is_killed_a_sealed_run_ends_with_the_same_bits(tmp_path: Path, travels: str, when: str) -> None:
    reference = run_reference(tmp_path / "inline", small_run("fedap", model=MODELS[travels]))
    pace: dict[str, object] = {"quorum": len(reference.names), "dead_after_s": 60.0}
    expected = tmp_path / "whole"
    expected.mkdir()
    key = make_group_key(expected / "group.key")
    config = sealed_file(expected, reference, key, pace=pace)
    calm = run_to_its_end(expected, reference, config, *joining(expected, reference))
    config = sealed_file(tmp_path, reference, key, pace=pace)
    (tmp_path / "group.key").write_bytes((expected / "group.key").read_bytes())
    (tmp_path / "group.key").chmod(0o600)
    first = ServeProcess(str(config), when, str(LIVES[when][0]), module=MORTAL, log=tmp_path / "coordinator.log")
    undertaker: Undertaker | None = None
    try:
        with players(tmp_path, reference, f"ipc://{tmp_path}/socket", *joining(tmp_path, reference)) as made:
            undertaker = Undertaker(tmp_path, config, when, made, first)
            wait_until(undertaker.look, "everybody's end", deadline_s=400.0)
            assert {name: one.ended() for name, one in made.items()} == dict.fromkeys(made, 0)
        assert undertaker.kills > 3
    finally:
        (undertaker.coordinator if undertaker is not None else first).close()
    assert final_bits(made) == final_bits(calm)


# ---- broken lines


@pytest.mark.slow
@pytest.mark.parametrize("travels", [*MODELS])
def test_cut_lines_change_no_bit_of_a_sealed_run(tmp_path: Path, travels: str) -> None:
    """Cuts lie inside a greeting, a welcome, orders and updates; a sealed model has about twice its bytes."""
    reference = run_reference(tmp_path / "inline", small_run("fedap", model=MODELS[travels]))
    key = make_group_key(tmp_path / "group.key")
    pace = {"quorum": len(reference.names)}
    found = {}
    for how in ("calm", "cut"):
        folder = tmp_path / how
        folder.mkdir()
        (folder / "group.key").write_bytes((tmp_path / "group.key").read_bytes())
        (folder / "group.key").chmod(0o600)
        config = sealed_file(folder, reference, key, pace=pace, endpoint="tcp://127.0.0.1:*")
        size = reference.initial.stat().st_size
        cuts = [Cut(after=7), *(Cut(after=int(share * size)) for share in (3.3, 6.2, 12.0))] if how == "cut" else []
        coordinator = ServeProcess("serve", "--config", str(config), log=folder / "coordinator.log")
        try:
            with (
                Proxy(coordinator.ready(), cuts) as proxy,
                players(folder, reference, proxy.endpoint, *joining(folder, reference)) as made,
            ):
                wait_until(lambda: all(one.ended() is not None for one in made.values()), "the end", deadline_s=300.0)
                assert {name: one.ended() for name, one in made.items()} == dict.fromkeys(made, 0)
        finally:
            coordinator.close()
        assert proxy.injected.is_set() == (how == "cut")
        found[how] = final_bits(made)
    assert found["cut"] == found["calm"]
