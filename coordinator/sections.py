"""The sections of a run's configuration: every field with its description. Defaults come from `rules`.

Checks within one section are here; checks across sections are in `config` and `run_plan`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_serializer, model_validator

from coordinator.decisions.rules import AdmissionRules, MemberRules, PaceRules
from fedap_core.errors import InvalidInput, unknown_name
from fedap_core.similarity import MIN_SIMILARITY
from fedap_core.strategies import make_strategy
from protocol.contracts import Record
from protocol.endpoints import port_number
from protocol.errors import InvalidField
from protocol.host.web.address import PageAddress
from protocol.limits import IN_FLIGHT_BYTES, MIB
from protocol.plan import MAX_PEER_WEIGHT, PEER_NAME, PEER_NAME_IN_WORDS, USER_RECIPE, Compute, Sgd


class Section(BaseModel):
    """Base class of sections: frozen, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class AlgorithmSection(Section):
    """What is learnt from whom."""

    name: str = Field(default="fedap", description="fedap, d-fedap, f-fedap, fedavg, fedprox, fedper, fedbn, base, …")
    options: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Settings of the algorithm, such as self_weight."
    )

    robust: Literal["none", "limit", "median", "trimmed-mean"] = Field(
        default="limit",
        description="How to limit one member's influence on the others' models: limit scales outliers back and caps"
        " every share; median and trimmed-mean replace the average, value by value; none disables it.",
    )

    min_similarity: float = Field(
        default=MIN_SIMILARITY,
        ge=0.0,
        le=1.0,
        description="FedAP and its variants: a member whose similarity to all others is below this limit keeps its own"
        " model, and the others get nothing from it. 0: off.",
    )

    @field_validator("options")
    @classmethod
    def _known(cls, options: dict[str, str | int | float | bool], info: object) -> dict[str, str | int | float | bool]:
        name = getattr(info, "data", {}).get("name")
        if isinstance(name, str):
            make_strategy(name, options)
        return options


class AnchorSection(Section):
    """Where the model under which statistics are measured comes from; with neither, it is the initial model."""

    file: Path | None = Field(
        default=None, description="A model file with the layout of the initial one.", examples=["anchor.safetensors"]
    )
    warmup_rounds: int = Field(
        default=0,
        ge=0,
        description="Rounds of plain averaging at the start that produce the anchor; they count towards `rounds`.",
    )


R = TypeVar("R", bound=Record)


def take_record(
    kind: type[R], table: dict[str, object], *, prefix: str = "", defaults: Mapping[str, object] | None = None
) -> R:
    """Take a record's fields out of a flat table. Missing fields come from `defaults` or the record itself."""
    standard = kind()
    own = {**(defaults or {}), **{name: table.pop(name) for name, _ in kind.CONTRACTS if name in table}}
    # TOML and Python write whole numbers without a decimal point; float fields of a plan need a float.
    floats = {name for name, value in own.items() if type(value) is int and isinstance(getattr(standard, name), float)}
    try:
        return kind(**own | {name: float(own[name]) for name in floats})  # type: ignore[arg-type]
    except InvalidField as error:
        raise InvalidInput(prefix + error.field, error.got, error.expected) from error


USER_TRAINING = take_record(Sgd, {}, defaults=USER_RECIPE)


class TrainingSection(Section):
    """Local training. In a file it is one flat table, whose fields are those of the plan's records."""

    sgd: Sgd = Field(default=USER_TRAINING, description="Stochastic gradient descent, the same for everybody.")
    compute: Compute = Field(default_factory=Compute, description="How a participant computes.")

    @model_validator(mode="before")
    @classmethod
    def _by_record(cls, table: object) -> object:
        if not isinstance(table, dict):
            return table
        rest = dict(table)
        records = {
            "sgd": take_record(Sgd, rest, prefix="training.", defaults=USER_RECIPE),
            "compute": take_record(Compute, rest, prefix="training."),
        }
        if rest:
            known = [name for kind in (Sgd, Compute) for name, _ in kind.CONTRACTS]
            raise unknown_name("field of training", str(next(iter(rest))), known)
        return records

    @model_serializer
    def _as_in_a_file(self) -> dict[str, object]:
        return {**self.sgd.write([]), **self.compute.write([])}


class MembersSection(Section):
    """Who takes part. With `keys` or `names` the list decides; with neither, anybody who can connect."""

    keys: Path | None = Field(
        default=None,
        description="File with a line «name public-key» per member, or folder of files NAME.pub; read again if edited.",
        examples=["members"],
    )
    names: tuple[str, ...] = Field(
        default=(), description="Names of the members if no keys are used (this machine only)."
    )
    at_least: int = Field(default=2, ge=1, description="Members needed for the first round.")
    at_most: int = Field(default=MemberRules.at_most, ge=1, description="Maximum number of members.")
    enrolment_s: float | None = Field(
        default=None,
        ge=0.0,
        description="Start after this many seconds if `at_least` members are present; none: wait for the whole list.",
        examples=[600.0],
    )
    late_join: bool = Field(default=MemberRules.late_join, description="Whether new members may join after the start.")
    min_samples: int = Field(
        default=MemberRules.min_samples, ge=1, description="Minimum number of training samples of a member."
    )
    max_samples: int = Field(
        default=MemberRules.max_samples,
        ge=1,
        description="Maximum number of training samples of a member; samples determine the weight of its updates.",
    )
    max_growth: float = Field(
        default=MemberRules.max_growth,
        ge=1.0,
        description="Factor by which a member's number of samples may change after it joined.",
    )
    strikes: int = Field(
        default=MemberRules.strikes, ge=1, description="Refused messages after which a member is excluded."
    )
    forgive_after: int = Field(
        default=MemberRules.forgive_after,
        ge=1,
        description="Admitted updates in a row that cancel one refused message.",
    )

    @field_validator("names")
    @classmethod
    def _names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not re.fullmatch(PEER_NAME, name):
                raise InvalidInput("members.names", name, PEER_NAME_IN_WORDS)
        return names


class AdmissionSection(Section):
    """Which values may be mixed: bounds that hold from the first round and for any number of members."""

    max_value: float = Field(default=AdmissionRules.max_value, gt=0.0, description="Largest magnitude of a weight.")
    max_statistic: float = Field(
        default=AdmissionRules.max_statistic,
        gt=0.0,
        description="Largest mean and standard deviation of a layer's inputs, also for running statistics.",
    )
    max_step: float | None = Field(
        default=None,
        gt=0.0,
        description="Largest step of one update, in norms of the initial model; none: ten times what"
        " `init --measure-step` noted in the initial model file, else 10.",
        examples=[10.0],
    )
    max_outlier: float = Field(
        default=AdmissionRules.max_outlier,
        gt=1.0,
        description="Largest step of one update, relative to the typical step of the run (the largest median of"
        " a round so far; from three members).",
    )


class SealingSection(Section):
    """What a sealed run (`sealed = true`) hides from the coordinator."""

    group_key: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{32}$",
        description="Fingerprint of the members' common key, as `fedap-participant group-key` prints it.",
        examples=["00112233445566778899aabbccddeeff"],
    )
    statistics_to: Literal["members", "coordinator"] = Field(
        default="members",
        description="Who sees statistics and sample counts: only the members, or the coordinator as in other runs.",
    )
    max_peer_weight: float = Field(
        default=MAX_PEER_WEIGHT,
        gt=0.0,
        le=1.0,
        description="Largest weight of one member in another's model; higher if there are few members.",
    )
    scores: Literal["clear", "sealed"] = Field(
        default="clear", description="Whether the coordinator sees losses and scores."
    )


class PaceSection(Section):
    """When something is late, and what is done about it."""

    heartbeat_s: float = Field(
        default=PaceRules.heartbeat_s, gt=0.0, description="Longest pause between two messages from either side."
    )
    dead_after_s: float = Field(
        default=PaceRules.dead_after_s, gt=0.0, description="Silence after which rounds no longer wait for a member."
    )
    quorum: int = Field(
        default=PaceRules.quorum, ge=1, description="Updates that a round needs to close if members are missing."
    )
    deadline_s: float | None = Field(
        default=None,
        ge=0.0,
        description="How long a round waits for connected members; none: until `stalled_after_s`.",
        examples=[3600.0],
    )
    stalled_after_s: float = Field(
        default=86_400.0,
        gt=0.0,
        description="Without a deadline: a connected member that has not reported for this long is left out until it"
        " does; the end of the run waits no longer for its goodbye. inf: never.",
    )
    give_up_s: float | None = Field(
        default=None,
        ge=0.0,
        description="End the run if a round lacks its quorum for this long after its deadline, or enrolment after"
        " `enrolment_s`; none: never.",
        examples=[86_400.0],
    )
    linger_s: float = Field(
        default=PaceRules.linger_s, ge=0.0, description="How long the end of the run waits for absent members."
    )
    late_updates: Literal["discount", "drop"] = Field(
        default="discount",
        description="Whether the last update of an absent member still counts, discounted by its age, or is dropped.",
    )
    age_exponent: float = Field(
        default=PaceRules.age_exponent, ge=0.0, description="a in (1 + age) ** -a, the discount of an old update."
    )
    patience: int | None = Field(
        default=PaceRules.patience,
        ge=1,
        description="End the run after this many evaluations without a better validation accuracy.",
    )


class NetworkSection(Section):
    """The socket."""

    endpoint: str = Field(
        default="tcp://127.0.0.1:*",
        pattern=r"^(tcp|ipc)://.+",
        description="Address to listen on: tcp://address:port (*: any free port; tcp://[::]:port: IPv6 and IPv4) or"
        " ipc://path.",
    )
    secret_key: Path | None = Field(
        default=None,
        description="Key file from `fedap-coordinator keygen`; enables CURVE.",
        examples=["coordinator.key"],
    )
    insecure: bool = Field(
        default=False, description="Listen without keys on an address that other machines can reach."
    )
    in_flight_bytes: int = Field(
        default=IN_FLIGHT_BYTES,
        ge=4 * MIB,
        description="Limit on the bytes of all transfers in flight, in each direction.",
    )
    messages_per_s: float = Field(default=500.0, gt=0.0, description="Messages per second allowed from one peer.")

    @field_validator("endpoint")
    @classmethod
    def _bindable(cls, endpoint: str) -> str:
        """Check the port: for 70000, ZeroMQ would bind port 4464 without an error."""
        port = endpoint.rpartition(":")[2]
        if endpoint.startswith("tcp://") and port != "*" and port_number(port) is None:
            raise InvalidInput("network.endpoint", endpoint, "tcp://address:port, the port from 1 to 65535 or *")
        return endpoint


class PageSection(Section):
    """The web page of `serve --page`, in a process of its own."""

    listen: str | None = Field(
        default=None,
        description="HOST:PORT of the web page, for example 127.0.0.1:8600; none: no page.",
        examples=["127.0.0.1:8600"],
    )
    token: Path | None = Field(
        default=None,
        description="File with the access token of the page; created if missing. Required if other machines can"
        " reach the page.",
        examples=["page.token"],
    )
    hosts: tuple[str, ...] = Field(
        default=(), description="Additional host names of the page, such as that of a proxy."
    )
    certificate: Path | None = Field(
        default=None, description="PEM file with certificate and key; enables TLS for the page.", examples=["page.pem"]
    )

    def address(self) -> PageAddress | None:
        """Return the checked address of the page; None: no page."""
        if self.listen is None:
            return None
        return PageAddress(listen=self.listen, token=self.token, hosts=self.hosts, certificate=self.certificate)


class StorageSection(Section):
    """The disk."""

    reserve_bytes: int = Field(default=256 * MIB, ge=0, description="Free disk space to keep; below it the run pauses.")
