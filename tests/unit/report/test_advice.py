"""What a participant is told to do, and how sure that is said to be."""

from __future__ import annotations

import pytest

from fedap_core.choosing import ALONE, FEDERATED, Candidate, HitCount, choose
from scripts.report.page.advice import advise, served_best
from scripts.report.page.verdict import ClientVerdict, Standing, compare, overlap
from scripts.run.records import ClientScore


def of(
    correct: int, samples: int = 100, *, tail: float | None = None, name: str = "FedAP", held: int | None = None
) -> Standing:
    """held: how many of 25 validation samples are correct; None without any."""
    validation = None if held is None else HitCount(correct=held, samples=25)
    return Standing(name=name, last=ClientScore(correct=correct, samples=samples), tail=tail, validation=validation)


def test_wilson_intervals_decide_whether_two_scores_overlap() -> None:
    """At n = 100, z = 1.96: 60 gives 0.502..0.691, 80 gives 0.711..0.867, 75 gives 0.657..0.825."""
    low, middle, high = (of(correct).last.interval for correct in (60, 75, 80))
    assert not overlap(low, high)
    assert not overlap(high, low)
    assert overlap(low, middle)


@pytest.mark.parametrize(
    ("alone", "together", "tails", "verdict"),
    [
        (60, 80, None, ClientVerdict.GAIN),
        (60, 75, None, ClientVerdict.MAYBE_GAIN),
        (70, 70, None, ClientVerdict.SAME),
        (75, 60, None, ClientVerdict.MAYBE_LOSS),
        (80, 60, None, ClientVerdict.LOSS),
        (60, 80, (0.6, 0.81), ClientVerdict.GAIN),
        (80, 60, (0.81, 0.6), ClientVerdict.LOSS),
        (25, 80, (0.6, 0.8), ClientVerdict.GAIN),
        (25, 80, (0.75, 0.8), ClientVerdict.MAYBE_GAIN),
        (25, 80, (0.8, 0.75), ClientVerdict.MAYBE_LOSS),
        (25, 80, (0.8, 0.6), ClientVerdict.MAYBE_LOSS),
        (25, 80, (0.8, 0.8), ClientVerdict.SAME),
    ],
)
def test_difference_counts_only_beyond_the_intervals_of_what_does_not_swing(
    alone: int, together: int, tails: tuple[float, float] | None, verdict: ClientVerdict
) -> None:
    """Base at 25 in the last round, at 60 to 80 before: only the last ten rounds say how good it is, and where the
    rounds take different sides nothing is sure."""
    before, after = tails or (None, None)
    assert compare(of(alone, tail=before), of(together, tail=after)).verdict is verdict


def test_means_of_few_samples_are_not_rounded_to_whole_samples() -> None:
    """Ten samples: 0.84 is no whole number of them."""
    assert compare(of(2, 10, tail=0.8), of(8, 10, tail=0.84)).leading == pytest.approx(0.04)


def test_sure_gain_is_reported_with_its_points() -> None:
    told = advise(alone=of(700, 1000), personal=of(761, 1000))
    assert told.headline == "Federation gains 6.1 points here."
    assert told.detail == (
        "Use the model of FedAP. The 95 % intervals do not overlap: this is more than chance. Compared on test samples."
    )


def test_small_gain_is_reported_as_perhaps_chance() -> None:
    told = advise(alone=of(70), personal=of(71))
    assert (told.verdict, told.headline) == (ClientVerdict.MAYBE_GAIN, "Federation gains 1.0 point here, perhaps.")
    assert "may be chance" in told.detail


@pytest.mark.parametrize(("personal", "also"), [(69, "may be chance"), (40, "loses 30.0 points")])
def test_without_a_gain_the_local_model_is_kept(personal: int, also: str) -> None:
    told = advise(alone=of(70), personal=of(personal))
    assert told.headline == "No gain: keep the local model."
    assert also in told.detail


def test_federated_model_wins_a_tie_on_test_samples_as_in_the_choice() -> None:
    told = advise(alone=of(70), personal=of(70))
    assert told.headline == "No difference: use the federated model."
    assert told.detail == "Both models are equally accurate. Compared on test samples."


@pytest.mark.parametrize("test", [(92, 91), (91, 91), (70, 90), (90, 70)])
@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        ((23, 24), ClientVerdict.MAYBE_GAIN),
        ((24, 24), ClientVerdict.SAME),
        ((24, 23), ClientVerdict.MAYBE_LOSS),
        ((5, 24), ClientVerdict.GAIN),
        ((24, 5), ClientVerdict.LOSS),
    ],
)
def test_validation_samples_decide_as_in_export_whatever_test_samples_say(
    test: tuple[int, int], held: tuple[int, int], verdict: ClientVerdict
) -> None:
    alone, personal = of(test[0], held=held[0], name="Base"), of(test[1], held=held[1])
    models = [
        Candidate(name=FEDERATED, validation=personal.validation),
        Candidate(name=ALONE, validation=alone.validation),
    ]
    kept = {FEDERATED: "Use the model of FedAP.", ALONE: "Keep the local model."}[choose(models).name]
    told = advise(alone=alone, personal=personal)
    assert (told.headline, told.verdict) == (kept, verdict)


def test_choice_is_explained_by_both_kinds_of_samples() -> None:
    told = advise(alone=of(92, held=23, name="Base"), personal=of(91, held=24))
    assert told.detail.replace("\u202f", " ") == (
        "Of 25 validation samples FedAP 96.0 % and the local model 92.0 %: the difference may be chance. "
        "On test samples, not used for the choice, FedAP is 1.0 point behind."
    )
    tie = advise(alone=of(91, held=24, name="Base"), personal=of(91, held=24))
    assert "96.0 %: the federated model has preference. On test" in tie.detail.replace("\u202f", " ")
    assert tie.detail.endswith("both are equally accurate.")


def test_another_algorithm_is_named_only_if_validation_samples_tell_it_apart() -> None:
    """Of 25: 24 less 12 is beyond chance, 24 less 22 is not. On test samples FedPer is far ahead in both cases."""
    alone, other = of(50, held=6, name="Base"), of(99, held=24, name="FedPer")
    clear = advise(alone=alone, personal=of(60, held=12), others=(other,))
    assert (clear.model, clear.headline) == ("FedPer", "Use the model of FedPer.")
    assert clear.detail.startswith("FedPer is better than FedAP on validation samples, beyond chance.")
    assert advise(alone=alone, personal=of(60, held=22), others=(other,)).model == "FedAP"


def test_model_selected_on_test_samples_is_said_to_be_so() -> None:
    told = advise(alone=of(70), personal=of(50), others=(of(99, name="FedPer"),))
    ending = "Compared on test samples, which also selected FedPer: its gain is an upper estimate."
    assert told.detail.endswith(ending)


def test_gain_of_one_swinging_round_stands_behind_that_of_the_last_ten() -> None:
    told = advise(alone=of(252, 1000, tail=0.828), personal=of(801, 1000, tail=0.886))
    assert told.headline == "Federation gains 5.8 points over the last ten rounds."
    assert "more than chance. The last round is an exception: by itself it shows +54.9 points." in told.detail


def test_gain_of_the_last_round_that_the_others_deny_is_no_gain() -> None:
    told = advise(alone=of(60, tail=0.78), personal=of(80, tail=0.75))
    assert told.headline == "No gain: keep the local model."
    assert "The model of FedAP is 3.0 points behind" in told.detail
    assert "by itself it shows +20.0 points" in told.detail


def test_best_model_that_ran_is_recommended_where_it_is_surely_better() -> None:
    """At n = 1000: 801 gives 0.775..0.825, 902 gives 0.882..0.919, 942 gives 0.926..0.955."""
    others = (of(902, 1000, name="FedAvg"), of(942, 1000, name="FedPer"), of(810, 1000, name="FedBN"))
    told = advise(alone=of(700, 1000), personal=of(801, 1000), others=others)
    assert (told.headline, told.model) == ("Federation gains 24.2 points here.", "FedPer")
    assert told.detail.startswith(
        "Use the model of FedPer: it is 14.1 points better than FedAP here. The 95 % intervals do not overlap"
    )


def test_model_that_is_perhaps_better_is_not_recommended() -> None:
    """810 of 1000 gives 0.784..0.833, which 801 with 0.775..0.825 overlaps; FedBN's lead is one round's alone."""
    others = (of(810, 1000, tail=0.81, name="FedPer"), of(950, 1000, tail=0.79, name="FedBN"))
    told = advise(alone=of(700, 1000, tail=0.7), personal=of(801, 1000, tail=0.8), others=others)
    assert told.model == "FedAP"
    assert "Use the model of FedAP." in told.detail


def test_model_that_saves_the_gain_is_named_where_the_usual_one_loses() -> None:
    told = advise(alone=of(80), personal=of(50), others=(of(99, name="FedPer"),))
    assert told.headline == "Federation gains 19.0 points here."
    assert "Use the model of FedPer: it is 49.0 points better" in told.detail


def test_best_model_that_gains_perhaps_is_named_without_being_urged() -> None:
    told = advise(alone=of(80), personal=of(50), others=(of(83, name="FedPer"),))
    assert told.headline == "Federation gains 3.0 points here, perhaps."
    assert told.detail.startswith("FedPer is 33.0 points better than FedAP here, beyond chance.")
    assert "Use" not in told.detail


def test_one_model_for_all_is_mentioned_where_it_surely_costs() -> None:
    costs = advise(alone=of(90), average=of(50), personal=of(92))
    unsure = advise(alone=of(90), average=of(88), personal=of(92))
    assert "FedAvg, one model for all, would cost 40.0 points here." in costs.detail
    assert "FedAvg" not in unsure.detail


def test_what_did_not_run_is_not_guessed() -> None:
    assert advise(alone=None, personal=of(9)).headline == "The gain is unknown."
    assert advise(alone=of(9), personal=None).headline == "No federated model was evaluated here."


def test_report_names_who_serves_it_best_and_who_is_not_significantly_worse() -> None:
    """100 samples: 90 less 84 has a lower end of 6 - hypot(0.90 - 0.826, 0.899 - 0.84) = -0.034; 90 less 60 has one far
    above zero."""
    here = [of(60, name="Base"), of(84, name="FedAP"), of(90, name="FedPer")]
    told = served_best(here).replace("\u202f", " ")
    assert told == (
        "Most accurate on these test samples: FedPer, 90.0 %, an upper estimate for the best of several. "
        "Not told apart from it: FedAP. Behind it beyond chance: Base (30.0 points)."
    )
    assert served_best(here[:1]) == ""


def test_mean_of_the_last_rounds_decides_who_serves_best() -> None:
    swinging = of(99, tail=0.5, name="FedAvg")
    told = served_best([swinging, of(80, tail=0.8, name="FedAP")])
    assert told.startswith("Most accurate on these test samples: FedAP")


def test_class_that_the_federated_model_no_longer_finds_is_named() -> None:
    """900 common and 20 rare samples: accuracy rises from 0.848 to 0.959, while the rare class falls from 20 found of
    20 to 2 of 20."""
    before, after = ((760, 140), (0, 20)), ((880, 20), (18, 2))
    alone, together = (
        Standing(name=name, last=ClientScore(correct=m[0][0] + m[1][1], samples=920, confusion=m))
        for name, m in (("Base", before), ("FedAP", after))
    )
    told = advise(alone=alone, personal=together, classes=("healthy", "rare"))
    assert told.verdict is ClientVerdict.GAIN
    assert "But it loses rare (100 % found alone, 10 % with FedAP)" in told.detail.replace("\u202f", " ")
    same = advise(alone=alone, personal=alone, classes=("healthy", "rare"))
    assert "loses" not in same.detail
