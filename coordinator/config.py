"""The configuration of one run: the fields of run.toml, validated.

Every field has a description. An unknown field is refused with the nearest known name, so that a misspelt one is never
ignored. This module also decides which addresses may be bound without keys, before a socket exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

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
from fedap_core.errors import InvalidInput
from fedap_core.splits import VALIDATION_SHARE
from protocol.encodings import ENCODING_HELP, Encoding
from protocol.endpoints import is_local
from protocol.host import settings
from protocol.plan import RESERVED_RUNS


class RunConfig(BaseModel):
    """One run of one federation. Paths are relative to the configuration file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", description="Name of the run: a-z, 0-9 and -.", examples=["liver"]
    )
    folder: Path = Field(
        description="Folder of the run: journal, blobs, results. A restart resumes from it.", examples=["liver"]
    )
    initial: Path = Field(
        description="The initial model file, created by `fedap-participant init`.", examples=["initial.safetensors"]
    )
    rounds: int = Field(default=100, ge=1, le=1_000_000, description="Rounds that each participant trains.")
    seed: int = Field(default=0, ge=0, lt=2**63, description="Seed of all random numbers of the run.")
    mode: Literal["barrier", "continuous"] = Field(
        default="barrier",
        description="Whether rounds wait for all members (barrier), or each continues at once (continuous).",
    )
    split: Literal["paper", "reference"] = Field(
        default="paper",
        description="How participants split their data: half training, half test (paper), or 40/30/30 with"
        " validation (reference).",
    )
    validation: float = Field(
        default=VALIDATION_SHARE,
        ge=0.0,
        le=0.5,
        description="Fraction of the training samples that participants hold back to choose between models; 0: none.",
    )
    start_from: Literal["initial", "anchor"] = Field(default="initial", description="The model of the first round.")
    evaluate_every: int = Field(
        default=1, ge=1, description="Rounds between evaluations; the last ten rounds are always evaluated."
    )
    participation: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="Fraction of the members, drawn at random, that take part in each round.",
    )
    choose_from: Literal["members", "present"] = Field(
        default="members", description="Draw from all members, or from those present when the round begins."
    )
    encoding: Encoding = Field(default="f32", description=ENCODING_HELP)
    sealed: bool = Field(
        default=False, description="Hide updates from the coordinator: members pad them with a common key."
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
        default=(), description="Observers of the run: package.module:factory, or a built-in name."
    )
    track: tuple[str, ...] = Field(
        default=(), description="Experiment trackers that the run is logged to: mlflow:URI or tensorboard:FOLDER."
    )
    log_file: Path | None = Field(
        default=None, description="Log to this file instead of stderr; rotated at 10 MB.", examples=["coordinator.log"]
    )
    storage: StorageSection = Field(default_factory=StorageSection, description="The disk.")
    page: PageSection = Field(default_factory=PageSection, description="The web page.")

    @property
    def seals_scores(self) -> bool:
        """Whether losses and scores are hidden from the coordinator."""
        return self.sealed and self.sealing.scores == "sealed"

    @model_validator(mode="before")
    @classmethod
    def _without_comparing(cls, fields: object) -> object:
        """Default to no robust rule in a sealed run, because values cannot be compared; naming one is refused later."""
        if not isinstance(fields, dict) or fields.get("sealed") is not True:
            return fields
        algorithm = fields.get("algorithm", {})
        return {**fields, "algorithm": {"robust": "none", **algorithm}} if isinstance(algorithm, dict) else fields

    @field_validator("run")
    @classmethod
    def _not_reserved(cls, run: str) -> str:
        if run in RESERVED_RUNS:
            raise InvalidInput("run", run, "another name", "Participants store a file of this name next to their runs.")
        return run


def read_config(path: Path) -> RunConfig:
    """Read the configuration in a TOML file and make its paths absolute."""
    return overlaid(path, {})


def overlaid(file: Path | None, given: Mapping[str, object]) -> RunConfig:
    """Return the file's configuration with values overridden: «section.field» -> value, paths from the current
    folder."""
    fields = settings.placed(RunConfig, settings.read_toml(file), file.absolute().parent) if file is not None else {}
    if names := given.get("members.names"):
        given = {"members.at_least": len(names) if isinstance(names, Sized) else 1, **given}
    return make_config(settings.placed(RunConfig, settings.overlaid(fields, given), Path.cwd()))


def make_config(fields: dict[str, Any]) -> RunConfig:
    """Build a configuration from plain values; InvalidInput names the first wrong field with its path."""
    try:
        return RunConfig(**fields)
    except ValidationError as error:
        raise settings.explained(error, RunConfig) from error


def require_safe(network: NetworkSection) -> None:
    """Require keys (or --insecure) except on loopback and ipc."""
    if network.secret_key is None and not network.insecure and not is_local(network.endpoint):
        raise InvalidInput(
            "network.endpoint", network.endpoint, "an address on this machine, because no keys are used",
            "Create keys (`fedap-coordinator keygen`) and set network.secret_key, or accept the risk with --insecure.",
        )  # fmt: skip


def endless(seconds: float | None) -> float:
    """Return infinity for None, which means «never» in a file."""
    return math.inf if seconds is None else seconds
