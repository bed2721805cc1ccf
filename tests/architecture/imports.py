"""Who imports whom, read from source text: what each package may import as a table, and what can be reached from where.

Imports count wherever they stand: inside functions, under TYPE_CHECKING, in `importlib.import_module("...")` with a
literal. Nothing is imported here. What may follow which import is `LAW`; nothing else decides it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from tests.architecture.sources import PACKAGES, SourceFile

_WIRE = frozenset({"protocol", "fedap_core", "numpy", "zmq", "structlog", "typer", "rich", "safetensors", "pydantic"})
LAW: Mapping[str, frozenset[str]] = {
    "protocol": frozenset({"protocol", "msgpack", "numpy", "pydantic", "xxhash", "zstandard"}),
    "fedap_core": frozenset({"fedap_core", "numpy", "threadpoolctl", "torch", "monai"}),
    "coordinator": _WIRE
    | {"coordinator", "starlette", "prometheus_client", "mlflow", "tensorboard", "msgpack", "xxhash"},
    "participant": _WIRE
    | {"participant", "cryptography", "starlette", "msgpack", "torch", "medmnist", "PIL"}
    | {"dp_accounting", "pydicom", "nibabel", "onnx", "onnxscript"},
    "scripts": _WIRE
    | {"scripts", "coordinator", "participant", "msgpack", "torch", "matplotlib", "jinja2", "xxhash"}
    | {"atheris", "ray", "scipy", "tenseal", "threadpoolctl"},
}
"""Top-level packages that each package may import besides the standard library."""

TORCH_HALF = ("torch", "fedap_core.nn", "fedap_core.models")
TORCH_PACKAGES = ("fedap_core.nn", "fedap_core.models", "participant", "scripts")
"""Where torch, and the half of the mathematics that needs it, may be imported."""

LAB_ORDER = ("scripts.run", "scripts.engines", "scripts.report", "scripts.experiments")
"""Of these, each may import those before it, and nothing else of `scripts`."""

ZMQ_SHELLS = (
    "coordinator.wire",
    "participant.wire",
    "participant.shell",
    "protocol.host.keys",
    "scripts.drill.hostile.scripted_coordinator",
)
"""The modules that own a socket; all others decide without one."""

_CLOCKS = frozenset({"datetime", "time"})
_FILES = frozenset({"glob", "io", "os", "pathlib", "shutil", "sqlite3", "tempfile"})
_SOCKETS = frozenset({"asyncio", "http", "select", "selectors", "socket", "socketserver", "ssl", "urllib"})
_TASKS = frozenset({"concurrent", "multiprocessing", "subprocess", "threading"})
_IMPURE = _CLOCKS | _FILES | _SOCKETS | _TASKS | {"logging", "random", "secrets", "uuid"}
_OUTWARD_CALLS = frozenset({"open", "print", "input"})
_MAY_SHARE_WORK = frozenset(
    {
        ("fedap_core/aggregation.py", "concurrent"),
        ("fedap_core/aggregation.py", "threading"),
        ("protocol/naming.py", "concurrent"),
    }
)
"""Mixing hands whole tiles to threads, naming whole slices: they are gone when it returns, and no bit depends on
them."""
PURE_PLACES = ("protocol", "fedap_core", "coordinator.decisions", "participant.decisions")
"""Packages that know no files, sockets, clocks, logs, threads or global randomness; HOST is the exception."""

HOST = "protocol.host"
"""What both processes ask of their machine. No pure package may import it."""

_COMPUTES = frozenset({"protocol", "fedap_core", "numpy"})
LAYERS: Mapping[str, frozenset[str]] = {
    HOST: frozenset(
        {
            "protocol",
            "fedap_core.arrays",
            "fedap_core.errors",
            "fedap_core.exit_codes",
            "pydantic",
            "structlog",
            "typer",
            "zmq",
        }
    )
    | {"numpy", "jinja2", "starlette", "uvicorn"},
    "coordinator.decisions": _COMPUTES | {"coordinator.decisions"},
    "coordinator.record": frozenset({"coordinator.decisions", "coordinator.record"}),
    "coordinator.computing": frozenset({"coordinator.decisions", "coordinator.record", "coordinator.computing"}),
    "coordinator.wire": frozenset({"coordinator.decisions", "coordinator.record", "coordinator.wire"}),
    "participant.decisions": _COMPUTES | {"participant.decisions"},
    "participant.data": frozenset({"participant.data"}),
    "participant.record": frozenset({"participant.decisions", "participant.data", "participant.record"}),
    "participant.sealing": frozenset({"participant.decisions", "participant.record", "participant.sealing"}),
    "participant.training": frozenset(
        {
            *("participant.decisions", "participant.data", "participant.record"),
            *("participant.sealing", "participant.training"),
        }
    ),
    "participant.wire": frozenset({"participant.decisions", "participant.record", "participant.wire"}),
}
"""What a sub-package may import of its own package. Where other packages are named, no other library may be imported.
The modules directly in a package are on top: command, configuration, and the process that joins the layers."""


@dataclass(frozen=True, kw_only=True)
class Import:
    """One imported module or `from` target, in absolute dotted form, with its line."""

    line: int
    target: str

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]


@cache
def imports_of(source: SourceFile) -> tuple[Import, ...]:
    """Every import of a file. `from a import b` gives both `a` and `a.b`: only the importer knows which one b is."""
    return tuple(found for node in source.nodes for found in _imports_in(node, source))


def _imports_in(node: ast.AST, source: SourceFile) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(line=node.lineno, target=name.name) for name in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(node, source)
        yield Import(line=node.lineno, target=base)
        yield from (Import(line=node.lineno, target=f"{base}.{name.name}") for name in node.names)
    elif isinstance(node, ast.Call) and _is_import_call(node.func) and node.args:
        literal = node.args[0]
        if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
            yield Import(line=node.lineno, target=literal.value)


def _absolute(node: ast.ImportFrom, source: SourceFile) -> str:
    if not node.level:
        return node.module or ""
    parts = source.module.split(".")
    kept = parts[: len(parts) - node.level + (1 if source.is_package else 0)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _is_import_call(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"import_module", "__import__"}


def within(module: str, places: Iterable[str]) -> bool:
    """Whether a dotted name is one of the places or lies below one."""
    return any(module == place or module.startswith(f"{place}.") for place in places)


def direction_faults(source: SourceFile) -> list[str]:
    """Imports that the law of the file's package does not allow."""
    faults = []
    place = next((at for at, package in enumerate(LAB_ORDER) if within(source.module, [package])), len(LAB_ORDER))
    for found in imports_of(source):
        if found.top not in LAW[source.package] | _libraries(source) and found.top not in sys.stdlib_module_names:
            faults.append(f"{source.path}:{found.line}: {source.package} must not import {found.target}")
        elif within(found.target, TORCH_HALF) and not within(source.module, TORCH_PACKAGES):
            faults.append(
                f"{source.path}:{found.line}: {found.target} may be imported under {', '.join(TORCH_PACKAGES)} alone"
            )
        elif place < len(LAB_ORDER) and found.top == "scripts" and not within(found.target, LAB_ORDER[: place + 1]):
            faults.append(f"{source.path}:{found.line}: {LAB_ORDER[place]} must not import {found.target}")
        elif found.top == "zmq" and not within(source.module, ZMQ_SHELLS):
            faults.append(f"{source.path}:{found.line}: zmq belongs in the socket shells {', '.join(ZMQ_SHELLS)}")
    return faults


def _place(source: SourceFile) -> str:
    return ".".join(source.module.split(".")[:2])


def _libraries(source: SourceFile) -> frozenset[str]:
    """Top-level packages that the law of the file's sub-package names."""
    return frozenset(name.partition(".")[0] for name in LAYERS.get(_place(source), ())) - {source.package}


def layer_faults(source: SourceFile) -> list[str]:
    """Imports that the law of the file's sub-package does not allow."""
    place = _place(source)
    allowed = LAYERS.get(place)
    if allowed is None:
        return []
    judges_libraries = bool(_libraries(source))
    return [
        f"{source.path}:{found.line}: {place} must not import {found.target}"
        for found in imports_of(source)
        if found.top == source.package or (judges_libraries and found.top not in sys.stdlib_module_names)
        if found.target != source.package and not within(found.target, allowed)
    ]


def purity_faults(source: SourceFile) -> list[str]:
    """Files, sockets, clocks, logs and threads in a package that decides without them; `open` included."""
    faults = [
        f"{source.path}:{found.line}: a pure package must not know {found.target}"
        for found in imports_of(source)
        if within(found.target, [HOST]) or (found.top in _IMPURE and (source.path, found.top) not in _MAY_SHARE_WORK)
    ]
    faults += [
        f"{source.path}:{node.lineno}: a pure package must not call {node.func.id}()"
        for node in source.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OUTWARD_CALLS
    ]
    return faults


def reachable(sources: Iterable[SourceFile], starts: Iterable[str]) -> dict[str, str]:
    """Everything that importing the start packages can load: target -> the module that imports it first.

    Lazy imports count; importing `a.b` also loads `a`.
    """
    by_module = {source.module: source for source in sources}
    origin = {module: "" for module in by_module if within(module, starts)}
    queue = list(origin)
    while queue:
        module = queue.pop()
        source = by_module.get(module)
        targets = [found.target for found in imports_of(source)] if source else []
        for target in targets:
            for prefix in _prefixes(target):
                known = prefix in by_module or prefix.partition(".")[0] not in PACKAGES
                if known and prefix not in origin:
                    origin[prefix] = module
                    queue.append(prefix)
    return origin


def _prefixes(target: str) -> list[str]:
    parts = target.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]
