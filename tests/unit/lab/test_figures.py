"""Figures: files that show what the numbers say, labels that can be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from scripts.experiments.demo import in_words
from scripts.report.figures import _spread_out, convergence_figure, mixing_figure
from scripts.run.mixing_record import MixingRecord
from scripts.run.results import Summary


def summary(algorithm: str, values: list[float], per_client: tuple[float, ...] = (0.5,)) -> Summary:
    return Summary(
        algorithm=algorithm,
        seed=0,
        rounds=len(values),
        last=values[-1],
        tail=float(np.mean(values)),
        converged=1,
        per_client=per_client,
        curve=tuple(enumerate(values)),
    )


def test_a_convergence_figure_names_every_algorithm_and_is_the_same_file_twice(tmp_path: Path) -> None:
    runs = [summary("fedap", [0.2, 0.6, 0.9]), summary("base", [0.3, 0.5, 0.6])]
    for name in ("one", "two"):
        convergence_figure(runs, "A title", tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert all(f"<!-- {word} -->" in text for word in ("FedAP", "Base", "A title", "round"))
    assert text == (tmp_path / "two.svg").read_text()
    assert Image.open(tmp_path / "one.png").size == (1080, 630)


def test_curves_of_several_seeds_are_averaged_over_their_common_rounds(tmp_path: Path) -> None:
    longer, shorter = summary("fedap", [0.2, 0.6, 0.9]), summary("fedap", [0.4, 0.8])
    convergence_figure([longer, shorter], "Seeds", tmp_path / "seeds")
    assert Image.open(tmp_path / "seeds.png").getcolors(1 << 20)


def test_labels_keep_their_distance_and_their_order() -> None:
    """80, 81 and 90 with a gap of 5: the second moves up to 85, the third stays. Below a top of 88 all move down."""
    ends = [(81.0, 9.0), (80.0, 9.0), (90.0, 9.0)]
    assert _spread_out(ends, gap=5.0, top=100.0) == [(85.0, 9), (80.0, 9), (90.0, 9)]
    assert _spread_out(ends, gap=5.0, top=88.0) == [(83.0, 9), (78.0, 9), (88.0, 9)]


def test_a_heat_map_names_receivers_and_sources(tmp_path: Path) -> None:
    mixing_figure(MixingRecord(weights=np.full((3, 3), 1 / 3)), ["ann", "bob", "cy"], "W", tmp_path / "w")
    text = (tmp_path / "w.svg").read_text()
    assert all(text.count(f"<!-- {name} -->") == 2 for name in ("ann", "bob", "cy"))


def test_the_demo_says_in_words_who_gained() -> None:
    """Alone 0.50, together 0.60: +10.0 points; of the two people one gained."""
    alone = summary("base", [0.5], per_client=(0.4, 0.6))
    together = summary("fedap", [0.6], per_client=(0.7, 0.5))
    assert in_words(alone=alone, together=together) == (
        "FedAP+ raised the mean accuracy: 50.0 % alone, 60.0 % together, +10.0 points; 1 of 2 people gained."
    )
    assert "did not raise" in in_words(alone=together, together=alone)
