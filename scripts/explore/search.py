"""Visits every reachable state once, and decides whether every path ends.

Depth first over copies of the world; a state is identified by its fingerprint. Laws are checked after every step. When
all states are visited, the steps without faults must form no cycle and every end must be a good one: then every path
ends, in any order, once faults stop. An interrupted search instead follows one fair schedule from every open state.

Partial-order reduction with sleep sets (Godefroid): in each state faults are tried first, and a fault that commutes
with a later step is not tried again after that step, because the other order has led to the same state. Each state is
stored with the faults that were asleep in it; those that are awake when the state is reached again are tried then. Only
faults sleep, so every state is visited, with all of its steps without faults; only second ways to a state are saved.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from sys import intern

from scripts.explore import laws
from scripts.explore.fingerprint import fingerprint
from scripts.explore.moves import Move, moves
from scripts.explore.world import World
from scripts.run.progress_lines import ProgressLines

PATIENCE = 3000
"""Steps of a fair schedule within which everything must have ended."""


CLOCK_EVERY = 64
"""Steps between two readings of the clock: asking the system for processor time can cost as much as a step."""


@dataclass(kw_only=True)
class Counterexample:
    """steps: what has to happen, in order; fault: what is then wrong."""

    steps: list[str]
    fault: str


@dataclass(kw_only=True)
class Result:
    """Result of a search. complete: no state is left; counterexample: the first one found."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    ends: int = 0
    seconds: float = 0.0
    complete: bool = False
    counterexample: Counterexample | None = None


@dataclass
class _Open:
    """A state on the current path, and the moves still to be tried."""

    number: int
    world: World
    left: list[Move]
    asleep: dict[str, Move]
    """Faults that need not be tried here: they were tried earlier, and commute with every step since."""


@dataclass
class Search:
    """One exploration. make: makes the first state; until: when to stop, by the given clock; the default is processor
    time, so that a busy machine explores no less. reduces: whether faults sleep; has_room: whether memory is left."""

    make: Callable[[], World]
    until: float
    clock: Callable[[], float] = time.process_time
    reduces: bool = True
    has_room: Callable[[], bool] = lambda: True
    progress: ProgressLines = field(default_factory=ProgressLines)
    result: Result = field(default_factory=Result)

    def __post_init__(self) -> None:
        undisturbed = self.make()
        undisturbed.faults_left = 0
        self._expected = laws.undisturbed(undisturbed)
        self._numbers: dict[bytes, int] = {}
        self._edges: list[list[tuple[int, str, bool]]] = []
        self._asleep: dict[int, frozenset[str]] = {}

    # ---- exhaustive

    def exhaust(self) -> Result:
        """Visit every state, or as many as the time allows."""
        began = self.clock()
        world = self.make()
        path = [_Open(self._enter(world), world, moves(world), {})]
        while path and self.result.counterexample is None:
            if self.result.transitions % CLOCK_EVERY == 0 and (self.clock() > self.until or not self.has_room()):
                break
            self.progress.offer(lambda: self._so_far(len(self._edges)))
            here = path[-1]
            if not here.left:
                path.pop()
                continue
            self._follow(path, here)
            self.result.depth = max(self.result.depth, len(path))
        if self.result.counterexample is None:
            if path:
                self._follow_fairly(path)
            else:
                self.result.complete = True
                self._require_ends()
        self.result.states, self.result.seconds = len(self._edges), self.clock() - began
        return self.result

    def _so_far(self, states: int) -> str:
        return f"{states:,} states, {self.result.transitions:,} transitions so far …"

    def _follow(self, path: list[_Open], here: _Open) -> None:
        move = here.left.pop()
        world = here.world.copy() if here.left else here.world
        faults_left, was_down = world.faults_left, world.centre.is_down
        self.result.transitions += 1
        following = self._step(world, move)
        if isinstance(following, str):
            number = len(self._edges)
            self._edges.append([])
            self._edges[here.number].append((number, move.text, move.is_fault))
            self._found(number, following)
            return
        asleep: dict[str, Move] = {}
        if self.reduces and world.centre.is_down == was_down:  # its end closes every connection
            asleep = {text: one for text, one in here.asleep.items() if one.commutes(move, faults_left)}
        if move.is_fault:
            here.asleep[move.text] = move
        mark = fingerprint(world)
        known = self._numbers.get(mark)
        number = self._enter(world, mark) if known is None else known
        self._edges[here.number].append((number, intern(move.text), move.is_fault))
        if not following:
            if known is None:
                self._end(number, world)
            return
        if known is None:
            left = [one for one in following if one.text not in asleep]
        else:
            slept = self._asleep.get(number, frozenset())
            left = [one for one in following if one.text in slept and one.text not in asleep]
            asleep = {text: one for text, one in asleep.items() if text in slept}
        if asleep or known is not None:
            self._asleep[number] = frozenset(asleep)
        if left:
            path.append(_Open(number, world, left, asleep))

    def _step(self, world: World, move: Move) -> list[Move] | str:
        """Return the moves after this one, or what is then wrong."""
        try:
            move.make(world)
            laws.check_state(world)
            return moves(world)
        except Exception as error:  # noqa: BLE001 - whatever is raised is what we look for
            return f"{type(error).__name__}: {error}"

    def _enter(self, world: World, mark: bytes | None = None) -> int:
        number = len(self._edges)
        self._numbers[fingerprint(world) if mark is None else mark] = number
        self._edges.append([])
        return number

    def _end(self, number: int, world: World) -> None:
        self.result.ends += 1
        try:
            laws.check_end(world, self._expected)
        except laws.Broken as error:
            self._found(number, str(error))

    def _require_ends(self) -> None:
        """Require no cycle of steps without faults: repeatedly remove states that lead only to removed ones."""
        following = [{to for to, _, is_fault in edges if not is_fault} for edges in self._edges]
        before: list[list[int]] = [[] for _ in self._edges]
        for number, those in enumerate(following):
            for to in those:
                before[to].append(number)
        open_ = [len(those) for those in following]
        taken = [number for number, count in enumerate(open_) if count == 0]
        for number in taken:
            for earlier in before[number]:
                open_[earlier] -= 1
                if open_[earlier] == 0:
                    taken.append(earlier)
        if len(taken) < len(self._edges):
            done = set(taken)
            endless = next(number for number in range(len(self._edges)) if number not in done)
            self._found(self._circle(endless, done), "this can go on for ever")

    def _circle(self, number: int, done: set[int]) -> int:
        """Return a state that repeats, reached from one that need not end."""
        seen: set[int] = set()
        while number not in seen:
            seen.add(number)
            number = next(to for to, _, is_fault in self._edges[number] if not is_fault and to not in done)
        return number

    def _found(self, number: int, fault: str) -> None:
        self.result.counterexample = Counterexample(steps=self._way_to(number), fault=fault)

    def _way_to(self, number: int) -> list[str]:
        """Return the shortest known path from the first state."""
        came: dict[int, tuple[int, str]] = {0: (-1, "")}
        wave = [0]
        while wave and number not in came:
            later: list[int] = []
            for here in wave:
                for to, text, _ in self._edges[here]:
                    if to not in came:
                        came[to] = (here, text)
                        later.append(to)
            wave = later
        steps: list[str] = []
        while number > 0:
            number, text = came[number]
            steps.append(text)
        return steps[::-1]

    # ---- when time is short

    def _follow_fairly(self, path: list[_Open]) -> None:
        """Require that one schedule without faults ends well from every open state."""
        for here in path:
            world = here.world.copy()
            world.faults_left = 0
            fault = self._ends_fairly(world)
            if fault:
                self._found(here.number, fault)
                return

    def _ends_fairly(self, world: World) -> str:
        try:
            for _ in range(PATIENCE):
                if not world.step():
                    laws.check_end(world, self._expected)
                    return ""
                laws.check_state(world)
        except Exception as error:  # noqa: BLE001 - whatever is raised is what we look for
            return f"{type(error).__name__}: {error}"
        return f"not ended after {PATIENCE} steps without faults"

    def wander(self, seed: int) -> Result:
        """Walk from the first state to an end with random steps, again and again until the time is over: every law is
        checked in every state, and every walk must end. States are counted once."""
        began, walk, seen = self.clock(), 0, set[bytes]()
        while self.clock() < self.until and self.result.counterexample is None:
            rng = random.Random(f"{seed}:{walk}")  # noqa: S311 - reproducible, not secret
            walk += 1
            self.progress.offer(lambda: self._so_far(len(seen)))
            self._walk(rng, seen)
        self.result.states, self.result.ends, self.result.seconds = len(seen), walk, self.clock() - began
        return self.result

    def _walk(self, rng: random.Random, seen: set[bytes]) -> None:
        world = self.make()
        steps: list[str] = []
        left = moves(world)
        rate = rng.choice((0.02, 0.05, 0.1, 0.2))
        while left and len(steps) < PATIENCE:
            faults = [move for move in left if move.is_fault]
            others = [move for move in left if not move.is_fault]
            move = rng.choice(faults if faults and (rng.random() < rate or not others) else others)
            steps.append(move.text)
            self.result.transitions += 1
            following = self._step(world, move)
            if isinstance(following, str):
                self.result.counterexample = Counterexample(steps=steps, fault=following)
                return
            seen.add(fingerprint(world))
            left = following
        self.result.depth = max(self.result.depth, len(steps))
        try:
            if left:
                raise laws.Broken(f"not ended after {PATIENCE} steps")
            laws.check_end(world, self._expected)
        except laws.Broken as error:
            self.result.counterexample = Counterexample(steps=steps, fault=str(error))
