"""Claims about the order in which things are measured."""

from __future__ import annotations

from collections.abc import Callable

from scripts.bench.interleaving import interleave


def test_everything_runs_in_every_pass_and_the_first_changes() -> None:
    order: list[str] = []

    def contender(name: str) -> Callable[[], float]:
        def one_pass() -> float:
            order.append(name)
            return float(len(order))

        return one_pass

    found = interleave({"a": contender("a"), "b": contender("b")}, passes=2, unit="s", warm_up=1)
    assert "".join(order) == "abbaab"
    assert found["a"].values == (4.0, 5.0)
    assert found["b"].values == (3.0, 6.0)
