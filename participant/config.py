"""The settings of a participant: from a TOML file, from options of the command, or both (options override the file).

Settings of the machine, connections and timeouts are here; what determines the numbers of a run comes with its plan.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedap_core.errors import InvalidInput
from fedap_core.splits import VALIDATION_SHARE
from participant.data import SOURCES
from participant.decisions.allowance import SHARED_TABLES, Allowance, parse_allowance
from participant.decisions.reconnection import Timeouts
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy
from participant.wire.keys import read_keys
from participant.wire.line import Address
from protocol.host import settings
from protocol.host.web.address import PageAddress
from protocol.keys import is_key
from protocol.plan import PEER_NAME

Seconds = Annotated[float, Field(gt=0.0)]


class DataSettings(BaseModel):
    """Where the samples are, and how to read and split them before a plan is known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = Field(
        description="A known data set, a path (.npz, .csv, folder) or package.module:factory.",
        examples=["north.npz"],
    )
    data_options: dict[str, str] = Field(default={}, description="Options of the data source.")
    data_root: Path | None = Field(default=None, description="Folder of the data files; default: FEDAP_DATA.")
    model_file: Path | None = Field(
        default=None, description="The federation's initial model file.", examples=["initial.safetensors"]
    )
    model: str | None = Field(
        default=None,
        description="Name of the model, instead of a file; the initial weights then come from the coordinator.",
    )
    name: str = Field(
        pattern=f"^{PEER_NAME}$",
        description="Name of the participant: up to 64 letters, digits, dots, _ and -.",
        examples=["north"],
    )
    split: Literal["paper", "reference"] = Field(default="paper", description="Split assumed in the first hello.")
    validation: float = Field(
        default=VALIDATION_SHARE,
        ge=0.0,
        le=0.5,
        description="Fraction of the training samples held back to choose between models, assumed in the first hello.",
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="Seed of the split assumed in the first hello.")
    share: tuple[Literal["class_counts", "comparison"], ...] = Field(
        default=(),
        description="Also send class_counts (class counts and confusion matrices) or comparison (scores of the model"
        " trained alone).",
    )

    @property
    def shares_comparison(self) -> bool:
        """Whether the coordinator may receive the scores of the model trained alone."""
        return "comparison" in self.share

    @property
    def shares_class_counts(self) -> bool:
        """Whether class counts and confusion matrices may be sent."""
        return SHARED_TABLES in self.share


class JoinSettings(DataSettings):
    """All settings of `fedap-participant join`."""

    coordinator: str = Field(description="tcp://host:port or ipc://path.", examples=["tcp://coordinator.example:5555"])
    keys: Path | None = Field(
        default=None, description="Your secret key file, from keygen.", examples=["keys/north.key"]
    )
    coordinator_key: str | None = Field(
        default=None,
        description="The coordinator's public key: the file coordinator.pub, or the 40 characters.",
        examples=["coordinator.pub"],
    )
    group_key: Path | None = Field(
        default=None, description="The members' common key, from group-key; only sealed runs are then accepted."
    )
    statistics_to: Literal["members", "coordinator"] = Field(
        default="members", description="Who may see statistics and sample counts in a sealed run."
    )
    anchor_file: Path | None = Field(
        default=None, description="Your own copy of the anchor, to verify the coordinator's."
    )
    insecure: bool = Field(default=False, description="Connect to another machine without keys.")
    state: Path = Field(
        default=Path("fedap-state"), description="Folder for the participant's state; a restart resumes from it."
    )
    threads: Literal["plan", "auto"] = Field(
        default="plan",
        description="plan: as the plan says; auto: all cores of this machine, results are then not reproducible"
        " bit for bit.",
    )
    evaluate_beside: bool = Field(
        default=True,
        description="Evaluate in parallel with training if a core is free, instead of before training; results"
        " are identical.",
    )
    also_local: bool = Field(
        default=True,
        description="Also train a model on local data only, for comparison and to keep the better one.",
    )
    page: str | None = Field(
        default=None,
        description="HOST:PORT of the participant's web page, for example 127.0.0.1:8601; none: no page.",
        examples=["127.0.0.1:8601"],
    )
    page_token: Path | None = Field(
        default=None,
        description="File with the access token of the page; created if missing.",
        examples=["page.token"],
    )
    page_hosts: tuple[str, ...] = Field(default=(), description="Host names under which a proxy serves the page.")
    page_certificate: Path | None = Field(
        default=None, description="PEM file with certificate and key; enables TLS for the page.", examples=["page.pem"]
    )
    reconnect_s: Seconds = Field(default=0.5, description="First pause before reconnecting; it doubles each time.")
    reconnect_cap_s: Seconds = Field(default=30.0, description="Longest pause before reconnecting.")
    answer_s: Seconds = Field(default=5.0, description="Seconds after which an unanswered hello is sent again.")
    silence_beats: Seconds = Field(
        default=4.0,
        description="Missed heartbeats after which the connection counts as dead; doubles, up to eightfold, while"
        " connections are lost this way before they deliver anything.",
    )
    farewell_s: Seconds = Field(
        default=10.0, description="How long the last message is repeated if it is not acknowledged."
    )
    give_up_s: Seconds | None = Field(
        default=None, description="Exit after this many seconds without a coordinator; none: never."
    )
    algorithm: str | None = Field(default=None, description="The only algorithm to accept; default: any built-in one.")
    allow: tuple[str, ...] = Field(
        default=(), description="Bounds on the plan, such as rounds<=200; they replace the built-in ones."
    )
    trust_code: tuple[str, ...] = Field(
        default=(), description="package.module:name of your own code that a plan may use; nothing else is imported."
    )
    outgoing_steps: tuple[str, ...] = Field(
        default=(),
        description="package.module:function of your own steps that change every tensor before it is sent, in order.",
    )
    log_file: Path | None = Field(
        default=None, description="Log to this file instead of stderr; rotated at 10 MB.", examples=["participant.log"]
    )
    accept_plan: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{16}$",
        description="Digest of a changed plan that you accept: 16 hex digits.",
        examples=["0123456789abcdef"],
    )

    statistics_privacy: StatisticsPrivacy = StatisticsPrivacy()
    update_privacy: UpdatePrivacy = UpdatePrivacy()

    @property
    def private_statistics(self) -> StatisticsPrivacy | None:
        """The privacy budget of layer statistics; None: they are sent without noise."""
        return None if self.statistics_privacy.epsilon is None else self.statistics_privacy

    @property
    def private_updates(self) -> UpdatePrivacy | None:
        """The privacy budget of updates; None: they are sent without noise."""
        return None if self.update_privacy.epsilon is None else self.update_privacy

    def timeouts(self) -> Timeouts:
        return Timeouts(
            reconnect_s=self.reconnect_s,
            reconnect_cap_s=self.reconnect_cap_s,
            answer_s=self.answer_s,
            silence_beats=self.silence_beats,
            farewell_s=self.farewell_s,
            give_up_s=self.give_up_s,
        )

    @property
    def trusted(self) -> frozenset[str]:
        """Names of the user's own code that a plan may use, including an algorithm set by `--algorithm`."""
        own = {self.algorithm} if self.algorithm is not None and ":" in self.algorithm else set()
        return frozenset(own.union(self.trust_code))

    def allowance(self) -> Allowance:
        """Return the bounds on what a plan may ask for."""
        for name in self.trusted:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*", name):
                raise InvalidInput("trust_code", name, "package.module:name")
        cores = len(os.sched_getaffinity(0))
        return parse_allowance(self.allow, cores=cores, algorithm=self.algorithm, trusted=sorted(self.trusted))

    @property
    def shares_class_counts(self) -> bool:
        return super().shares_class_counts or self.allowance().shares_class_counts

    def address(self) -> Address:
        """Return where to connect, with the keys read and checked."""
        if (self.keys is None) != (self.coordinator_key is None):
            raise InvalidInput("keys", "one of the two", "both --keys and --coordinator-key, or neither")
        keys = None
        if self.keys is not None and self.coordinator_key is not None:
            keys = read_keys(self.keys, self.coordinator_key)
        return Address(endpoint=self.coordinator, keys=keys, insecure=self.insecure)

    def page_address(self) -> PageAddress | None:
        """Return the checked address of the web page; None without a page."""
        if self.page is None:
            return None
        return PageAddress(
            listen=self.page, token=self.page_token, hosts=self.page_hosts, certificate=self.page_certificate
        )


def read_settings(config: Path | None, given: Mapping[str, object]) -> JoinSettings:
    """Read a file's settings, overridden by the given options; an option of None is not given. Paths in the file are
    relative to the file, paths in options to the current folder."""
    fields: dict[str, object] = {}
    if config is not None:
        base = config.absolute().parent
        fields = settings.placed(JoinSettings, settings.read_toml(config), base)
        for name in _MAYBE_PATHS:
            value = fields.get(name)
            if isinstance(value, str) and _is_path(value, base):
                fields[name] = str(base / Path(value).expanduser())
    fields = settings.overlaid(fields, {path: value for path, value in given.items() if value is not None})
    try:
        return JoinSettings.model_validate(fields)
    except ValidationError as error:
        raise settings.explained(error, JoinSettings) from error


_MAYBE_PATHS = ("data", "coordinator_key")
"""Settings that may be a path or something else."""


def _is_path(value: str, base: Path) -> bool:
    """Whether a value is a file path rather than a known name, a key or code."""
    if value in SOURCES or is_key(value):
        return False
    return (base / Path(value).expanduser()).exists() or Path(value).suffix in (".npz", ".csv", ".pub")
