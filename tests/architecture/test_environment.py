"""When the scripts make, fill, keep and renew `.venv`. The interpreter is a stand-in that records what it is asked to
install, so that no test needs a network; everything else is the scripts themselves, in a copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

SCRIPTS = ("scripts/demo.sh", "scripts/test.sh", ".ci/run")

STAND_IN = """#!/usr/bin/env bash
inner="$(dirname "$0")/real"
[[ -e "$inner" ]] || inner="$REAL"
case "$1 ${2:-}" in
    "-m venv") "$REAL" -m venv --without-pip "$3" && mv "$3/bin/python" "$3/bin/real" && cp "$0" "$3/bin/python" ;;
    "-m pip") [[ "$3" == --version ]] && exit 0
        echo "$*" >>"$LOG"
        "$inner" -c 'import sys; print(sys.prefix)' >>"$LOG.prefix"
        echo "words of pip"
        [[ ! -e "$LOG.kill" ]] || kill -KILL $PPID
        [[ ! -e "$LOG.fail" ]] || exit 7
        printf '#!/usr/bin/env bash\\necho "lab $*"\\n' >"$(dirname "$0")/fedap-lab"
        chmod +x "$(dirname "$0")/fedap-lab" ;;
    "-m "*) echo "$2 ${*:3}" >>"$LOG"; [[ "$2" != "${FAILING:-}" ]] || { echo "words of $2"; exit 3; } ;;
    *) exec "$inner" "$@" ;;
esac
"""


@dataclass
class ScriptsCopy:
    """A copy of the scripts in a folder of its own, beside a stand-in interpreter."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def call(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        fixed = {"LOG": str(self.log), "REAL": sys.executable, "PYTHON": str(self.folder / "python")}
        kept = {name: value for name, value in os.environ.items() if name != "FEDAP_DATA"}
        kept["PATH"] = f"{self.folder / 'tools'}:{kept['PATH']}"
        command = ["bash", str(self.folder / "repo" / script), *arguments]
        variables = kept | fixed | self.variables
        return subprocess.run(command, cwd="/", env=variables, capture_output=True, text=True, check=False, timeout=60)

    def logged(self) -> list[str]:
        """What was asked of the interpreter since the last look."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines

    def installs(self) -> list[str]:
        """What pip was asked to install since the last look, from the repository on."""
        return [line.rpartition("/")[2] for line in self.logged() if "pip install" in line]


@pytest.fixture
def desk(tmp_path: Path) -> ScriptsCopy:
    for script in (*SCRIPTS, "scripts/venv.sh", "scripts/browser.sh", "pyproject.toml"):
        copy = tmp_path / "repo" / script
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / script, copy)
    (tmp_path / "python").write_text(STAND_IN)
    (tmp_path / "python").chmod(0o755)
    put_tool(tmp_path / "tools", "chromium", "exit 0")
    return ScriptsCopy(folder=tmp_path)


def put_tool(folder: Path, name: str, does: str) -> None:
    """A program of our own on the PATH: no test installs anything on the machine."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/usr/bin/env bash\n{does}\n")
    (folder / name).chmod(0o755)


def test_first_demo_installs_and_the_second_only_runs(desk: ScriptsCopy) -> None:
    first = desk.call("scripts/demo.sh", "--rounds", "3 4")
    assert (first.returncode, first.stdout, desk.installs()) == (0, "lab demo --rounds 3 4\n", ["repo[all]"])
    assert all(line.startswith("fedap: ") for line in first.stderr.splitlines())
    second = desk.call("scripts/demo.sh")
    assert (second.returncode, second.stdout, second.stderr, desk.logged()) == (0, "lab demo\n", "", [])


def test_test_run_after_a_demo_adds_the_extra_and_the_demo_stays_quick(desk: ScriptsCopy) -> None:
    desk.call("scripts/demo.sh")
    desk.installs()
    done = desk.call("scripts/test.sh")
    assert (done.returncode, desk.installs()) == (0, ["repo[all,test]"])
    assert "what the test extra adds" in done.stderr
    desk.call("scripts/demo.sh")
    assert desk.installs() == []


def test_changed_build_file_installs_again_with_the_extras_that_were_in(desk: ScriptsCopy) -> None:
    desk.call("scripts/test.sh")
    desk.installs()
    with (desk.folder / "repo/pyproject.toml").open("a") as build:
        build.write("# another\n")
    desk.call("scripts/demo.sh")
    assert desk.installs() == ["repo[test]"]


def test_failed_install_shows_the_words_of_pip_and_the_next_call_starts_afresh(desk: ScriptsCopy) -> None:
    Path(f"{desk.log}.fail").touch()
    failed = desk.call("scripts/demo.sh")
    assert failed.returncode == 1
    assert "words of pip" in failed.stderr
    (desk.folder / "repo/.venv/half-made").touch()
    Path(f"{desk.log}.fail").unlink()
    assert desk.call("scripts/demo.sh").stdout == "lab demo\n"
    assert not (desk.folder / "repo/.venv/half-made").exists()


def test_extra_that_cannot_be_installed_leaves_the_demo_working(desk: ScriptsCopy) -> None:
    desk.call("scripts/demo.sh")
    Path(f"{desk.log}.fail").touch()
    assert desk.call("scripts/test.sh").returncode == 1
    desk.installs()
    assert desk.call("scripts/demo.sh").stdout == "lab demo\n"
    assert desk.installs() == []


def test_install_killed_half_way_is_repeated(desk: ScriptsCopy) -> None:
    desk.call("scripts/demo.sh")
    Path(f"{desk.log}.kill").touch()
    assert desk.call("scripts/test.sh").returncode == -9
    Path(f"{desk.log}.kill").unlink()
    again = desk.call("scripts/demo.sh")
    assert "cut short" in again.stderr
    assert again.stdout == "lab demo\n"


def test_pip_never_works_outside_the_environment_even_when_its_configuration_was_lost(desk: ScriptsCopy) -> None:
    """Without pyvenv.cfg, which a clearing cut short can leave, bin/python is the interpreter of the whole machine."""
    desk.call("scripts/demo.sh")
    (desk.folder / "repo/.venv/pyvenv.cfg").unlink()
    (desk.folder / "repo/.venv/.fedap-stamp").unlink()
    again = desk.call("scripts/demo.sh")
    assert "not whole" in again.stderr
    assert again.stdout == "lab demo\n"
    assert set(Path(f"{desk.log}.prefix").read_text().split()) == {str(desk.folder / "repo/.venv")}


def test_environment_whose_interpreter_has_gone_is_created_again(desk: ScriptsCopy) -> None:
    desk.call("scripts/demo.sh")
    (desk.folder / "repo/.venv/bin/python").unlink()
    again = desk.call("scripts/demo.sh")
    assert "anew" in again.stderr
    assert again.stdout == "lab demo\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [("echo 'is Python 3.9, and 3.11 or newer is needed'", "3.11 or newer"), ("exit 1", "does not run")],
)
def test_interpreter_that_will_not_do_is_refused_with_the_reason_and_no_folder(
    desk: ScriptsCopy, answer: str, said: str
) -> None:
    (desk.folder / "python").write_text(f"#!/usr/bin/env bash\n{answer}\n")
    done = desk.call("scripts/demo.sh")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert said in done.stderr
    assert not (desk.folder / "repo/.venv").exists()


@pytest.mark.parametrize("failing", ["ruff", "mypy", "mkdocs", "pytest"])
def test_failed_check_is_named_and_the_others_still_run(desk: ScriptsCopy, failing: str) -> None:
    desk.variables["FAILING"] = failing
    done = desk.call(".ci/run")
    assert done.returncode == 1
    assert f"words of {failing}" in done.stdout + done.stderr
    assert f"failed: {failing}" in done.stderr
    first, second, *others = (line.split()[0] for line in desk.logged()[1:])
    assert (first, second, sorted(others)) == ("ruff", "ruff", ["mkdocs", "mypy", "pytest"])  # the last three at once


def test_slow_becomes_a_mark_and_other_arguments_reach_pytest(desk: ScriptsCopy) -> None:
    assert desk.call("scripts/test.sh", "--slow", "-k", "one two").returncode == 0
    *checks, tests = desk.logged()[1:]
    assert [line.split()[0] for line in checks] == ["ruff", "ruff", "mypy", "mkdocs"], "nothing runs beside slow tests"
    assert tests.endswith("-m slow -n 0 -k one two")


def test_words_of_a_check_beside_the_tests_come_behind_theirs(desk: ScriptsCopy) -> None:
    desk.variables["FAILING"] = "mypy"
    done = desk.call("scripts/test.sh")
    said = done.stderr.splitlines()
    assert said.index("fedap: pytest") < said.index("fedap: mypy failed:") < said.index("words of mypy")
    assert said[-1] == "fedap: failed: mypy"


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_can_be_executed(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
