"""Claims about the order in which things are measured."""

from __future__ import annotations

from collections.abc import Callable

from scripts.bench.interleaving import interleave


def test_everything_runs_in_every_pass_and_the_order_changes() -> None:
    order: list[str] = []

    def contender(name: str) -> Callable[[], float]:
        def one_pass() -> float:
            order.append(name)
            return float(len(order))

        return one_pass

    found = interleave({name: contender(name) for name in "abc"}, passes=4, unit="s", warm_up=1)
    assert "".join(order) == "abc" + "cba" + "bca" + "acb" + "cab"
    assert found["a"].values == (6.0, 9.0, 10.0, 14.0)
    assert found["b"].values == (5.0, 7.0, 12.0, 15.0)
