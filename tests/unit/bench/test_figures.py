"""Claims about medians, ratios, verdicts and the words for noise."""

from __future__ import annotations

import pytest

from fedap_core.errors import InvalidInput
from scripts.bench.figures import BenchResult, Measurements, Threshold, noise_sentence, number, quantity, ratio

LOWER = Threshold(must=1.10, goal=0.90)
HIGHER = Threshold(must=0.30, goal=0.50, higher=True)


def series(*values: float, name: str = "it", unit: str = "s") -> Measurements:
    return Measurements(name=name, unit=unit, values=values)


def finding(value: float, low: float, high: float, bar: Threshold | None) -> BenchResult:
    return BenchResult(what="it", value=value, low=low, high=high, bar=bar)


def test_spread_is_the_range_over_the_median() -> None:
    """9, 10, 12: median 10, range 3, 30 %."""
    assert series(12.0, 9.0, 10.0).median == 10.0
    assert series(12.0, 9.0, 10.0).spread == pytest.approx(0.3)


def test_ratio_is_taken_pass_by_pass_so_that_a_slow_minute_cancels() -> None:
    """Passes at 1x, 2x and 4x of the machine's time: every quotient is 1.5, though the medians' neighbours differ."""
    found = ratio("it", series(1.5, 3.0, 6.0), series(1.0, 2.0, 4.0))
    assert (found.value, found.low, found.high, found.unit) == (1.5, 1.5, 1.5, "x")


def test_ratio_shows_the_range_of_its_passes() -> None:
    """Quotients 2, 1 and 4: median 2."""
    found = ratio("it", series(2.0, 2.0, 8.0), series(1.0, 2.0, 2.0))
    assert (found.value, found.low, found.high) == (2.0, 1.0, 4.0)


def test_extrapolated_ratio_divides_by_the_factor_too() -> None:
    """24 s for 200 against ten times 2 s: 1.2."""
    assert ratio("it", series(24.0), series(2.0), factor=10.0).value == pytest.approx(1.2)


def test_ratio_of_different_numbers_of_passes_is_refused() -> None:
    with pytest.raises(InvalidInput, match="2 and 1 passes"):
        ratio("it", series(1.0, 1.0), series(1.0))


@pytest.mark.parametrize("values", [(), (1.0, 0.0), (float("nan"),)])
def test_measurement_that_measured_nothing_is_refused(values: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput, match="above 0"):
        series(*values)


def test_quantity_keeps_its_unit() -> None:
    found = quantity("memory", series(0.8, 0.7, 0.9, unit="GB"), Threshold(must=1.0, goal=0.7))
    assert (found.value, found.unit, found.verdict) == (0.8, "GB", "met")


@pytest.mark.parametrize(
    ("value", "low", "high", "bar", "verdict"),
    [
        (0.90, 0.85, 0.90, LOWER, "goal met"),
        (0.90, 0.85, 0.95, LOWER, "goal met, within the noise"),
        (1.00, 0.95, 1.10, LOWER, "met"),
        (1.00, 0.85, 1.10, LOWER, "met"),
        (1.00, 0.95, 1.20, LOWER, "met, within the noise"),
        (1.20, 1.15, 1.30, LOWER, "MISSED"),
        (1.20, 1.05, 1.30, LOWER, "MISSED, within the noise"),
        (0.60, 0.50, 0.70, HIGHER, "goal met"),
        (0.40, 0.35, 0.45, HIGHER, "met"),
        (0.40, 0.25, 0.45, HIGHER, "met, within the noise"),
        (0.20, 0.10, 0.25, HIGHER, "MISSED"),
        (0.20, 0.10, 0.30, HIGHER, "MISSED, within the noise"),
        (5.00, 1.00, 9.00, None, "–"),
    ],
)
def test_verdict_judges_the_median_and_admits_passes_on_the_other_side(
    value: float, low: float, high: float, bar: Threshold | None, verdict: str
) -> None:
    found = finding(value, low, high, bar)
    assert found.verdict == verdict
    assert found.is_missed == verdict.startswith("MISSED")


def test_bar_without_a_goal_is_met_or_missed() -> None:
    assert finding(1.0, 1.0, 1.0, Threshold(must=1.0)).verdict == "met"
    assert finding(1.1, 1.1, 1.1, Threshold(must=1.0)).verdict == "MISSED"


def test_noise_is_described_by_the_typical_and_the_worst_spread() -> None:
    """Spreads 0.1, 0.2 and 0.5: the median is 20 %, the worst 50 %."""
    found = {name: series(1.0, 1.0 + width / 2, 1.0 - width / 2, name=name) for name, width in SPREADS.items()}
    assert noise_sentence(found) == (
        "Noise: passes of the same thing lay 20 % apart (median), at most 50 % (c); smaller differences mean nothing."
    )


SPREADS = {"a": 0.1, "c": 0.5, "b": 0.2}


def test_noise_of_a_single_pass_is_unknown() -> None:
    assert noise_sentence({"a": series(1.0)}) == "Noise: unknown, because there was only one pass."


@pytest.mark.parametrize(
    ("value", "text"), [(1234.5, "1234"), (12.34, "12.3"), (1.234, "1.23"), (0.1, "0.10"), (0.0123, "0.0123")]
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text
