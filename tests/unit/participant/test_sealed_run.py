"""Claims about the sealed side of a run: what leaves can be mixed by somebody without the key, what comes is opened
only if it is the announced sum of the right uploads, and a refused sum leaves the last good model in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedap_core.errors import InvalidInput
from fedap_core.sealing import rows
from fedap_core.sealing.fixed_point import WHOLE
from participant.decisions.allowance import parse_allowance
from participant.decisions.consent import Consent, OrderRefused
from participant.record.model_file import write_model
from participant.record.private_state import PrivateState
from participant.sealing.boxes import Boxes, plan_digest
from participant.sealing.group_key import GroupKey, make_group_key, read_group_key
from participant.sealing.sealed_run import STATISTICS
from participant.sealing.updates import BrokenSeal, Sealer, Upload
from participant.training.home_run import HomeRun
from participant.training.home_settings import HomeSettings
from protocol.messages import Anchor, Sealing, Stats, Train, Update, Welcome
from protocol.sealed_sets import (
    Ingredients,
    NamedUpload,
    box_set,
    ingredients_set,
    read_ingredients,
    read_request,
    statistics_set,
    words_of,
)
from protocol.tensors import TensorSet
from tests.unit.participant.test_home_run import DATA, INITIAL, RUN, SPEC, never, plan, whole

KEY = GroupKey(secret=bytes(range(32)))
NAMES = ("c1", "c2", "c3")
EMPTY = TensorSet.of({})


def sealing(**others: str) -> Sealing:
    return Sealing(fingerprint=KEY.fingerprint, max_peer_weight=0.5, **others)  # type: ignore[arg-type]


def welcome(name: str, how: Sealing) -> Welcome:
    agreed = plan(sealed=how)
    return Welcome(run=RUN, participant=name, round_no=0, heartbeat_s=1.0, plan=agreed, initial=whole(INITIAL))


def state_in(folder: Path) -> PrivateState:
    folder.mkdir(parents=True, exist_ok=True)
    return PrivateState(folder)


class Members:
    """Three members of a sealed run, each with a folder, and a coordinator that can only add words."""

    def __init__(self, folder: Path, how: Sealing | None = None) -> None:
        self.how = how or sealing()
        settings = HomeSettings(group_key=KEY)
        self.runs = {
            name: HomeRun(
                welcome=welcome(name, self.how), spec=SPEC, data=DATA, state=state_in(folder / name),
                settings=settings,
            )
            for name in NAMES
        }  # fmt: skip

    def measured(self) -> dict[str, Stats]:
        order = Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=None)
        return {name: run.measure(order) for name, run in self.runs.items()}

    def first_round(self) -> dict[str, Update]:
        boxes = [(name, words_of(stats.moments).tobytes()) for name, stats in self.measured().items()]
        order = Train(
            run=RUN, round_no=0, phase="mixed", measure="none", weights=EMPTY, peers=statistics_set(boxes)
        )  # fmt: skip
        return {name: trained(run, order) for name, run in self.runs.items()}


def trained(run: HomeRun, order: Train) -> Update:
    report = run.train(order, never)
    assert report is not None
    return report


def words(update: Update) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return np.array(update.weights.arrays()["sealed"]).view(np.uint64)


def order_of(name: str, updates: Mapping[str, Update], row: Mapping[str, int], *, round_no: int = 1) -> Train:
    """What an honest coordinator sends: sums of words, and the names of what went in."""
    mixed = sum(np.uint64(row[one]) * words(updates[one])[:-2] for one in row)
    uploads = tuple(
        NamedUpload(
            member=one, round_no=updates[one].round_no, weight=row[one], salt=words(updates[one])[-2:].tobytes()
        )
        for one in sorted(row)
    )
    made = ingredients_set(Ingredients(member=name, round_no=round_no, uploads=uploads))
    tensors = TensorSet.of({"sealed": np.asarray(mixed, dtype=np.uint64).view(np.int64)})
    return Train(run=RUN, round_no=round_no, phase="mixed", measure="none", weights=tensors, uploads=made)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Members, dict[str, Update]]:
    members = Members(tmp_path_factory.mktemp("members"))
    return members, members.first_round()


def requested(updates: Mapping[str, Update], name: str) -> dict[str, int]:
    found = updates[name].row
    assert found is not None
    return dict(read_request(found))


def fresh(folder: Path, first: tuple[Members, dict[str, Update]]) -> tuple[HomeRun, dict[str, Update]]:
    """c1 in another process after its first round, and everybody's updates."""
    members, updates = first
    state = PrivateState(members.runs["c1"]._state.folder)
    copy = PrivateState(folder)
    for path in state.folder.rglob("*"):
        target = folder / path.relative_to(state.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            target.write_bytes(path.read_bytes())
    run = HomeRun(
        welcome=welcome("c1", members.how), spec=SPEC, data=DATA, state=copy, settings=HomeSettings(group_key=KEY)
    )
    return run, updates


def test_members_request_rows_and_open_the_sums_that_follow(
    tmp_path: Path, first: tuple[Members, dict[str, Update]]
) -> None:
    run, updates = fresh(tmp_path, first)
    row = requested(updates, "c1")
    assert sum(row.values()) == WHOLE
    assert abs(row["c1"] - WHOLE // 2) <= rows.SLACK
    trained(run, order_of("c1", updates, row))
    assert run.refused is None


def test_a_new_process_sends_the_same_upload_again(tmp_path: Path, first: tuple[Members, dict[str, Update]]) -> None:
    run, updates = fresh(tmp_path, first)
    again = run.finished_report
    assert isinstance(again, Update)
    assert np.array_equal(words(again), words(updates["c1"]))
    assert again.row == updates["c1"].row


def flipped(order: Train) -> Train:
    changed = np.array(order.weights.arrays()["sealed"])
    changed[7] ^= 1
    return replace(order, weights=TensorSet.of({"sealed": changed}))


def of_another(order: Train) -> Train:
    assert order.uploads is not None
    arrays = {("@c2" if name == "@c1" else name): one for name, one in order.uploads.arrays().items()}
    return replace(order, uploads=TensorSet.of(arrays))


def announced_otherwise(order: Train) -> Train:
    assert order.uploads is not None
    arrays = {name: np.array(one) for name, one in order.uploads.arrays().items()}
    arrays["c2"][1], arrays["c3"][1] = arrays["c3"][1] + 9, arrays["c2"][1] - 9
    return replace(order, uploads=TensorSet.of(arrays))


def with_another_salt(order: Train) -> Train:
    assert order.uploads is not None
    arrays = {name: np.array(one) for name, one in order.uploads.arrays().items()}
    arrays["c2"][2] ^= 1
    return replace(order, uploads=TensorSet.of(arrays))


def with_another_own_salt(order: Train) -> Train:
    assert order.uploads is not None
    arrays = {name: np.array(one) for name, one in order.uploads.arrays().items()}
    arrays["c1"][2] ^= 1
    return replace(order, uploads=TensorSet.of(arrays))


@pytest.mark.parametrize(
    ("tamper", "says"),
    [
        (flipped, "the check value is wrong"),
        (of_another, "the row of c2, expected the row of c1"),
        (announced_otherwise, "do not follow from the row that was requested"),
        (with_another_salt, "sum outside its range"),
        (with_another_own_salt, "another upload under this participant's name"),
    ],
)
def test_a_changed_sum_is_refused_with_a_sentence_and_training_continues_from_the_local_model(
    tmp_path: Path, first: tuple[Members, dict[str, Update]], tamper: Callable[[Train], Train], says: str
) -> None:
    run, updates = fresh(tmp_path, first)
    own = np.array(run._client.shared)
    delivered: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
    run._deliver(tamper(order_of("c1", updates, requested(updates, "c1"))))
    delivered.append(np.array(run._client.shared))
    assert run.refused is not None
    assert run.refused.code == "bad-seal"
    assert says in run.refused.reason
    assert np.array_equal(delivered[0], own)


def renamed(order: Train, rounds: Mapping[str, int]) -> Train:
    """The same sum as one of round 2. rounds: what is announced of uploads, where it is not the truth."""
    assert order.uploads is not None
    made = read_ingredients(order.uploads)
    uploads = tuple(replace(one, round_no=rounds.get(one.member, one.round_no)) for one in made.uploads)
    return replace(order, round_no=2, uploads=ingredients_set(replace(made, round_no=2, uploads=uploads)))


@pytest.mark.parametrize(
    ("replay", "says"),
    [
        (lambda order: replace(order, round_no=2), "a row of round 1, expected one of round 2"),
        (lambda order: renamed(order, {"c1": 1, "c2": 1, "c3": 1}), "another upload under this participant's name"),
        (lambda order: renamed(order, {"c2": 1, "c3": 1}), "sum outside its range"),
    ],
)
def test_an_old_sum_cannot_be_passed_off_as_a_new_one(
    tmp_path: Path, first: tuple[Members, dict[str, Update]], replay: Callable[[Train], Train], says: str
) -> None:
    run, updates = fresh(tmp_path, first)
    order = order_of("c1", updates, requested(updates, "c1"))
    trained(run, order)
    assert run.refused is None
    run._deliver(replay(order))
    assert run.refused is not None
    assert says in run.refused.reason


def test_a_sum_of_one_peer_alone_is_refused(tmp_path: Path, first: tuple[Members, dict[str, Update]]) -> None:
    run, updates = fresh(tmp_path, first)
    for row in ({"c1": WHOLE // 2, "c2": WHOLE // 2}, {"c2": WHOLE}):
        run._deliver(order_of("c1", updates, row))
        assert run.refused is not None
        assert "row that was requested" in run.refused.reason


def test_whoever_has_the_key_and_an_upload_can_read_it(first: tuple[Members, dict[str, Update]]) -> None:
    """A member that works together with the coordinator, or a stolen key and recorded traffic: no pad helps."""
    members, updates = first
    sealed = words(updates["c2"])
    upload = Upload(member="c2", round_no=0, phase="mixed", salt=sealed[-2:].tobytes())
    read = Sealer(KEY, RUN).open_sum((sealed[:-2] * np.uint64(WHOLE)).view(np.int64), [upload])
    np.testing.assert_allclose(read, members.runs["c2"]._client.shared, atol=2.0**-24)


def test_statistics_passed_off_as_another_members_are_refused(
    tmp_path: Path, first: tuple[Members, dict[str, Update]]
) -> None:
    members, _ = first
    run, _ = fresh(tmp_path, first)
    boxes = {name: words_of(stats.moments).tobytes() for name, stats in members.measured().items()}
    boxes["c2"] = boxes["c3"]
    order = Train(
        run=RUN, round_no=1, phase="mixed", measure="none", weights=EMPTY, peers=statistics_set(list(boxes.items()))
    )
    with pytest.raises(OrderRefused, match="statistics of c2 cannot be opened"):
        run.train(order, never)


def test_statistics_and_counts_leave_in_a_box_alone(first: tuple[Members, dict[str, Update]]) -> None:
    members, updates = first
    stats = members.measured()["c1"]
    assert stats.samples == 0
    assert members.runs["c1"].counts == (0, 0)
    assert [spec.name for spec in stats.moments.layout.specs] == ["sealed"]
    boxes = Boxes(key=KEY, run=RUN, plan=plan_digest(welcome("c1", members.how).plan.write([])))
    found = boxes.open(words_of(stats.moments).tobytes(), purpose=STATISTICS, member="c1")
    assert found.facts["samples"] == 48
    assert any(name.endswith("/mean") for name in found.arrays)
    other = replace(boxes, key=GroupKey(secret=bytes(32)))
    with pytest.raises(BrokenSeal):
        other.open(words_of(stats.moments).tobytes(), purpose=STATISTICS, member="c1")
    assert updates["c1"].scores == ()


def test_scores_leave_sealed_where_the_plan_says_so(tmp_path: Path) -> None:
    members = Members(tmp_path, sealing(scores="sealed"))
    update = members.first_round()["c1"]
    assert (update.steps, update.train_loss, update.scores) == (0, None, ())
    assert update.tables is not None
    boxes = Boxes(key=KEY, run=RUN, plan=plan_digest(welcome("c1", members.how).plan.write([])))
    told = boxes.open(words_of(update.tables).tobytes(), purpose="scores", member="c1").facts
    assert told["steps"] > 0
    assert told["train_loss"] > 0.0


def test_a_box_survives_its_way_through_a_set() -> None:
    box = bytes(range(64))
    assert words_of(box_set(box)).tobytes() == box


@pytest.mark.parametrize(
    ("how", "own", "statistics_to", "says"),
    [
        (None, KEY.fingerprint, "members", "expected a run sealed under"),
        (sealing(), None, "members", "expected none"),
        (sealing(), "ab" * 16, "members", "this group key"),
        (sealing(statistics_to="coordinator"), KEY.fingerprint, "members", "--statistics-to coordinator"),
    ],
)
def test_a_plan_sealed_otherwise_than_agreed_is_refused(
    how: Sealing | None, own: str | None, statistics_to: str, says: str
) -> None:
    consent = Consent(
        spec=SPEC,
        allowance=parse_allowance(("max_peer_weight<=0.5",), cores=2),
        name="c1",
        group_key=own,
        statistics_to=statistics_to,
    )
    asked = replace(welcome("c1", sealing()), plan=plan(sealed=how))
    with pytest.raises(InvalidInput) as refused:
        consent.terms(asked)
    assert says in str(refused.value)


def test_models_are_compared_with_the_local_files(tmp_path: Path) -> None:
    """The coordinator sends the initial model and the anchor; members have both already."""
    own = tmp_path / "own.safetensors"
    write_model(own, SPEC, INITIAL)
    name = next(one for one, tensor in INITIAL.items() if tensor.is_floating_point())
    false = whole(INITIAL | {name: INITIAL[name] + 0.5})
    greeting, state = welcome("c1", sealing()), state_in(tmp_path / "c1")
    settings = HomeSettings(group_key=KEY, model_file=own, anchor_file=own)
    with pytest.raises(InvalidInput, match=f"other values of {name}"):
        HomeRun(
            welcome=replace(greeting, initial=false), spec=SPEC, data=DATA, state=state_in(tmp_path / "other"),
            settings=settings,
        )  # fmt: skip
    run = HomeRun(welcome=greeting, spec=SPEC, data=DATA, state=state, settings=settings)
    run.measure(Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=whole(INITIAL)))
    with pytest.raises(OrderRefused, match=f"other values of {name}"):
        run.measure(Anchor(run=RUN, round_no=0, measure="bn-inputs", weights=false))


def test_a_key_file_is_its_owners_alone_and_never_replaced(tmp_path: Path) -> None:
    made = make_group_key(tmp_path / "group.key")
    assert (tmp_path / "group.key").stat().st_mode & 0o777 == 0o600
    assert read_group_key(tmp_path / "group.key") == made
    assert made.secret.hex() not in repr(made)
    with pytest.raises(InvalidInput, match="does not exist yet"):
        make_group_key(tmp_path / "group.key")
    (tmp_path / "group.key").chmod(0o644)
    with pytest.raises(InvalidInput, match="mode 0600"):
        read_group_key(tmp_path / "group.key")
