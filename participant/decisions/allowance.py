"""Decide what a plan may ask of this participant: each field has a bound, built in or set by the operator.

Pure: takes a welcome and the algorithm's settings, and raises an error that explains the refusal. `--allow` accepts
FIELD<=NUMBER, FIELD>=NUMBER and FIELD=VALUE[,VALUE...]; such an expression replaces the built-in bound, whether it is
stricter or looser. Which orders a plan permits is decided in `consent`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fedap_core.errors import InvalidInput, require_known, unknown_name
from fedap_core.strategies import STRATEGIES, Strategy
from protocol.encodings import ENCODINGS
from protocol.messages import Welcome
from protocol.plan import MAX_PEER_WEIGHT

BUILT_IN = "built in"
OPTION = "option."
"""Prefix of the algorithm's own settings."""

SHARE = "share"
SHARED_TABLES = "class_counts"
"""`share=class_counts` equals `--share class_counts`: it permits what the participant sends, not what a plan asks."""

LARGEST_OPTION = 1e6
"""Largest magnitude of an algorithm's numeric setting; no sensible setting is larger."""

_EXPRESSION = re.compile(r"\s*([a-z_]+|option\.[A-Za-z_][A-Za-z0-9_]*)\s*(<=|>=|=)\s*(\S(?:.*\S)?)\s*")


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Allowed values of one field: a number in [low, high], or one of `values` if any are given. by: who set it."""

    low: float = -math.inf
    high: float = math.inf
    values: tuple[str, ...] = ()
    by: str = BUILT_IN

    def admits(self, value: object) -> bool:
        """Whether a plan's value is allowed. None, an omitted optional field, always is."""
        if value is None:
            return True
        if self.values:
            return _text(value) in self.values
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self.low == -math.inf and self.high == math.inf
        return self.low <= value <= self.high

    @property
    def words(self) -> str:
        """The text that completes «expected …»."""
        if self.values:
            return " or ".join(self.values)
        if self.low == self.high:
            return f"{self.low:g}"
        low = "" if self.low == -math.inf else f"at least {self.low:g}"
        high = "" if self.high == math.inf else f"at most {self.high:g}"
        return " and ".join(part for part in (low, high) if part) or "anything"


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a plan. path: its place in a welcome. choices: the allowed words, if it is not a number."""

    path: str
    limit: Limit
    choices: tuple[str, ...] = ()


def fields(cores: int) -> dict[str, Field]:
    """Everything a plan can ask for, under its `--allow` name, with its built-in bound.

    The bounds are far above what such training needs: they prevent harmful plans, not unwise ones. What makes a
    participant send more than the algorithm itself requires is refused unless the operator allows it: warm-up rounds
    also send batch norm, `full_covariance` sends a matrix per layer, and in a sealed run a larger weight in another
    member's row lets that member learn more.
    """

    def number(path: str, low: float, high: float) -> Field:
        return Field(path=path, limit=Limit(low=low, high=high))

    def word(path: str, *choices: str) -> Field:
        return Field(path=path, limit=Limit(values=choices), choices=choices)

    return {
        "algorithm": word("plan.strategy", *STRATEGIES),
        "mode": word("plan.mode", "barrier", "continuous"),
        "rounds": number("plan.rounds", 1, 100_000),
        "warmup_rounds": number("plan.warmup_rounds", 0, 0),
        "evaluate_every": number("plan.evaluate_every", 1, 100_000),
        "seed": number("plan.seed", 0, math.inf),
        "split": word("plan.split", "paper", "reference"),
        "validation": number("plan.validation", 0, 0.5),
        "start_from": word("plan.start_from", "initial", "anchor"),
        "anchor": word("plan.anchor", "none", "file", "warmup"),
        "participation": number("plan.participation", 0, 1),
        "choose_from": word("plan.choose_from", "members", "present"),
        "encoding": word("plan.encoding", *ENCODINGS),
        "max_peer_weight": number("plan.sealed.max_peer_weight", 0, MAX_PEER_WEIGHT),
        "scores": word("plan.sealed.scores", "clear", "sealed"),
        "age_exponent": number("plan.sealed.age_exponent", 0, 100),
        "learning_rate": number("plan.sgd.learning_rate", 0, 10),
        "lr_schedule": word("plan.sgd.lr_schedule", "constant", "cosine"),
        "lr_floor": number("plan.sgd.lr_floor", 0, 1),
        "momentum": number("plan.sgd.momentum", 0, 0.9999),
        "weight_decay": number("plan.sgd.weight_decay", 0, 1),
        "keep_momentum": word("plan.sgd.keep_momentum", "true", "false"),
        "batch_size": number("plan.sgd.batch_size", 1, 65_536),
        "batches": word("plan.sgd.batches", "even", "reference"),
        "epochs": number("plan.sgd.epochs", 1, 100),
        "work_limit_s": number("plan.sgd.work_limit_s", 0, 7 * 86_400),
        "threads": number("plan.compute.threads", 1, cores),
        "layers": word("plan.compute.layers", "tiled", "stock"),
        "evaluation_batch_size": number("plan.compute.evaluation_batch_size", 1, 65_536),
        "options": number("plan.options", 0, 16),
        "heartbeat_s": number("heartbeat_s", 0.1, 300),
    }


UNBOUNDED = frozenset({"model_layout", "shared_layout", "sealed.fingerprint", "sealed.statistics_to"})
"""Fields of a plan without a bound: they are compared with this participant's own model, key and settings."""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The bounds of one participant. options: bounds of the algorithm's own settings, by name."""

    known: Mapping[str, Field]
    limits: Mapping[str, Limit]
    options: Mapping[str, Limit]
    shares_class_counts: bool = False

    def refuse_excess(self, welcome: Welcome) -> None:
        """Raise InvalidInput for the first field of a plan that exceeds its bound; imports no code that it names."""
        for name, limit in self.limits.items():
            path = self.known[name].path
            _require(name, path, _at(welcome, path), limit)
        for name, value in welcome.plan.options.items():
            if isinstance(value, int | float) and not abs(value) <= LARGEST_OPTION:
                _require(OPTION + name, f"plan.options.{name}", value, Limit(low=-LARGEST_OPTION, high=LARGEST_OPTION))

    def refuse_settings(self, strategy: Strategy) -> None:
        """Do the same for the algorithm's own settings, including those that the plan leaves at their defaults."""
        for name, limit in self.options.items():
            if hasattr(strategy, name):  # a setting that the algorithm lacks cannot exceed its bound
                _require(OPTION + name, f"plan.options.{name}", getattr(strategy, name), limit)

    def lines(self) -> list[str]:
        """For the user: what is allowed, and who set the bound."""
        named = [*self.limits.items(), *((OPTION + name, limit) for name, limit in self.options.items())]
        return [f"{name}: {limit.words} ({limit.by})" for name, limit in named]


def parse_allowance(
    expressions: Iterable[str], *, cores: int, algorithm: str | None = None, trusted: Iterable[str] = ()
) -> Allowance:
    """Return the built-in bounds, overridden by the operator's. algorithm: the only one to accept, if one is named.
    trusted: names of the user's own code that a plan may ask for."""
    known = fields(cores)
    limits = {name: field.limit for name, field in known.items()}
    options: dict[str, Limit] = {"full_covariance": Limit(values=("false",))}
    algorithms = (*STRATEGIES, *(name for name in trusted if name not in STRATEGIES))
    limits["algorithm"] = Limit(values=algorithms)
    shares = False
    for expression in expressions:
        name, operator, value = _parts(expression, known)
        if name == SHARE:
            shares = _agrees_to_tables(expression, operator, value)
        elif name.startswith(OPTION):
            key = name.removeprefix(OPTION)
            options[key] = _narrowed(expression, operator, value, options.get(key, Limit()), ())
        else:
            choices = algorithms if name == "algorithm" else known[name].choices
            limits[name] = _narrowed(expression, operator, value, limits[name], choices)
    if algorithm is not None:
        require_known("algorithm", algorithm, algorithms)
        limits["algorithm"] = Limit(values=(algorithm,), by="--algorithm")
    return Allowance(known=known, limits=limits, options=options, shares_class_counts=shares)


def _parts(expression: str, known: Mapping[str, Field]) -> tuple[str, str, str]:
    found = _EXPRESSION.fullmatch(expression)
    if found is None:
        raise InvalidInput("allow", expression, "FIELD<=NUMBER, FIELD>=NUMBER or FIELD=VALUE, such as rounds<=200")
    name, operator, value = found.groups()
    if name not in known and name != SHARE and not name.startswith(OPTION):
        raise unknown_name("field of allow", name, [*known, SHARE, f"{OPTION}NAME"])
    return name, operator, value


def _agrees_to_tables(expression: str, operator: str, value: str) -> bool:
    if (operator, value) != ("=", SHARED_TABLES):
        raise InvalidInput("allow", expression, f"{SHARE}={SHARED_TABLES}")
    return True


def _narrowed(expression: str, operator: str, value: str, limit: Limit, choices: tuple[str, ...]) -> Limit:
    """Return the bound as changed by one expression. Several for one field, such as >= and <=, hold together."""
    by = "--allow" if limit.by == BUILT_IN or limit.by.startswith("--") else limit.by
    if choices:
        values = tuple(part.strip() for part in value.split(","))
        unknown = next((one for one in values if one not in choices), None)
        if operator != "=" or unknown is not None:
            raise InvalidInput("allow", expression, f"= and one of {', '.join(choices)}, or several with commas")
        return Limit(values=values, by=by)
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        if limit.low == -math.inf and limit.high == math.inf and operator == "=":  # an option's word, true or false
            return Limit(values=tuple(part.strip() for part in value.split(",")), by=by)
        raise InvalidInput("allow", expression, f"a finite number after {operator}")
    if operator == "=":
        return Limit(low=number, high=number, by=by)
    return replace(limit, by=by, high=number) if operator == "<=" else replace(limit, by=by, low=number)


def _require(name: str, path: str, value: object, limit: Limit) -> None:
    if limit.admits(value):
        return
    fix = f"To agree, join again with --allow '{name}{_agreeing(value, limit)}'."
    if name == "algorithm":
        fix = f"To agree, join again with {'--trust-code' if ':' in str(value) else '--algorithm'} {value}."
    raise InvalidInput(path, _text(value), f"{limit.words}, as allowed here ({limit.by})", fix)


def _agreeing(value: object, limit: Limit) -> str:
    if limit.values or isinstance(value, bool | str):
        return f"={_text(value)}"
    below = isinstance(value, int | float) and value < limit.low
    return f"{'>=' if below else '<='}{_text(value)}"


def _at(welcome: Welcome, path: str) -> object:
    found: object = welcome
    for part in path.split("."):
        found = None if found is None else getattr(found, part)  # an absent part of a plan asks for nothing
    return len(found) if isinstance(found, Mapping) else found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
