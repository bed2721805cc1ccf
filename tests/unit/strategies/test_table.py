"""How a strategy is made from a name and options: the table, text that becomes values, users' own, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from fedap_core.errors import InvalidInput
from fedap_core.strategies import STRATEGIES, Strategy, make_strategy
from fedap_core.strategies.fedap import FedAp
from fedap_core.strategies.fedavg import FedAvg
from fedap_core.strategies.fedprox import FedProx

HERE = "tests.unit.strategies.test_table"


@dataclass(frozen=True, kw_only=True)
class UsersOwn(Strategy):
    """A strategy of a user with an option of every kind."""

    name: ClassVar[str] = "users-own"

    patience: int = 3
    remark: str = "none"
    share: float = 0.5


def not_a_strategy() -> None:
    """Callable, but no strategy."""


def test_every_algorithm_is_in_the_table_under_its_own_name_with_a_label_for_readers() -> None:
    for name, kind in STRATEGIES.items():
        assert kind.name == name
        assert make_strategy(name) == kind()
    labels = [kind.label for kind in STRATEGIES.values()]
    assert all(labels)
    assert len(set(labels)) == len(labels)


def test_an_algorithm_whose_rounds_need_everyone_is_refused_without_barriers() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Together(Strategy):
        name: ClassVar[str] = "together"
        needs_barrier: ClassVar[bool] = True

    make_strategy("fedavg").require_continuous()
    with pytest.raises(InvalidInput, match=r"mode: got continuous, expected barrier: a round of together needs"):
        Together().require_continuous()


def test_text_becomes_the_type_of_its_option() -> None:
    assert make_strategy("fedap", {"self_weight": "0.3", "full_covariance": "yes"}) == FedAp(
        self_weight=0.3, full_covariance=True
    )
    assert make_strategy("fedavg", {"equal": "False"}) == FedAvg(equal=False)
    assert make_strategy("fedavg", {"equal": "1"}) == FedAvg(equal=True)


def test_values_that_have_their_type_already_are_taken_as_they_are() -> None:
    assert make_strategy("fedprox", {"mu": 1, "equal": True}) == FedProx(mu=1.0, equal=True)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("fedprox", {"mu": "much"}, "fedprox.mu: got much, expected a number"),
        ("fedprox", {"mu": True}, "fedprox.mu: got True, expected a number"),
        ("fedprox", {"mu": None}, "fedprox.mu: got None, expected a number"),
        ("fedavg", {"equal": "maybe"}, "fedavg.equal: got maybe, expected true or false"),
        ("fedavg", {"equal": 1}, "fedavg.equal: got 1, expected true or false"),
        ("fedap", {"selfweight": 0.5}, "option of fedap: got selfweight.*Did you mean 'self_weight'"),
        ("base", {"mu": 0.5}, "option of base: got mu, expected one of equal"),
        ("fedap", {"self_weight": "1.1"}, "fedap.self_weight: got 1.1, expected a number in"),
        ("fedap", {"self_weight": "nan"}, "fedap.self_weight: got nan"),
        ("d-fedap", {"max_peer_weight": -0.1}, "d-fedap.max_peer_weight: got -0.1"),
        ("fedprox", {"mu": -1}, "fedprox.mu: got -1"),
        ("fedprox", {"mu": "nan"}, "fedprox.mu: got nan"),
        ("fedprox", {"mu": "inf"}, "fedprox.mu: got inf"),
        ("f-fedap", {"full_covariance": "true"}, "f-fedap.full_covariance: .*running statistics"),
        ("fedpa", None, "algorithm: got fedpa, expected one of apfl, base, .* Did you mean"),
    ],
)
def test_wrong_names_and_values_are_refused_by_name(name: str, options: dict[str, object] | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make_strategy(name, options)


def test_a_users_own_strategy_is_found_by_module_and_name() -> None:
    made = make_strategy(f"{HERE}:UsersOwn", {"patience": "7", "remark": "mine", "share": "0.25"})
    assert made == UsersOwn(patience=7, remark="mine", share=0.25)
    assert make_strategy(f"{HERE}:UsersOwn", {"patience": 8}) == UsersOwn(patience=8)


@pytest.mark.parametrize("value", ["7.5", "seven", 7.5, True])
def test_whole_numbers_are_whole(value: object) -> None:
    with pytest.raises(InvalidInput, match=r"UsersOwn.patience: got .*, expected a whole number"):
        make_strategy(f"{HERE}:UsersOwn", {"patience": value})


@pytest.mark.parametrize("name", [f"{HERE}:Missing", f"{HERE}:HERE", "no.such.module:Thing", ":Thing", ".near:Thing"])
def test_a_users_strategy_that_cannot_be_imported_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"algorithm: got .*, expected (an importable module|a callable)"):
        make_strategy(name)


@pytest.mark.parametrize("attribute", ["not_a_strategy", "InvalidInput"])
def test_what_is_no_strategy_is_refused(attribute: str) -> None:
    with pytest.raises(InvalidInput, match=r"a subclass of fedap_core\.strategies\.Strategy"):
        make_strategy(f"{HERE}:{attribute}")


@pytest.mark.parametrize("name", ["fedavgm", "fedadam", "fedamp", "pfedsim", "scaffold", "feddbe"])
def test_algorithms_whose_rounds_need_everyone_are_refused_without_barriers(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"mode: got continuous, expected barrier: .*Use mode = barrier"):
        make_strategy(name).require_continuous()


def test_feddbe_with_local_means_sends_none_and_needs_no_barrier() -> None:
    own = make_strategy("feddbe", {"own_mean": True})
    own.require_continuous()
    assert own.acts_on_delivery


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("apfl", "alpha", 1.5),
        ("feddbe", "strength", -1.0),
        ("fedamp", "self_weight", 1.5),
        ("fedamp", "sigma", 0.0),
        ("fedamp", "strength", -1.0),
        ("fedala", "rate", 0.0),
        ("fedala", "share", 1.5),
        ("fedavgm", "server_rate", 0.0),
        ("fedavgm", "momentum", 1.0),
        ("fedadam", "second_momentum", -0.1),
        ("fedadam", "tau", 0.0),
        ("ditto", "strength", -1.0),
        ("fedap-plus", "head_self_weight", 1.5),
        ("fedap-plus", "batch_norm_self_weight", -0.5),
        ("fedap-plus", "average_last", 1.5),
        ("fedap-plus", "average_after", -1),
        ("fedap-plus", "forgetting", -1.0),
        ("fedap-plus", "learning", -1.0),
        ("fedap-plus", "momentum", 1.0),
        ("fedap-plus", "strength", -1.0),
        ("fedap-plus", "personal_share", 1.5),
        ("fedrep", "head_epochs", 0),
    ],
)
def test_an_option_out_of_range_is_named(name: str, option: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=f"{name}.{option}"):
        make_strategy(name, {option: value})
