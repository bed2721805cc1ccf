"""Claims about the files for Prometheus and Grafana: every metric and label that they name exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from coordinator.page.metrics import RunMetrics
from coordinator.watching.following import RunFollower
from tests.architecture.sources import ROOT
from tests.unit.coordinator.test_following import ONE_ROUND, STARTED, write_run
from tests.unit.coordinator.test_page import SCORED

FOLDER = ROOT / "examples" / "monitoring"


def dashboard() -> list[str]:
    """Every query of the dashboard."""
    found = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in found["panels"] for target in panel["targets"]]
    return queries + [one["query"]["query"] for one in found["templating"]["list"] if one["type"] == "query"]


def alerts() -> list[dict[str, str]]:
    found = yaml.safe_load((FOLDER / "alerts.yml").read_text())
    return [rule for group in found["groups"] for rule in group["rules"]]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("runs") / "run"
    write_run(folder, [*STARTED, *ONE_ROUND, *SCORED])
    (folder / "lock").touch()
    return RunMetrics(RunFollower(folder).refresh).text().decode()


@pytest.mark.parametrize("query", [*dashboard(), *(rule["expr"] for rule in alerts())])
def test_every_metric_and_label_of_a_query_is_exposed(exposed: str, query: str) -> None:
    samples = dict(re.findall(r"^(fedap_\w+)\{([^}]*)\}", exposed, re.MULTILINE))
    names = re.findall(r"\bfedap_\w+", query)
    assert names
    assert [name for name in names if name not in samples] == []
    for name, labels in re.findall(r"(fedap_\w+)\{([^}]*)\}", query):
        assert set(re.findall(r"(\w+)=", labels)) <= set(re.findall(r"(\w+)=", samples[name]))


def test_there_is_an_alert_for_what_an_operator_must_not_miss() -> None:
    named = {rule["alert"].removeprefix("Fedap") for rule in alerts()}
    assert named >= {"MemberSilent", "RoundLate", "DiskLow", "MemberExcluded", "AccuracyFalling", "CoordinatorDown"}


def test_every_metric_has_a_meaning(exposed: str) -> None:
    helps = dict(re.findall(r"^# HELP (\w+) (.+)$", exposed, re.MULTILINE))
    families = set(re.findall(r"^# TYPE (\w+)", exposed, re.MULTILINE))
    assert set(helps) == families
    assert all(text.endswith(".") for text in helps.values())


def test_what_is_exposed_is_read_by_prometheus_own_parser(exposed: str) -> None:
    families = {family.name: family for family in text_string_to_metric_families(exposed)}
    assert len(families) >= 10
    assert all(family.samples for family in families.values() if family.name.startswith("fedap_member"))


@pytest.mark.parametrize(
    ("check", "name"), [(("check", "rules"), "alerts.yml"), (("check", "config", "--syntax-only"), "prometheus.yml")]
)
def test_files_pass_the_check_of_prometheus(check: tuple[str, ...], name: str) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([tool, *check, FOLDER / name], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_metrics_pass_the_check_of_prometheus(exposed: str) -> None:
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(
        [tool, "check", "metrics"], input=exposed, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
