"""The configuration of one run: what stands in run.toml, checked, and what follows from it (the plan, the rules).

Every field is documented where it stands. An unknown field is refused with the nearest known name, so that a misspelt
one never passes for a default. Which address may be bound without keys is decided here, before a socket exists.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from coordinator.sections import (
    AdmissionSection,
    AlgorithmSection,
    AnchorSection,
    MembersSection,
    NetworkSection,
    PaceSection,
    PageSection,
    SealingSection,
    StorageSection,
    TrainingSection,
)
from fedap_core.errors import InvalidInput, in_words, unknown_name
from fedap_core.splits import VALIDATION_SHARE
from protocol.encodings import ENCODING_HELP, Encoding
from protocol.endpoints import is_local
from protocol.plan import RESERVED_RUNS


class RunConfig(BaseModel):
    """One run of one federation. Paths are relative to the configuration file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", description="Name of the run: a-z, 0-9 and -.", examples=["liver"]
    )
    folder: Path = Field(
        description="Where the run is kept: journal, blobs, results. A restart finds it again.", examples=["liver"]
    )
    initial: Path = Field(
        description="The initial model file, made with `fedap-participant init`.", examples=["initial.safetensors"]
    )
    rounds: int = Field(default=100, ge=1, le=1_000_000, description="Rounds that each participant trains.")
    seed: int = Field(default=0, ge=0, lt=2**63, description="Where all randomness of the run derives from.")
    mode: Literal["barrier", "continuous"] = Field(
        default="barrier", description="Whether rounds wait for everyone, or everyone goes on at once."
    )
    split: Literal["paper", "reference"] = Field(
        default="paper", description="How participants divide their data: half and half, or 40/30/30 with validation."
    )
    validation: float = Field(
        default=VALIDATION_SHARE,
        ge=0.0,
        le=0.5,
        description="Share of the training samples that participants hold back to choose between models; 0: none.",
    )
    start_from: Literal["initial", "anchor"] = Field(default="initial", description="The model of the first round.")
    evaluate_every: int = Field(default=1, ge=1, description="Rounds between evaluations; the last ten always count.")
    participation: float = Field(
        default=1.0, gt=0.0, le=1.0, description="Share of the members that takes part in a round, drawn for each."
    )
    choose_from: Literal["members", "present"] = Field(
        default="members", description="Draw from all members, or from those that are there when the round begins."
    )
    encoding: Encoding = Field(default="f32", description=ENCODING_HELP)
    sealed: bool = Field(
        default=False, description="Hide updates from the coordinator: members pad them with a key of their own."
    )
    sealing: SealingSection = Field(default_factory=SealingSection, description="What a sealed run hides.")
    algorithm: AlgorithmSection = Field(default_factory=AlgorithmSection, description="What is learnt from whom.")
    anchor: AnchorSection = Field(
        default_factory=AnchorSection, description="The model under which statistics are measured."
    )
    training: TrainingSection = Field(
        default_factory=TrainingSection, description="Local training, the same for everybody."
    )
    members: MembersSection = Field(default_factory=MembersSection, description="Who takes part.")
    admission: AdmissionSection = Field(default_factory=AdmissionSection, description="Which values may be mixed.")
    pace: PaceSection = Field(default_factory=PaceSection, description="When something is late.")
    network: NetworkSection = Field(default_factory=NetworkSection, description="The socket.")
    observers: tuple[str, ...] = Field(
        default=(), description="What follows the run beside the log: package.module:factory, or a built-in name."
    )
    track: tuple[str, ...] = Field(
        default=(), description="Experiment trackers that the run is logged to: mlflow:URI or tensorboard:FOLDER."
    )
    log_file: Path | None = Field(
        default=None, description="File of the log instead of stderr; rotated at 10 MB.", examples=["coordinator.log"]
    )
    storage: StorageSection = Field(default_factory=StorageSection, description="The disk.")
    page: PageSection = Field(default_factory=PageSection, description="The web page.")

    @model_validator(mode="before")
    @classmethod
    def _without_comparing(cls, fields: object) -> object:
        """A sealed run has no robust rule unless one is named, which is refused: values cannot be compared."""
        if not isinstance(fields, dict) or fields.get("sealed") is not True:
            return fields
        algorithm = fields.get("algorithm", {})
        return {**fields, "algorithm": {"robust": "none", **algorithm}} if isinstance(algorithm, dict) else fields

    @field_validator("run")
    @classmethod
    def _not_reserved(cls, run: str) -> str:
        if run in RESERVED_RUNS:
            raise InvalidInput("run", run, "another name", "Participants keep a file of this name beside their runs.")
        return run

    def inside(self, base: Path) -> RunConfig:
        """The same with every relative path below `base`."""
        names = ("folder", "initial", "log_file")
        placed = {name: base / path if (path := getattr(self, name)) else None for name in names}
        anchor = self.anchor.model_copy(update={"file": base / self.anchor.file if self.anchor.file else None})
        keys = {
            name: base / path if (path := getattr(section, name)) else None
            for section, name in ((self.network, "secret_key"), (self.members, "keys"))
        }
        page = {name: base / path for name in ("token", "certificate") if (path := getattr(self.page, name))}
        return self.model_copy(
            update={
                **placed,
                "anchor": anchor,
                "network": self.network.model_copy(update={"secret_key": keys["secret_key"]}),
                "members": self.members.model_copy(update={"keys": keys["keys"]}),
                "page": self.page.model_copy(update=page),
            }
        )


def read_config(path: Path) -> RunConfig:
    """The configuration in a TOML file, paths made absolute."""
    try:
        fields = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidInput("config", path, "a readable file", str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("config", path, "a TOML file", str(error)) from error
    return make_config(fields).inside(path.absolute().parent)


def overlaid(file: Path | None, given: Mapping[str, object]) -> RunConfig:
    """The file's configuration with other values on top: «section.field» -> value, paths from the current folder."""
    fields = read_config(file).model_dump() if file is not None else {}
    if names := given.get("members.names"):
        given = {"members.at_least": len(names) if isinstance(names, Sized) else 1, **given}
    for path, value in given.items():
        section, dot, name = path.rpartition(".")
        if dot:
            fields[section] = {**fields.get(section, {}), name: value}
        else:
            fields[name] = value
    return make_config(fields).inside(Path.cwd())


def make_config(fields: dict[str, Any]) -> RunConfig:
    """A configuration from plain values; InvalidInput names the first wrong field with its path."""
    try:
        return RunConfig(**fields)
    except ValidationError as error:
        raise _explained(error) from error


def _explained(error: ValidationError) -> InvalidInput:
    """Unknown fields first: what they were meant to be is often what is missing."""
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    fault = faults[0]
    where = ".".join(str(part) for part in fault["loc"]) or "config"
    if fault["type"] == "extra_forbidden":
        *outer, name = (str(part) for part in fault["loc"])
        return unknown_name(f"field of {'.'.join(outer) or 'the configuration'}", name, _fields_at(tuple(outer)))
    if fault["type"] == "missing":
        return InvalidInput(where, "nothing", "a value", RunConfig.model_fields[where].description or "")
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        return cause
    names = tuple(part for part in fault["loc"] if isinstance(part, str))
    field = _fields_at(names[:-1]).get(names[-1]) if names else None
    if field is not None and fault["type"] == "model_type":
        return InvalidInput(where, fault["input"], f"a table: [{where}] and its fields on lines below", "")
    return InvalidInput(where, fault["input"], in_words(fault["msg"], field.description if field else None))


def _fields_at(path: tuple[str, ...]) -> dict[str, FieldInfo]:
    kind: type[BaseModel] = RunConfig
    for name in path:
        found = kind.model_fields[name].annotation if name in kind.model_fields else None
        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            return {}
        kind = found
    return dict(kind.model_fields)


def require_safe(network: NetworkSection) -> None:
    """Plain sockets on loopback and ipc only; anything else needs keys, or --insecure."""
    if network.secret_key is None and not network.insecure and not is_local(network.endpoint):
        raise InvalidInput(
            "network.endpoint", network.endpoint, "an address on this machine where no keys are used",
            "Make keys (`fedap-coordinator keygen`) and set network.secret_key, or accept the risk with --insecure.",
        )  # fmt: skip


def endless(seconds: float | None) -> float:
    """None in a file is «never»."""
    return math.inf if seconds is None else seconds
