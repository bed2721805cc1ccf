"""Which runs make one comparison, at which round, over which seeds, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedap_core.errors import InvalidInput
from scripts.report.algorithms import place
from scripts.report.page.finding import find_runs
from scripts.report.page.headline import algorithm_row, in_words, standings
from scripts.report.page.study import Study, make_study
from tests.support.report_runs import write_comparison, write_run


def study_of(root: Path, **where: str) -> Study:
    return make_study(find_runs([root], where))


def names(study: Study) -> list[str]:
    return [algorithm.name for algorithm in study.algorithms]


def test_sweeps_folder_and_its_runs_folders_make_the_same_comparison(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    apart = make_study(find_runs([*sorted(tmp_path.iterdir()), tmp_path]))
    assert names(study_of(tmp_path)) == names(apart) == ["Base", "FedAvg", "FedAP"]


def test_headline_figures_are_those_of_the_compared_round(tmp_path: Path) -> None:
    """FedAP: round 1 (50 + 70 + 70) / 3 = 63.3, round 2 (90 + 83 + 70) / 3 = 81; 95 % of 81 is 76.95, reached in
    round 2; two rounds of 3,000 bytes."""
    write_comparison(tmp_path)
    study = study_of(tmp_path)
    head = algorithm_row(study, study.algorithms[2])
    assert [head.figures.last, head.figures.worst, head.figures.converged] == pytest.approx([0.81, 0.7, 2])
    assert head.figures.tail == pytest.approx((0.81 + 190 / 300) / 2)
    assert (head.size, head.size_converged, head.figures.deviation) == (6_000, 6_000, None)
    assert algorithm_row(study, study.algorithms[0]).size is None


def test_summary_says_what_federation_changed_and_for_whom(tmp_path: Path) -> None:
    """Base: 60, 80, 90, mean 76.7; FedAP 90, 83, 70, mean 81.0: 4.3 points more. ward-1 gains surely, ward-2 perhaps,
    ward-10 loses surely."""
    write_comparison(tmp_path)
    first, second, *_ = in_words(study_of(tmp_path))
    reached = "FedAP reaches 81.0\u202f% on average over 3 clients after 2 rounds"
    assert first == f"{reached}: 4.3 points more than with everyone training alone."
    assert second.startswith("2 of 3 clients did better with it, 1 of them beyond chance; 1 lost beyond chance")


def test_gain_of_the_last_round_alone_is_reported_with_the_last_ten(tmp_path: Path) -> None:
    """Both at 80 until Base falls to 60 in round 20: 20 points more there, 2 on the mean of ten rounds, which is not
    beyond chance for the single client."""
    write_run(tmp_path, "base", [[80]] * 19 + [[60]], clients=["ward"])
    write_run(tmp_path, "fedap", [[80]] * 20, clients=["ward"])
    study = study_of(tmp_path)
    assert (
        "20.0 points more than with everyone training alone (+2.0 points over the last 10 rounds)" in in_words(study)[0]
    )
    here = standings(study, 0)
    assert [here[name].tail for name in ("Base", "FedAP")] == pytest.approx([0.78, 0.8])
    assert in_words(study)[1].startswith("1 of 1 client did better with it, none of them beyond chance")


def test_short_runs_have_no_last_rounds_to_confirm_with(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    assert [one.tail for one in standings(study_of(tmp_path), 0).values()] == [None, None, None]


def test_clients_that_all_gained_beyond_chance_are_all_of_them(tmp_path: Path) -> None:
    write_run(tmp_path, "base", [[10, 10, 80]])
    write_run(tmp_path, "fedap", [[90, 90, 80]])
    assert in_words(study_of(tmp_path))[1].startswith("2 of 3 clients did better with it, all of them beyond chance;")


def test_nobody_who_gained_is_reported_as_nobody(tmp_path: Path) -> None:
    write_run(tmp_path, "base", [[80, 80, 80]])
    write_run(tmp_path, "fedap", [[79, 79, 79]])
    assert in_words(study_of(tmp_path))[1].startswith("None of 3 clients did better with it; nobody lost beyond chance")


def test_algorithms_are_compared_at_the_last_round_that_all_have(tmp_path: Path) -> None:
    write_run(tmp_path, "base", [[10, 10, 10], [20, 20, 20]])
    write_run(tmp_path, "fedap", [[30, 30, 30], [40, 40, 40], [90, 90, 90]])
    study = study_of(tmp_path)
    assert algorithm_row(study, study.algorithms[1]).figures.last == pytest.approx(0.4)
    assert study.notes == ("All figures are those of round 2, the last that every run has; FedAP ran longer.",)


def test_run_under_way_is_left_out_and_named(tmp_path: Path) -> None:
    write_run(tmp_path, "base", [[10, 10, 10], [20, 20, 20]])
    write_run(tmp_path, "fedap", [[30, 30, 30]], rounds=2)
    study = study_of(tmp_path)
    assert names(study) == ["Base"]
    assert study.notes == ("Left out, because not finished: fedap-s0.",)


def test_run_under_way_is_shown_where_there_is_nothing_else(tmp_path: Path) -> None:
    write_run(tmp_path, "fedap", [[30, 30, 30]], rounds=2)
    assert study_of(tmp_path).notes == ("Unfinished: 1 run had not reached the last round when this was written.",)


def test_seeds_give_a_mean_and_a_deviation(tmp_path: Path) -> None:
    """Means 40 and 60: deviation 14.14."""
    write_run(tmp_path, "fedap", [[40, 40, 40]], seed=0)
    write_run(tmp_path, "fedap", [[60, 60, 60]], seed=1)
    study = study_of(tmp_path)
    head = algorithm_row(study, study.algorithms[0])
    assert [head.figures.last, head.figures.deviation] == pytest.approx([0.5, 0.1414], abs=1e-4)
    assert study.seed == 0


def test_best_is_chosen_over_the_seeds_that_all_have(tmp_path: Path) -> None:
    """FedBN's only seed is an easy one, where FedAP is better still."""
    for seed, value in ((0, 90), (1, 40)):
        write_run(tmp_path, "fedap", [[value] * 3], seed=seed)
        write_run(tmp_path, "base", [[value - 10] * 3], seed=seed)
    write_run(tmp_path, "fedbn", [[85] * 3], seed=0)
    study = study_of(tmp_path)
    assert study.common_seeds == (0,)
    assert not any("The best is" in sentence for sentence in in_words(study))
    assert any("must not be compared" in note for note in study.notes)


def test_settings_that_differ_become_part_of_the_name(tmp_path: Path) -> None:
    write_run(tmp_path, "fedap", [[40, 40, 40]], epochs=1)
    write_run(tmp_path, "fedap", [[50, 50, 50]], epochs=2)
    write_run(tmp_path, "fedap", [[60, 60, 60]], epochs=2, options={"self_weight": "0.3"})
    study = study_of(tmp_path)
    assert sorted(names(study)) == ["FedAP epochs=1", "FedAP epochs=2", "FedAP λ=0.3, epochs=2"]
    assert len({algorithm.colour for algorithm in study.algorithms}) == 3


def test_plain_algorithm_comes_before_its_options_and_has_the_colour_of_its_kind(tmp_path: Path) -> None:
    for at, weight in enumerate(("0.7", "0.3")):
        write_run(tmp_path / f"a{at}", "fedap", [[60, 60, 60]], options={"self_weight": weight})
    write_run(tmp_path / "z", "fedap", [[40, 40, 40]])
    study = study_of(tmp_path)
    assert names(study) == ["FedAP", "FedAP λ=0.3", "FedAP λ=0.7"]
    assert study.algorithms[0].colour == place("fedap")


def test_of_two_equal_runs_the_longer_is_shown_and_the_other_named(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fedap", [[40, 40, 40]])
    write_run(tmp_path / "b", "fedap", [[40, 40, 40], [50, 50, 50]])
    study = study_of(tmp_path)
    assert algorithm_row(study, study.algorithms[0]).figures.last == pytest.approx(0.5)
    assert study.notes == ("Left out, because another run has the same algorithm, settings and seed: fedap-s0.",)


def test_runs_on_other_clients_are_refused_with_the_choice_to_make(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "fedap", [[40, 40, 40]])
    write_run(tmp_path / "b", "fedap", [[40, 40, 40]], cohort={"alpha": 0.05})
    with pytest.raises(InvalidInput, match=r"cohort.alpha = 0.05 and 0.1.*--where alpha=0.05"):
        study_of(tmp_path)
    assert names(study_of(tmp_path, alpha="0.05")) == ["FedAP"]
    with pytest.raises(InvalidInput, match=r"alpha=7.*one of 0.05, 0.1"):
        study_of(tmp_path, alpha="7")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a folder with runs in it"):
        find_runs([tmp_path])
    with pytest.raises(InvalidInput, match="an existing folder"):
        find_runs([tmp_path / "nothing"])


def test_setting_that_is_misspelt_is_answered_with_those_there_are(tmp_path: Path) -> None:
    write_run(tmp_path, "fedap", [[40, 40, 40]])
    with pytest.raises(
        InvalidInput, match=r"got partion, expected one of algorithm, alpha, .*Did you mean 'partition'"
    ):
        study_of(tmp_path, partion="site")


def test_what_lies_inside_a_run_is_no_run_of_its_own(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "fedap", [[40, 40, 40]])
    (folder / "coordinator").mkdir()
    (folder / "coordinator/journal.sqlite").touch()
    assert [run.algorithm for run in find_runs([tmp_path])] == ["fedap"]


def test_torn_last_line_is_no_round(tmp_path: Path) -> None:
    folder = write_run(tmp_path, "fedap", [[40, 40, 40], [50, 50, 50]])
    text = (folder / "rounds.jsonl").read_text()
    (folder / "rounds.jsonl").write_text(text[:-5])
    assert len(find_runs([folder])[0].rounds) == 1
