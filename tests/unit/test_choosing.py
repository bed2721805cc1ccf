"""Claims about the one chooser: validation decides, test does not, and the sentence says how sure it is."""

from __future__ import annotations

import pytest

from fedap_core.choosing import ALONE, BEST, FEDERATED, FINE_TUNED, Candidate, HitCount, choose
from fedap_core.errors import InvalidInput


def candidate(name: str, correct: int | None, samples: int = 100, test: int | None = None) -> Candidate:
    return Candidate(
        name=name,
        validation=None if correct is None else HitCount(correct=correct, samples=samples),
        test=None if test is None else HitCount(correct=test, samples=200),
    )


def test_validation_decides_and_test_has_no_part() -> None:
    found = choose([candidate(FEDERATED, 44, test=190), candidate(ALONE, 89, test=10)])
    assert (found.name, found.rival, found.is_clear) == (ALONE, FEDERATED, True)
    assert found.of(BEST).name == ALONE


def test_odd_one_out_is_reported_in_one_sentence_with_intervals() -> None:
    """Wilson's 95 % interval of 89 of 100 is 81.4 to 93.7 %, of 44 of 100 34.7 to 53.8 %."""
    found = choose([candidate(FEDERATED, 44), candidate(ALONE, 89)])
    assert found.sentence == (
        "Alone you reach 89.0 % (81.4 to 93.7 %), together 44.0 % (34.7 to 53.8 %) of 100 validation samples: "
        "your own model is better; export takes it."
    )
    assert found.test_sentence == ""


def test_difference_within_chance_is_called_that() -> None:
    found = choose([candidate(FEDERATED, 80, test=150), candidate(ALONE, 81, test=151), candidate(FINE_TUNED, 70)])
    assert (found.name, found.is_clear) == (ALONE, False)
    assert found.sentence.endswith(
        "compared with the federated model, this may be chance; export takes your own model."
    )
    assert found.test_sentence.endswith("of 200 test samples, which were not used for the choice.")


def test_equal_models_leave_what_was_asked_for() -> None:
    assert choose([candidate(FEDERATED, 80), candidate(FINE_TUNED, 80), candidate(ALONE, 80)]).name == FEDERATED


def test_sentence_names_the_model_that_is_equal_where_another_is_far_behind() -> None:
    found = choose([candidate(FEDERATED, 100), candidate(FINE_TUNED, 100), candidate(ALONE, 80)])
    assert found.sentence.endswith(
        "compared with the fine-tuned model, no difference; export takes the federated model."
    )


def test_order_of_the_others_has_no_part() -> None:
    others = [candidate(ALONE, 90), candidate(FINE_TUNED, 90)]
    found = [choose([candidate(FEDERATED, 50), *given]) for given in (others, others[::-1])]
    assert [(one.name, one.sentence) for one in found] == [(ALONE, found[0].sentence)] * 2


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ([candidate(FEDERATED, 50)], "There is no other model; export takes the federated model."),
        (
            [candidate(FEDERATED, None), candidate(ALONE, None)],
            "No samples were held back for the choice; export takes the federated model.",
        ),
    ],
)
def test_nothing_to_choose_by_keeps_the_federated_model_and_says_so(candidates: list[Candidate], said: str) -> None:
    found = choose(candidates)
    assert (found.name, found.difference, found.sentence) == (FEDERATED, None, said)


def test_interval_of_a_difference_is_newcombes() -> None:
    """Newcombe 1998, table II, method 10: 56/70 - 48/80 has the interval 0.0524 to 0.3339."""
    found = choose(
        [
            Candidate(name=FEDERATED, validation=HitCount(correct=56, samples=70)),
            Candidate(name=ALONE, validation=HitCount(correct=48, samples=80)),
        ]
    )
    assert found.difference == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_unknown_model_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="which"):
        choose([candidate(FEDERATED, 1)]).of("own")
