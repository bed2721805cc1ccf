"""The checkers themselves: each finds the fault it is for, and passes the nearest thing that is right."""

from __future__ import annotations

import pytest

from tests.architecture import checks
from tests.architecture.imports import direction_faults, imports_of, layer_faults, purity_faults, reachable
from tests.architecture.sources import source_of, text_files
from tests.architecture.words import REGISTRY_HOST, SELF_TALK, forbidden_words


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("protocol/codec.py", "import zmq"),
        ("protocol/codec.py", "from fedap_core import errors"),
        ("fedap_core/mixing.py", "import torch"),
        ("fedap_core/mixing.py", "def f():\n    from torch import nn"),
        ("fedap_core/mixing.py", "import pandas"),
        ("fedap_core/nn/state.py", "import zmq"),
        ("coordinator/decisions/machine.py", "import importlib\nimportlib.import_module('torch.nn')"),
        ("coordinator/decisions/machine.py", "if TYPE_CHECKING:\n    import participant.decisions.machine"),
        ("coordinator/decisions/machine.py", "import zmq"),
        ("coordinator/decisions/machine.py", "def f():\n    from fedap_core import nn"),
        ("fedap_core/strategies/fedprox.py", "from ..nn.objectives import proximal"),
        ("participant/decisions/machine.py", "from coordinator.decisions.roster import Roster"),
        ("participant/decisions/machine.py", "from zmq import Context"),
        ("participant/data/folder.py", "import torchvision"),
        ("participant/cli.py", "from scripts import lab"),
        ("scripts/lab.py", "from tests.support import link"),
        ("scripts/run/cohort.py", "from scripts.engines.inline import run_inline"),
        ("scripts/engines/inline.py", "def f():\n    from scripts.experiments import sweep"),
        ("scripts/report/tables.py", "import scripts.bench.machine"),
    ],
)
def test_import_against_the_direction_is_found(path: str, text: str) -> None:
    assert len(direction_faults(source_of(path, text))) >= 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("protocol/codec.py", "import msgpack\nfrom protocol import errors\nfrom . import versions"),
        ("fedap_core/nn/state.py", "import torch\nfrom fedap_core.errors import InvalidInput"),
        ("fedap_core/models/__init__.py", "from torch import nn\nfrom .lenet import LeNet5"),
        ("coordinator/wire/router.py", "import zmq\nimport protocol.codec"),
        ("participant/wire/line.py", "import torch\nimport zmq"),
        ("scripts/lab.py", "import participant.cli, coordinator.cli, torch, scripts.experiments.commands"),
        ("scripts/engines/inline.py", "from scripts.run.settings import RunSettings\nimport scripts.engines.pool"),
    ],
)
def test_import_along_the_direction_passes(path: str, text: str) -> None:
    assert direction_faults(source_of(path, text)) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("coordinator/decisions/machine.py", "from coordinator.record import journal"),
        ("coordinator/decisions/machine.py", "from coordinator import config"),
        ("coordinator/decisions/machine.py", "import structlog"),
        ("coordinator/record/journal.py", "def f():\n    from coordinator.observers import Observer"),
        ("coordinator/wire/exchange.py", "from ..computing.jobs import Jobs"),
        ("participant/decisions/consent.py", "from participant.training.outgoing import weights_of"),
        ("participant/data/npz.py", "import participant.record.disk"),
        ("protocol/host/logs.py", "from fedap_core.strategies import Phase"),
    ],
)
def test_import_from_a_layer_above_is_found(path: str, text: str) -> None:
    assert len(layer_faults(source_of(path, text))) >= 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("coordinator/decisions/machine.py", "import numpy\nfrom coordinator import decisions\nfrom . import facts"),
        ("coordinator/wire/exchange.py", "import structlog, zmq\nfrom coordinator.decisions import events"),
        ("coordinator/server.py", "from coordinator.wire import router\nfrom coordinator import config"),
        ("participant/training/worker.py", "import torch\nfrom participant.record import disk"),
    ],
)
def test_import_from_a_layer_below_passes(path: str, text: str) -> None:
    assert layer_faults(source_of(path, text)) == []


def test_relative_imports_are_resolved_from_modules_and_packages() -> None:
    """In a/b/c.py two dots are a; in a/b/__init__.py one dot is a.b."""
    inside = imports_of(source_of("a/b/c.py", "from ..d import e"))
    package = imports_of(source_of("a/b/__init__.py", "from .c import f"))
    assert [found.target for found in (*inside, *package)] == ["a.d", "a.d.e", "a.b.c", "a.b.c.f"]


def test_torch_behind_a_lazy_import_two_modules_away_is_reached() -> None:
    files = {
        "coordinator/decisions/machine.py": "from fedap_core import strategies",
        "fedap_core/__init__.py": "",
        "fedap_core/strategies.py": "def f():\n    from fedap_core.nn.objectives import plain",
        "fedap_core/nn/__init__.py": "",
        "fedap_core/nn/objectives.py": "import torch",
        "fedap_core/alone.py": "import threadpoolctl",
    }
    found = reachable([source_of(path, text) for path, text in files.items()], ["coordinator"])
    assert found["torch"] == "fedap_core.nn.objectives"
    assert "threadpoolctl" not in found


@pytest.mark.parametrize("text", ["import time", "from pathlib import Path", "print(1)", "import protocol.host.keys"])
def test_clock_file_and_log_in_a_pure_package_are_found(text: str) -> None:
    assert len(purity_faults(source_of("fedap_core/mixing.py", text))) >= 1


def test_only_mixing_may_have_threads_and_nothing_else() -> None:
    text = "from concurrent.futures import ThreadPoolExecutor\nimport os"
    elsewhere = purity_faults(source_of("fedap_core/mixing.py", text))
    assert any("concurrent" in fault for fault in elsewhere)
    others = [fault for fault in elsewhere if "concurrent" not in fault]
    assert [fault.partition(": ")[2] for fault in purity_faults(source_of("fedap_core/aggregation.py", text))] == [
        fault.partition(": ")[2] for fault in others
    ]


def test_mathematics_in_a_pure_package_passes() -> None:
    assert purity_faults(source_of("fedap_core/mixing.py", "import math\nimport numpy as np\nnp.ones(3)")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import Unpickler",
        "import marshal, shelve",
        "import joblib",
        "import torch\ntorch.load('f')",
        "import torch as t\nt.load('f', weights_only=True)",
        "from torch import load\nload('f')",
        "from torch import load as fetch\nfetch('f')",
        "import numpy as np\nnp.load('f', allow_pickle=True)",
        "import numpy as np\nnp.load('f', allow_pickle=flag)",
        "eval('1')",
        "exec('pass')",
        "run = eval",
    ],
)
def test_loading_that_can_run_code_is_found(text: str) -> None:
    assert len(checks.unsafe_loading(source_of("fedap_core/x.py", text))) >= 1


@pytest.mark.parametrize(
    ("call", "faults"),
    [("weights_only=True", 0), ("weights_only=False", 1), ("weights_only=flag", 1), ("map_location='cpu'", 1)],
)
def test_torchs_reader_of_tensors_is_allowed_in_one_file(call: str, faults: int) -> None:
    text = f"import torch\ntorch.load('f', {call})"
    assert len(checks.unsafe_loading(source_of(checks.TENSORS_ONLY, text))) == faults


def test_safe_loading_passes() -> None:
    text = "import numpy as np\nnp.load('f')\nnp.load('f', allow_pickle=False)\nmodel.eval()\nload_file('f')"
    assert checks.unsafe_loading(source_of("fedap_core/x.py", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import random\nrandom.random()",
        "from random import shuffle\nshuffle(x)",
        "import random\nrandom.Random()",
        "import numpy as np\nnp.random.seed(1)",
        "import numpy as np\nx = np.random.rand(3)",
        "from numpy.random import default_rng\ndefault_rng()",
        "import torch\ntorch.manual_seed(1)",
        "import torch\nwith torch.no_grad():\n    torch.manual_seed(1)",
        "import torch\ntorch.default_generator.manual_seed(1)",
        "import torch\ntorch.randperm(3)",
    ],
)
def test_hidden_randomness_is_found(text: str) -> None:
    assert len(checks.global_randomness(source_of("fedap_core/x.py", text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\ndef f(rng: np.random.Generator) -> None:\n    rng.random()",
        "import numpy as np\nnp.random.default_rng(7)",
        "import random\ndef f(rng: random.Random = random.Random(7)) -> None:\n    rng.random()",
        "import torch\nwith torch.random.fork_rng(devices=[]):\n    torch.manual_seed(1)\n    torch.rand(2)",
        "import torch\ng = torch.Generator()\ng.manual_seed(1)\ntorch.randperm(3, generator=g)",
    ],
)
def test_passed_in_randomness_passes(text: str) -> None:
    assert checks.global_randomness(source_of("fedap_core/x.py", text)) == []


@pytest.mark.parametrize("text", ["import time\ntime.sleep(1)", "from time import sleep as nap\nnap(1)"])
def test_sleep_is_found(text: str) -> None:
    assert len(checks.sleeping(source_of("tests/x.py", text))) == 1


def test_waiting_for_a_condition_passes() -> None:
    assert checks.sleeping(source_of("tests/x.py", "import time\ntime.monotonic()\nevent.wait(1)")) == []


def test_file_limit_lies_between_400_and_401_lines() -> None:
    assert checks.size_faults(source_of("a.py", "x = 1\n" * 400)) == []
    assert len(checks.size_faults(source_of("a.py", "x = 1\n" * 401))) == 1


def test_function_limit_lies_between_60_and_61_lines() -> None:
    assert checks.size_faults(source_of("a.py", "def f():\n" + "    x = 1\n" * 59)) == []
    assert len(checks.size_faults(source_of("a.py", "class A:\n    def f():\n" + "        x = 1\n" * 60))) == 1


@pytest.mark.parametrize("text", ["", "x = 1", '"""Words."""', '"""no sentence end here"""'])
def test_file_without_an_opening_sentence_is_found(text: str) -> None:
    assert len(checks.docstring_faults(source_of("a.py", text))) == 1


def test_file_with_an_opening_sentence_passes() -> None:
    assert checks.docstring_faults(source_of("a.py", '"""Who takes part."""')) == []


@pytest.mark.parametrize("path", ["a/utils.py", "common/a.py", "a/round_manager.py", "tests/support/helpers.py"])
def test_name_that_says_nothing_is_found(path: str) -> None:
    assert len(checks.name_faults(source_of(path, ""))) == 1


def test_name_that_only_contains_a_vague_word_passes() -> None:
    assert checks.name_faults(source_of("a/commonality.py", "")) == []


@pytest.mark.parametrize(
    "text",
    [
        "def test_a() -> None:\n    f()",
        "class TestA:\n    def test_a(self) -> None:\n        pass",
        "def build() -> None:\n    pass\ndef test_a() -> None:\n    build()",
        "def test_a() -> None:\n    assert True",
        "def test_a() -> None:\n    assert 1, 'always'",
        "def test_a() -> None:\n    assert (x == 1, 'a tuple is true')",
    ],
)
def test_test_that_cannot_fail_is_found(text: str) -> None:
    assert len(checks.idle_tests(source_of("tests/test_a.py", text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def test_a() -> None:\n    assert f()",
        "def test_a() -> None:\n    with pytest.raises(ValueError):\n        f()",
        "@given(integers())\ndef test_a(x: int) -> None:\n    f(x)",
        "def test_a() -> None:\n    np.testing.assert_allclose(f(), 1)",
        "def same(x):\n    assert x\ndef twice(x):\n    same(x)\ndef test_a() -> None:\n    twice(f())",
        "def build() -> None:\n    pass",
    ],
)
def test_test_that_can_fail_passes(text: str) -> None:
    assert checks.idle_tests(source_of("tests/test_a.py", text)) == []


def test_class_defined_in_two_files_is_found_and_one_used_in_two_is_not() -> None:
    files = {
        "coordinator/a.py": "class Work: ...\nclass Alone: ...",
        "participant/a.py": "class Outer:\n    class Work: ...",
        "participant/b.py": "from coordinator.a import Alone\nx = Alone()",
    }
    found = checks.doubled_types(source_of(path, text) for path, text in files.items())
    assert found == {"Work": ["coordinator/a.py:1", "participant/a.py:2"]}


def test_file_that_the_table_does_not_use_is_found() -> None:
    text = "from a.b.one import One\nfrom a.b.two import Two\nfrom . import three\n"
    text += "TABLE: dict[str, object] = {'1': One, '3': three.f}"
    assert checks.unregistered(text, "TABLE", "a.b", ["one", "two", "three", "four"]) == ["two", "four"]


def test_table_of_lazy_names_counts_whole_module_names() -> None:
    text = "TABLE = {'1': 'a.b.one:make', '2': 'a.b.twofold:make'}"
    assert checks.unregistered(text, "TABLE", "a.b", ["one", "two"]) == ["two"]


def test_missing_table_is_reported() -> None:
    assert checks.unregistered("OTHER = {}", "TABLE", "a.b", ["one"]) == ["no table TABLE is assigned"]


def test_registry_hosts_and_self_talk_are_found_with_their_line() -> None:
    host = "https://" + ".".join(("files", "pythonhosted", "org")) + "/x"
    assert forbidden_words("a.md", f"one\n{host}", REGISTRY_HOST) == ["a.md:2: " + ".".join(("pythonhosted", "org"))]
    for words in ("fixes issue" + " #3", "see D" + "7", "as DES" + "IGN.md says"):
        assert len(forbidden_words("a.md", words, SELF_TALK)) == 1
    assert forbidden_words("a.md", "tissue 3, an issue of taste, Conv2D, (D, H, W)", SELF_TALK) == []


def test_walk_over_text_files_meets_the_hidden_ci_folder_and_no_environment() -> None:
    paths = [path for path, _ in text_files()]
    assert ".ci/run" in paths
    assert not [path for path in paths if path.startswith((".venv", ".git/", "runs/")) or "__pycache__" in path]
