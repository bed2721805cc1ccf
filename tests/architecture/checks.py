"""What is wrong in one file: pure functions of its text that return sentences with a line number, or an empty list.

No function here reads a file or knows which files exist; exceptions to a rule are passed in by the caller.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tests.architecture.sources import SourceFile

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
_VAGUE = frozenset({"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"})

_LOADERS = ("pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve")
TENSORS_ONLY = "participant/record/weights.py"
"""May read what torch.save wrote, as `weights_only=True`: pre-trained weights are rarely published otherwise."""
_UNSAFE_CALLS = ("torch.load", "torch.save", "torch.jit.load", "torch.package", "pandas.read_pickle", "eval", "exec")
_SEEDED_BY_HAND = ("default_rng", "Generator", "PCG64", "Philox", "SeedSequence", "BitGenerator")
_TORCH_SEEDS = frozenset(
    f"torch.{owner}{method}"
    for owner in ("", "random.", "default_generator.", "cuda.")
    for method in ("manual_seed", "manual_seed_all", "seed", "set_rng_state", "set_state")
)
_TORCH_DRAWS = frozenset({"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial"})
_CHECKING = ("assert_", "check_", "require_")
UNSEEDED_DRAW = "draws without a generator"
_SLEEPS = frozenset({"time.sleep", "asyncio.sleep", "trio.sleep"})

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Use:
    """A dotted name as used in a file, aliases resolved, with the call around it when it is called."""

    line: int
    name: str
    call: ast.Call | None
    forked: bool
    """Inside `with torch.random.fork_rng(...)`."""


@cache
def uses(source: SourceFile) -> tuple[Use, ...]:
    """Every use of a name: `import numpy as np; np.load(f)` gives `numpy.load`, `from time import sleep` too."""
    aliases = _aliases(source)
    found: list[Use] = []
    waiting: list[tuple[ast.AST, bool]] = [(source.tree, False)]
    while waiting:
        node, forked = waiting.pop()
        if isinstance(node, ast.With | ast.AsyncWith):
            entered = [_dotted(item.context_expr, aliases) for item in node.items]
            forked = forked or any(name.endswith("fork_rng") for name in entered)
        named: ast.expr | None = None
        if isinstance(node, ast.Call | ast.Name | ast.Attribute) and (name := _dotted(node, aliases)):
            call = node if isinstance(node, ast.Call) else None
            found.append(Use(line=node.lineno, name=name, call=call, forked=forked))
            named = node.func if isinstance(node, ast.Call) else getattr(node, "value", None)
        # The inside of a dotted name is no use of its own.
        waiting += [(child, forked) for child in ast.iter_child_nodes(node) if child is not named]
    return tuple(sorted(found, key=lambda use: use.line))


def _dotted(node: ast.AST, aliases: Mapping[str, str]) -> str:
    if isinstance(node, ast.Call):
        return _dotted(node.func, aliases)
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, aliases) if not isinstance(node.value, ast.Call) else ""
        return f"{base}.{node.attr}" if base else ""
    return ""


def _aliases(source: SourceFile) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for node in source.nodes:
        if isinstance(node, ast.Import):
            aliases |= {name.asname: name.name for name in node.names if name.asname}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            aliases |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    return aliases


def unsafe_loading(source: SourceFile) -> list[str]:
    """Anything that runs code found in data: pickle and its kin, torch.load, allow_pickle, eval and exec."""
    faults = []
    for node in source.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            bad = [name for name in names if name.partition(".")[0] in _LOADERS]
            faults += [f"{source.path}:{node.lineno}: imports {name}" for name in bad]
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and not _is_false(node.value):
            faults.append(f"{source.path}:{node.value.lineno}: allow_pickle must be the literal False")
    faults += [
        f"{source.path}:{use.line}: uses {use.name}"
        for use in uses(source)
        if any(use.name == name or use.name.startswith(f"{name}.") for name in _UNSAFE_CALLS)
        and not _reads_tensors_only(source, use)
    ]
    return faults


def _reads_tensors_only(source: SourceFile, use: Use) -> bool:
    """torch.load in the one file for pre-trained weights, with the restricted reader that builds nothing else."""
    if source.path != TENSORS_ONLY or use.name != "torch.load" or use.call is None:
        return False
    given = {keyword.arg: keyword.value for keyword in use.call.keywords}
    return isinstance(value := given.get("weights_only"), ast.Constant) and value.value is True


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def global_randomness(source: SourceFile) -> list[str]:
    """Random numbers that no passed-in generator made. Changing torch's own is right only inside its `fork_rng`."""
    return [f"{source.path}:{use.line}: {use.name}: {reason}" for use in uses(source) if (reason := _why_hidden(use))]


def _why_hidden(use: Use) -> str:
    head, _, tail = use.name.rpartition(".")
    unseeded = use.call is not None and not (use.call.args or use.call.keywords)
    if use.name in {"random.Random", "numpy.random.default_rng"}:
        return "a generator without a seed" if unseeded else ""
    if use.name == "random" or use.name.startswith("random."):
        return "the global generator of the standard library"
    if head == "numpy.random" and tail not in _SEEDED_BY_HAND:
        return "numpy's global generator"
    if use.name in _TORCH_SEEDS and not use.forked:
        return "seeds torch outside of fork_rng"
    draws = head == "torch" and tail in _TORCH_DRAWS and use.call is not None and not use.forked
    if draws and use.call and not any(keyword.arg == "generator" for keyword in use.call.keywords):
        return UNSEEDED_DRAW
    return ""


def sleeping(source: SourceFile) -> list[str]:
    """Waiting by the clock instead of for a condition."""
    return [f"{source.path}:{use.line}: {use.name}" for use in uses(source) if use.name in _SLEEPS]


def size_faults(source: SourceFile) -> list[str]:
    """Files and functions too long to be read in one go."""
    lines = len(source.text.splitlines())
    faults = [f"{source.path}: {lines} lines, at most {MAX_FILE_LINES}"] if lines > MAX_FILE_LINES else []
    for function in _functions(source):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > MAX_FUNCTION_LINES:
            faults.append(f"{source.path}:{function.lineno}: {function.name} has {length} lines")
    return faults


def docstring_faults(source: SourceFile) -> list[str]:
    """A file that does not open by saying, in a sentence, what it is for."""
    docstring = ast.get_docstring(source.tree) or ""
    said = len(docstring.split()) >= 3 and re.search(r"[.!?](\s|$)", docstring)
    return [] if said else [f"{source.path}: opens with no sentence that says what it decides"]


def name_faults(source: SourceFile) -> list[str]:
    """File and folder names that say nothing."""
    vague = sorted(_VAGUE & set(re.split(r"[/_.]", source.path)))
    return [f"{source.path}: the name {word!r} says nothing; name what it decides" for word in vague]


def idle_tests(source: SourceFile) -> list[str]:
    """Tests that cannot fail: no assertion, no expected error, no property; or an assertion on a constant."""
    faults = []
    functions = _functions(source)
    failing = _can_fail(functions)
    for function in functions:
        if function.name.startswith("test_") and function.name not in failing:
            faults.append(f"{source.path}:{function.lineno}: {function.name} checks nothing")
        faults += [
            f"{source.path}:{node.lineno}: {function.name} asserts a constant"
            for node in ast.walk(function)
            if isinstance(node, ast.Assert) and _is_always_true(node.test)
        ]
    return faults


def _can_fail(functions: list[_Function]) -> set[str]:
    """Names of the functions that hold a check, or call one of the same file that does, directly or not."""
    calls = {function.name: _called_names(function) for function in functions}
    failing = {function.name for function in functions if _holds_a_check(function, calls[function.name])}
    while more := {name for name, called in calls.items() if name not in failing and called & failing}:
        failing |= more
    return failing


def _called_names(function: _Function) -> set[str]:
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    return {_dotted(call, {}).rpartition(".")[2] for call in calls}


def _holds_a_check(function: _Function, called: set[str]) -> bool:
    marks = {_dotted(mark, {}).rpartition(".")[2] for mark in function.decorator_list}
    by_name = called & {"raises", "warns", "fail"} or any(name.lstrip("_").startswith(_CHECKING) for name in called)
    return "given" in marks or bool(by_name) or any(isinstance(node, ast.Assert) for node in ast.walk(function))


def _is_always_true(test: ast.expr) -> bool:
    if isinstance(test, ast.Tuple):
        return bool(test.elts)
    return isinstance(test, ast.Constant) and bool(test.value)


def _functions(source: SourceFile) -> list[_Function]:
    return [node for node in source.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def doubled_types(sources: Iterable[SourceFile]) -> dict[str, list[str]]:
    """Class names that are defined more than once, with the files that do: such a name tells a reader too little."""
    places: dict[str, list[str]] = {}
    for source in sources:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{source.path}:{node.lineno}")
    return {name: where for name, where in places.items() if len(where) > 1}


def unregistered(table_text: str, table: str, package: str, modules: list[str]) -> list[str]:
    """Modules of a package that its table does not use: by an imported name, or by a literal "package.module...".

    An import alone is not enough: the name must stand inside the assignment to the table.
    """
    tree = ast.parse(table_text)
    value = _assigned(tree, table)
    if value is None:
        return [f"no table {table} is assigned"]
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    literals = [
        node.value for node in ast.walk(value) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    used = {module for module, bound in _bound_names(tree, package) if bound & names}
    return [
        module
        for module in modules
        if module not in used and not any(re.match(rf"{re.escape(f'{package}.{module}')}\b", text) for text in literals)
    ]


def _assigned(tree: ast.Module, table: str) -> ast.expr | None:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == table for target in targets):
                return node.value
    return None


def _bound_names(tree: ast.Module, package: str) -> Iterator[tuple[str, set[str]]]:
    """(module, names bound from it) for every import of the package's modules, absolute or relative."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        origin = node.module or "" if not node.level else f"{package}.{node.module}" if node.module else package
        for name in node.names:
            bound = {name.asname or name.name}
            if origin == package:
                yield name.name, bound
            elif origin.startswith(f"{package}."):
                yield origin.removeprefix(f"{package}."), bound
