"""Defines one run of the lab: every setting that shapes its numbers, validated, and a digest that names the run.

Equal settings give equal numbers, so results are looked up by the digest. The engine and the number of processes are
not settings: they must not change a single bit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from coordinator.sections import take_record
from fedap_core.errors import InvalidInput, in_words
from fedap_core.participation import require_participation
from fedap_core.splits import MIN_TRAIN_SAMPLES, OVERLAPPING_LABEL, PROTOCOLS
from fedap_core.strategies import Strategy, make_strategy, sealing_objection
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy
from protocol.encodings import Encoding
from protocol.plan import Compute, Sgd, is_evaluated

if TYPE_CHECKING:  # it imports torch, which takes seconds in which a command can already prepare its data
    from participant.training.local import LocalPlan

_LATER_FIELDS = {
    "mode": "barrier",
    "layers": "tiled",
    "batches": "reference",
    "lr_schedule": "constant",
    "lr_floor": 0.0,
    "keep_momentum": False,
    "work_limit_s": None,
    "evaluation_batch_size": 256,
    "encoding": "f32",
    "participation": 1.0,
    "statistics_privacy": None,
    "update_privacy": None,
    "sealed": False,
}
"""Fields that older results do not have, with the value used to compute those: only other values enter a run's
digest."""

_OLDER_DEFAULTS: Mapping[str, Mapping[str, object]] = {
    "fedap-plus": {
        "self_weight": 0.5,
        "head_at_home": True,
        "personal_share": 0.0,
        "strength": 1.0,
        "mean_of_steps": False,
        "moves_along": False,
        "momentum": 0.0,
        "average_last": 0.0,
        "forgetting": 0.0,
    }
}
"""Options of algorithms whose default has changed since older results were named: the new default enters a run's
digest, so that a result is never mistaken for one of another algorithm."""

Fraction = Annotated[float, Field(gt=0.0, le=1.0)]

LEAST_MIN_SAMPLES = 2
"""Batch norm cannot train on one sample."""


class AnchorSettings(BaseModel):
    """Source of the anchor, the model that W is measured under.

    pooled: trained on a share of the clients' pooled training halves (lab only; no test sample is ever seen);
    warmup: `rounds` federated FedAvg rounds that count towards the run's rounds; file: a model file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["pooled", "warmup", "file"] = "pooled"
    share: Fraction = 0.2
    epochs: int = Field(default=20, ge=1)
    rounds: int = Field(default=5, ge=1)
    path: str = ""


class CohortSettings(BaseModel):
    """Which data, and how they are divided among clients and inside each client."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str
    data_options: dict[str, str] = {}
    partition: Literal["dirichlet-pairs", "dirichlet", "site", "iid"] = "dirichlet-pairs"
    alpha: float = Field(default=0.1, gt=0.0)
    clients: int = Field(default=20, ge=1)
    protocol: Literal["paper", "reference"] = "paper"
    validation: float = Field(default=0.0, ge=0.0, le=0.5)
    """Share of the training samples held back to choose between models, if the protocol has no validation split."""
    overlapping_windows: bool = False
    min_samples: int = Field(default=MIN_TRAIN_SAMPLES, ge=LEAST_MIN_SAMPLES)
    """Fewest training samples of a client."""

    @property
    def fractions(self) -> tuple[float, ...]:
        """Shares of training, validation (if any) and test samples."""
        return PROTOCOLS[self.protocol]

    @property
    def protocol_label(self) -> str:
        """Heading of figures made under these settings."""
        return f"{self.protocol} ({OVERLAPPING_LABEL})" if self.overlapping_windows else self.protocol


class RunSettings(BaseModel):
    """One algorithm on one cohort with one seed.

    The plan's records of local training are embedded; in files, and when settings are read from plain values, their
    fields are at the top level beside the others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    cohort: CohortSettings
    model: str
    algorithm: str
    options: dict[str, str | float | bool] = {}
    rounds: int = Field(default=100, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**63)
    sgd: Sgd = Sgd()
    compute: Compute = Compute()
    anchor: AnchorSettings = AnchorSettings()
    start_from: Literal["initial", "anchor"] = "initial"
    evaluate_every: int = Field(default=1, ge=1)
    participation: Fraction = 1.0
    """Share of the clients that take part in a round."""
    encoding: Encoding = "f32"
    """How weights are encoded on the wire; engines without a network round them in the same way."""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    mode: Literal["barrier", "continuous"] = "barrier"
    """Whether rounds wait for all clients or each continues at once. In the latter case the order of reports depends on
    the machine's speed, and so do the results."""

    statistics_privacy: StatisticsPrivacy | None = None
    """Noise in the clients' statistics, which participants may choose. In the lab all clients use it, and the noise
    comes from the seed: results are repeatable and protect nobody."""

    update_privacy: UpdatePrivacy | None = None
    """The same for the updates of all clients."""

    sealed: bool = False
    """Whether values and weights are rounded to whole numbers, as in a sealed run."""

    @model_validator(mode="before")
    @classmethod
    def _by_record(cls, table: dict[str, object]) -> dict[str, object]:
        rest = dict(table)
        return {"sgd": take_record(Sgd, rest), "compute": take_record(Compute, rest), **rest}

    @model_serializer(mode="wrap")
    def _flat(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        described: dict[str, object] = dump(self)
        del described["sgd"], described["compute"]
        return {**described, **self.sgd.write([]), **self.compute.write([])}

    @model_validator(mode="after")
    def _is_possible(self) -> RunSettings:
        strategy = self.strategy()
        require_participation(strategy, self.participation)
        if self.participation < 1.0 and (self.mode == "continuous" or strategy.looks_at_directions):
            fix = "Use mode = barrier and robust = none."
            raise InvalidInput("participation", self.participation, "1 in continuous mode, and under robust", fix)
        if self.mode == "continuous":
            strategy.require_continuous()
        if self.sealed:
            self._require_sealable(strategy)
        if self.sgd.work_limit_s is not None or self.sgd.keep_momentum:  # not repeatable; not saved with the models
            raise InvalidInput("sgd", self.sgd, "no work_limit_s and no keep_momentum in the lab")
        if self.uses_anchor and self.anchor.kind == "warmup" and self.anchor.rounds >= self.rounds:
            raise InvalidInput("anchor.rounds", self.anchor.rounds, f"fewer than the run's {self.rounds} rounds")
        return self

    def _require_sealable(self, strategy: Strategy) -> None:
        expected = "an algorithm that can be sealed, with f32 and everybody in every round"
        if why := sealing_objection(strategy):
            raise InvalidInput("sealed", self.label, expected, f"{why}.")
        if self.encoding != "f32" or self.participation < 1.0 or self.mode != "barrier":
            raise InvalidInput("sealed", self.label, expected)

    def evaluates(self, round_no: int) -> bool:
        """Whether the models that a round delivers are evaluated, by the rule of the plan."""
        return is_evaluated(round_no, every=self.evaluate_every, rounds=self.rounds)

    def strategy(self) -> Strategy:
        """The algorithm with its options."""
        return make_strategy(self.algorithm, self.options)

    def local_plan(self) -> LocalPlan:
        """Return the plan of local training, which is the same for every client."""
        from participant.training.local import LocalPlan

        rounds = range(self.warm_up_rounds, self.rounds)
        return LocalPlan(strategy=self.strategy(), sgd=self.sgd, seed=self.seed, compute=self.compute, rounds=rounds)

    @property
    def uses_anchor(self) -> bool:
        """Whether this run uses the anchor at all."""
        return self.start_from == "anchor" or self.strategy().first_measure != "none"

    @property
    def warm_up_rounds(self) -> int:
        """Number of first rounds that produce the anchor; the algorithm's own follow."""
        return self.anchor.rounds if self.uses_anchor and self.anchor.kind == "warmup" else 0

    @property
    def label(self) -> str:
        """The algorithm as requested: its name and the given options."""
        return ":".join([self.algorithm, *(f"{key}={value}" for key, value in self.options.items())])

    @property
    def identity(self) -> str:
        """A digest of everything that the run's numbers depend on; includes the total of rounds only if it matters."""
        described = self.model_dump(mode="json")
        if not self.uses_anchor:
            described.pop("anchor")
        elif self.anchor.kind == "file":
            described["anchor"]["path"] = file_digest(Path(self.anchor.path))
        same_start = not self.strategy().depends_on_rounds and self.sgd.lr_schedule == "constant"
        if same_start and self.participation == 1.0:  # otherwise only the last round gives everybody a model
            described.pop("rounds")
        described["options"] = self._changed_defaults() | described["options"]
        return digest(_without_later_fields(described))

    def _changed_defaults(self) -> dict[str, object]:
        strategy, older = self.strategy(), _OLDER_DEFAULTS.get(self.algorithm, {})
        unnamed = {name: getattr(strategy, name) for name in older if name not in self.options}
        return {name: value for name, value in unnamed.items() if value != older[name]}

    @property
    def anchor_identity(self) -> str:
        """Name of the anchor, the same for every algorithm of a comparison."""
        fields = ("cohort", "model", "seed", "anchor", "learning_rate", "batch_size", "batches", "threads")
        described = self.model_dump(mode="json")
        return self._named(digest(_without_later_fields({name: described[name] for name in fields})))

    @property
    def initial_identity(self) -> str:
        """Name of the initial model, the same for every algorithm and every division of the data."""
        return self._named(digest([self.cohort.data, self.cohort.data_options, self.model]))

    def _named(self, digits: str) -> str:
        return f"{self.cohort.data}-{self.model}-s{self.seed}-{digits}".replace("/", "_").replace(":", ".")


def settings_among(
    asked: Mapping[str, object], *kinds: type[CohortSettings | RunSettings | Sgd | Compute]
) -> dict[str, object]:
    """Return those of the named values that are settings of one of these kinds."""
    known = {
        name for kind in kinds for name in (kind.model_fields if issubclass(kind, BaseModel) else dict(kind.CONTRACTS))
    }
    return {name: value for name, value in asked.items() if name in known}


def saved_settings(described: Mapping[str, object]) -> RunSettings:
    """Read settings from a run folder; missing fields get the values they stood for when the folder was written."""
    return RunSettings.model_validate({**_LATER_FIELDS, **described})


def _without_later_fields(described: dict[str, object]) -> dict[str, object]:
    """Drop fields at values that older results imply, so that new fields do not rename them."""
    found = {
        name: value for name, value in described.items() if name not in _LATER_FIELDS or value != _LATER_FIELDS[name]
    }
    cohort = found.get("cohort")
    if isinstance(cohort, dict) and cohort.get("validation") == 0.0:
        found["cohort"] = {name: value for name, value in cohort.items() if name != "validation"}
    return found


def digest(value: object) -> str:
    """Return a digest of a JSON value, ten hex digits."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=5).hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of a file's content: other values under the same path make another run."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput("anchor", str(path), "a model file that can be read", str(error)) from error


def checked(error: ValidationError) -> InvalidInput:
    """Convert pydantic's first error into InvalidInput."""
    first = error.errors()[0]
    inner = first.get("ctx", {}).get("error")
    if isinstance(inner, InvalidInput):
        return inner
    field = ".".join(str(part) for part in first["loc"])
    return InvalidInput(field, first.get("input"), in_words(first["msg"]))
