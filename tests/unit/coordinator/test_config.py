"""Claims about run.toml: every field known or refused, paths relative to the file, no open socket by accident."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from coordinator.config import RunConfig, make_config, overlaid, read_config, require_safe
from coordinator.run_plan import make_plan, make_rules, plan_text, require_same_plan
from coordinator.sections import NetworkSection
from fedap_core.errors import InvalidInput
from fedap_core.strategies import make_strategy
from protocol.endpoints import is_local
from protocol.messages import Plan
from protocol.plan import PAPER_RECIPE
from tests.support.tiny_models import tiny_model

MINIMAL: dict[str, Any] = {"run": "r", "folder": "out", "initial": "i.safetensors"}


def described(kind: Any, path: str = "") -> list[str]:  # noqa: ANN401 - walks classes of settings
    """Fields without a description."""
    missing = []
    for name, field in kind.model_fields.items():
        if not field.description:
            missing.append(f"{path}{name}")
        if hasattr(field.annotation, "model_fields"):
            missing += described(field.annotation, f"{path}{name}.")
    return missing


def test_every_field_says_what_it_means() -> None:
    assert described(RunConfig) == []


def test_three_fields_are_enough() -> None:
    config = make_config(MINIMAL)
    assert (config.algorithm.name, config.rounds, config.network.endpoint) == ("fedap", 100, "tcp://127.0.0.1:*")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    text = 'run = "r"\nfolder = "out"\ninitial = "/abs/i.safetensors"\n'
    text += '[network]\nsecret_key = "k"\n[members]\nkeys = "m"\n'
    (tmp_path / "run.toml").write_text(text)
    config = read_config(tmp_path / "run.toml")
    assert config.folder == tmp_path / "out"
    assert config.initial == Path("/abs/i.safetensors")
    assert (config.network.secret_key, config.members.keys) == (tmp_path / "k", tmp_path / "m")


@pytest.mark.parametrize("field", ["folder", "network.secret_key"])
def test_a_path_that_is_not_utf8_is_refused(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: got .*expected a path in UTF-8"):
        overlaid(None, {**MINIMAL, field: Path(os.fsdecode(b"na\xffme"))})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"round": 3}, r"field of the configuration: got round, .* Did you mean 'rounds'\?"),
        ({"pace": {"quorom": 3}}, r"field of pace: got quorom, .* Did you mean 'quorum'\?"),
        ({"rounds": 0}, "rounds: got 0"),
        ({"run": "No Capitals"}, "run: got No Capitals"),
        ({"mode": "fast"}, "mode: got fast"),
        ({"algorithm": {"name": "fedapp"}}, r"algorithm: got fedapp.*Did you mean"),
        ({"algorithm": {"options": {"self_weigth": 0.5}}}, r"got self_weigth.*Did you mean 'self_weight'"),
        ({"members": {"names": ["../x"]}}, r"members.names: got \.\./x"),
        ({"network": {"endpoint": "udp://x"}}, "network.endpoint"),
        ({"pace": {"deadline_s": float("nan")}}, "pace.deadline_s"),
    ],
)
def test_what_is_wrong_is_named_with_the_way_out(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        make_plan(make_config(MINIMAL | change), tiny_model().spec)


def test_a_missing_field_is_named_with_its_meaning() -> None:
    with pytest.raises(InvalidInput, match=r"folder: got nothing.*Folder of the run"):
        make_config({"run": "r", "initial": "i"})


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("run = ")
    with pytest.raises(InvalidInput, match="a TOML file"):
        read_config(tmp_path / "run.toml")


@pytest.mark.parametrize(
    ("endpoint", "local"),
    [
        ("tcp://127.0.0.1:5555", True),
        ("tcp://[::1]:5555", True),
        ("tcp://localhost:*", True),
        ("ipc:///tmp/x", True),
        ("tcp://0.0.0.0:5555", False),
        ("tcp://*:5555", False),
        ("tcp://10.0.0.5:5555", False),
        ("tcp://127.0.0.1.evil.example:5555", False),
        ("tcp://eth0:5555", False),
    ],
)
def test_only_this_machine_is_reached_without_keys(endpoint: str, local: bool) -> None:
    assert is_local(endpoint) is local
    if local:
        require_safe(NetworkSection(endpoint=endpoint))
    else:
        with pytest.raises(InvalidInput, match="--insecure"):
            require_safe(NetworkSection(endpoint=endpoint))
        require_safe(NetworkSection(endpoint=endpoint, insecure=True))
        require_safe(NetworkSection(endpoint=endpoint, secret_key=Path("k")))


@pytest.mark.parametrize(
    "change",
    [
        {"validation": 0.0, "pace": {"patience": 3}},
        {"start_from": "anchor"},
        {"algorithm": {"name": "fedavg"}, "anchor": {"warmup_rounds": 2}},
        {"anchor": {"warmup_rounds": 2, "file": "a.safetensors"}},
        {"members": {"keys": "m"}},
        {"members": {"names": ["a", "b"]}, "network": {"secret_key": "k"}},
        {"pace": {"heartbeat_s": 30.0, "dead_after_s": 40.0}},
    ],
)
def test_settings_that_contradict_each_other_are_refused(change: dict[str, Any]) -> None:
    config, spec = make_config(MINIMAL | change), tiny_model().spec
    with pytest.raises(InvalidInput):  # noqa: PT012 - either of the two may refuse
        make_plan(config, spec)
        make_rules(config, spec, None)


def test_a_run_continues_only_under_the_plan_it_began_with() -> None:
    spec = tiny_model().spec
    before = plan_text(make_plan(make_config(MINIMAL), spec))
    plain = make_strategy("fedap")
    require_same_plan(before, make_plan(make_config(MINIMAL | {"pace": {"quorum": 2}}), spec), plain)
    with pytest.raises(InvalidInput, match=r"^seed: got 5, expected 0, with which this run began"):
        require_same_plan(before, make_plan(make_config(MINIMAL | {"seed": 5}), spec), plain)
    faster = make_config(MINIMAL | {"training": {"learning_rate": 0.5}})
    with pytest.raises(InvalidInput, match=r"^training\.learning_rate: got 0\.5, expected 0\.01, with which"):
        require_same_plan(before, make_plan(faster, spec), plain)


def test_run_may_be_given_more_rounds_where_the_first_ones_stay_what_they_were() -> None:
    """f-FedAP measures half way: with other rounds it would have measured elsewhere. A cosine ends with the run."""
    spec = tiny_model().spec

    def plan(rounds: int, algorithm: str = "fedap", **training: object) -> Plan:
        fields = {"rounds": rounds, "algorithm": {"name": algorithm}, "training": {**PAPER_RECIPE, **training}}
        return make_plan(make_config(MINIMAL | fields), spec)

    before = plan_text(plan(10))
    require_same_plan(before, plan(20), make_strategy("fedap"))
    with pytest.raises(InvalidInput, match="rounds: got 5, expected 10, with which this run began"):
        require_same_plan(before, plan(5), make_strategy("fedap"))
    with pytest.raises(InvalidInput, match="it has ended"):
        require_same_plan(before, plan(20), make_strategy("fedap"), ended=True)
    with pytest.raises(InvalidInput, match="f-fedap divides its rounds into phases"):
        require_same_plan(plan_text(plan(10, "f-fedap")), plan(20, "f-fedap"), make_strategy("f-fedap"))
    cosine = plan_text(plan(10, lr_schedule="cosine"))
    with pytest.raises(InvalidInput, match="learning rate falls"):
        require_same_plan(cosine, plan(20, lr_schedule="cosine"), make_strategy("fedap"))
