"""Decides what the leaderboard runs: divided data sets, recipes, seeds, algorithms. A board is one set and one recipe.

Decides settings only; nothing is run or read here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fedap_core.errors import require_known
from fedap_core.strategies import STRATEGIES
from protocol.plan import PAPER_RECIPE, USER_RECIPE
from scripts.experiments.comparison import Comparison
from scripts.experiments.reproduce.data_sets import DATA_SETS
from scripts.experiments.reproduce.target import settled
from scripts.run.settings import RunSettings

THREE_SEEDS = (0, 1, 2)
ONE_SEED = (0,)

QUICK_ROUNDS = 10
QUICK_SETS = ("watch",)


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """Local training and rounds, the same for all algorithms. algorithms: the default ones of this recipe's boards."""

    name: str
    title: str
    run: Mapping[str, object]
    algorithms: tuple[str, ...]


PAPER = TrainingRecipe(
    name="paper",
    title="the paper's recipe: SGD 0.01 without momentum, batches of 32, one epoch a round",
    run={**PAPER_RECIPE, "rounds": 100, "evaluate_every": 5},
    algorithms=("base", "fedavg", "fedprox", "fedper", "fedbn", "fedap", "d-fedap", "f-fedap", "fedap-plus"),
)
USER = TrainingRecipe(
    name="user",
    title="the user's recipe: SGD 0.01 with momentum 0.9 and a cosine schedule, one epoch a round",
    run={**USER_RECIPE, "rounds": 60, "evaluate_every": 4},
    algorithms=tuple(STRATEGIES),
)
RECIPES = {one.name: one for one in (PAPER, USER)}


@dataclass(frozen=True, kw_only=True)
class BoardData:
    """A data set divided among clients. data: its name for `--data`; target: the accuracy up to which rounds are
    counted, 0 for 95 % of the best algorithm's final accuracy."""

    name: str
    title: str
    data: str
    seeds: tuple[int, ...] = ONE_SEED
    cohort: Mapping[str, object] = field(default_factory=dict)
    run: Mapping[str, object] = field(default_factory=dict)
    target: float = 0.0

    @property
    def is_here(self) -> bool:
        return DATA_SETS[self.data].is_here(download=False)


_SMALL_BATCHES = {"batch_size": 16}
"""For clients with fewer than a hundred training samples."""

BOARD_DATA = {
    one.name: one
    for one in (
        BoardData(
            name="organamnist",
            title="OrganAMNIST, 20 clients by Dirichlet(0.1)",
            data="organamnist",
            seeds=THREE_SEEDS,
            target=0.9,
        ),
        BoardData(
            name="har-people",
            title="UCI HAR, 30 people",
            data="har",
            seeds=THREE_SEEDS,
            cohort={"partition": "site"},
        ),
        BoardData(name="har", title="UCI HAR, 20 clients by Dirichlet(0.1)", data="har", seeds=THREE_SEEDS),
        BoardData(name="chest", title="Chest X-rays, 20 clients by Dirichlet(0.1)", data="chest"),
        BoardData(
            name="watch",
            title="Smartwatch, 10 people",
            data="watch",
            cohort={"partition": "site"},
            run=_SMALL_BATCHES,
        ),
        BoardData(name="organcmnist", title="OrganCMNIST, 20 clients by Dirichlet(0.1)", data="organcmnist"),
        BoardData(name="organsmnist", title="OrganSMNIST, 20 clients by Dirichlet(0.1)", data="organsmnist"),
        BoardData(name="pamap2", title="PAMAP2, 20 clients by Dirichlet(0.1)", data="pamap2"),
    )
}


@dataclass(frozen=True, kw_only=True)
class Board:
    """One data set under one recipe, with all its runs, seed by seed."""

    data: BoardData
    recipe: TrainingRecipe
    runs: tuple[RunSettings, ...]

    @property
    def title(self) -> str:
        return f"{self.data.title}, {self.recipe.name}"


@dataclass(frozen=True, kw_only=True)
class Restriction:
    """What the user requested; empty or 0: the leaderboard's default."""

    data: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    algorithms: str = ""
    seeds: tuple[int, ...] = ()
    rounds: int = 0
    quick: bool = False


def make_boards(asked: Restriction) -> list[Board]:
    """Return the boards of the available data sets, or of the requested ones."""
    return [_board(one, recipe, asked) for recipe in _recipes(asked) for one in _data(asked)]


def _recipes(asked: Restriction) -> list[TrainingRecipe]:
    for name in asked.recipes:
        require_known("recipe", name, RECIPES)
    names = asked.recipes or (("user",) if asked.quick else tuple(RECIPES))
    return [RECIPES[name] for name in names]


def _data(asked: Restriction) -> list[BoardData]:
    for name in asked.data:
        require_known("data", name, BOARD_DATA)
    if asked.data:
        return [BOARD_DATA[name] for name in asked.data]
    if asked.quick:
        return [BOARD_DATA[name] for name in QUICK_SETS]
    return [one for one in BOARD_DATA.values() if one.is_here]


def _board(one: BoardData, recipe: TrainingRecipe, asked: Restriction) -> Board:
    rounds = asked.rounds or (QUICK_ROUNDS if asked.quick else recipe.run["rounds"])
    seeds: Sequence[int] = asked.seeds or (ONE_SEED if asked.quick else one.seeds)
    cohort = {"data": one.data, **DATA_SETS[one.data].cohort, **one.cohort}
    described = {**recipe.run, **one.run, "rounds": rounds, "cohort": cohort, "model": DATA_SETS[one.data].model}
    base = settled({**described, "algorithm": "base", "seed": seeds[0]})
    algorithms = asked.algorithms or ",".join(recipe.algorithms)
    comparison = Comparison.parse(base, algorithms=algorithms, seeds=",".join(map(str, seeds)))
    return Board(data=one, recipe=recipe, runs=comparison.runs)
