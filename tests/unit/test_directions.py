"""Claims about directions: sketches keep angles, who pulls against the others is withheld, unusual members are not."""

from __future__ import annotations

import numpy as np
import pytest

from fedap_core.arrays import Float32Array, FloatArray
from fedap_core.directions import PIECE, WIDTH, DirectionHistory, Sketch, doubts, extended, sketch_of, withhold

SIZE = 200_000


def steps(members: int, *, agreement: float, seed: int = 0) -> list[Float32Array]:
    """Unit steps, every two of which have about this cosine: a common direction and noise of their own."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(SIZE)
    found = [np.sqrt(agreement) * common + np.sqrt(1 - agreement) * rng.standard_normal(SIZE) for _ in range(members)]
    return [np.asarray(one / np.linalg.norm(one), dtype=np.float32) for one in found]


def unit(step: Float32Array) -> FloatArray:
    found = extended(None, sketch_of(step))
    assert found is not None
    return found


def judged(*rounds: list[Float32Array]) -> FloatArray:
    followed = DirectionHistory.of(len(rounds[0]))
    for one in rounds:
        followed.note(one)
    return followed.doubt


@pytest.mark.parametrize("agreement", [0.0, 0.3, 0.9])
def test_sketches_have_the_cosine_of_the_whole_steps(agreement: float) -> None:
    """A sketch of 256 numbers errs by about 1/16 of what is not common; four times that is allowed."""
    first, second = steps(2, agreement=agreement)
    exact = float(first.astype(np.float64) @ second)
    assert float(unit(first) @ unit(second)) == pytest.approx(exact, abs=4 / 16 * (1 - agreement) + 0.02)


def test_a_sketch_does_not_depend_on_the_blocks_that_a_step_comes_in() -> None:
    step = steps(1, agreement=0.0)[0]
    sketch = Sketch()
    for start in range(0, SIZE, PIECE):
        sketch.add(start, step[start : start + PIECE])
    assert sketch.text() == sketch_of(step)
    assert len(unit(step)) == WIDTH


def test_no_step_has_no_direction_and_leaves_a_trend_as_it_was() -> None:
    trend = unit(steps(1, agreement=0.0)[0])
    assert sketch_of(np.zeros(10, dtype=np.float32)) == ""
    assert extended(trend, "") is trend
    assert extended(None, "") is None


@pytest.mark.parametrize("members", [3, 5, 20])
def test_who_reverses_a_step_of_honest_length_is_withheld_at_once(members: int) -> None:
    sent = steps(members, agreement=0.4)
    sent[-1] = -sent[-1]
    found = judged(sent)
    assert found[-1] == 1.0
    assert not found[:-1].any()


@pytest.mark.parametrize("agreement", [0.0, 0.3, 0.9])
def test_honest_members_are_never_doubted(agreement: float) -> None:
    assert not judged(*(steps(5, agreement=agreement, seed=seed) for seed in range(10))).any()


def test_who_pulls_another_way_is_not_doubted_where_the_others_do_not_agree() -> None:
    sent = steps(5, agreement=0.05)
    sent[-1] = -sent[-1]
    assert not judged(sent).any()


def test_a_doubt_goes_slowly_when_its_reason_has_gone() -> None:
    """0.95 a round: 0.95^14 is 0.49, 0.95^59 is under 0.05, and that is nothing."""
    alike = np.stack([unit(one) for one in steps(4, agreement=0.5)])
    doubt = np.asarray([0.0, 0.0, 0.0, 1.0])
    for _ in range(14):
        doubt = doubts(alike, doubt)
    assert doubt[-1] == pytest.approx(0.95**14)
    for _ in range(45):
        doubt = doubts(alike, doubt)
    assert not doubt.any()


def test_two_members_doubt_nobody() -> None:
    first = steps(1, agreement=0.0)[0]
    assert not judged([first, -first]).any()


def test_without_a_doubt_weights_are_the_same_object() -> None:
    weights = np.full((3, 3), 1 / 3)
    assert withhold(weights, (0, 1, 2), np.zeros(3), personal=False) is weights


def test_a_common_model_gives_what_is_withheld_to_the_others() -> None:
    """Counts 1, 3 and 996: the third is doubted by half and would give an equal share, 1/3; half of it stays. The rest,
    5/6, is divided one to three."""
    weights = np.tile([0.001, 0.003, 0.996], (2, 1))
    found = withhold(weights, (0, 1), np.asarray([0.0, 0.0, 0.5]), personal=False)
    np.testing.assert_allclose(found[0], [5 / 24, 15 / 24, 1 / 6])


def test_a_personal_model_keeps_its_own_part_and_the_doubted_their_own_model() -> None:
    """Half of everything is one's own. Of what others give, the third's quarter goes to the other; the third itself
    listens to both as before."""
    weights = np.asarray([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]])
    found = withhold(weights, (0, 1, 2), np.asarray([0.0, 0.0, 1.0]), personal=True)
    np.testing.assert_allclose(found, [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])


def test_where_everybody_else_is_doubted_a_personal_model_stays_alone_and_a_common_one_listens_to_all() -> None:
    weights = np.asarray([[0.5, 0.5]])
    doubt = np.asarray([0.0, 1.0])
    np.testing.assert_allclose(withhold(weights, (0,), doubt, personal=True), [[1.0, 0.0]])
    np.testing.assert_allclose(withhold(weights, (None,), np.ones(2), personal=False), weights)


def test_what_is_followed_comes_back_to_the_bit() -> None:
    followed = DirectionHistory.of(3)
    followed.note([*steps(2, agreement=0.3), np.zeros(SIZE, dtype=np.float32)])
    again = DirectionHistory.from_plain(followed.plain())
    assert again.trends[2] is None
    assert [one.tobytes() for one in again.trends[:2] if one is not None] == [
        one.tobytes() for one in followed.trends[:2] if one is not None
    ]
    assert again.doubt.tobytes() == followed.doubt.tobytes()
