"""Turns a configuration into a list of settings: each with its name in a file, its flag, type, default and meaning.

The pydantic model is the only source; command options, the example file and the reference table are generated from it.
Also reads configuration files: paths in them are relative to the file, and command options override them. The
configuration itself decides what a value means.
"""

from __future__ import annotations

import inspect
import json
import tomllib
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from fedap_core.errors import InvalidInput, in_words, unknown_name
from protocol.contracts import Record
from protocol.host.small_files import read_small_text

REQUIRED = MISSING
"""Stands for the default of a setting that has none."""

_PLAIN = (bool, int, float, Path, str)
_EXAMPLES: Mapping[type, object] = {int: 10, float: 60.0, Path: "file", str: "text"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One field of a configuration. kind: type of one value; many: a list of values, or a table of key = value."""

    path: tuple[str, ...]
    kind: type
    many: Literal["", "list", "table"] = ""
    choices: tuple[str, ...] = ()
    default: object = REQUIRED
    example: object = None
    description: str = ""

    @property
    def name(self) -> str:
        """Name in a file: section.field."""
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        return "--" + "-".join(self.path).replace("_", "-")

    @property
    def type_words(self) -> str:
        one = {bool: "true or false", int: "whole number", float: "number", Path: "path", str: "text"}[self.kind]
        one = ", ".join(self.choices) if self.choices else one
        return {"": one, "list": f"list: {one}", "table": "table"}[self.many]

    def line(self) -> str:
        """Return a line for the example file; optional settings are commented out, with their default."""
        value = self.default
        if value is REQUIRED or value is None:
            value = self.example if self.example is not None else _EXAMPLES.get(self.kind, "")
            value = [value] if self.many == "list" else value
        return f"{'' if self.default is REQUIRED else '# '}{self.path[-1]} = {_toml(value)}"


def settings_of(model: type[BaseModel], outer: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Yield the settings of a model in order: its own fields first, then those of its sections."""
    later: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            later.append((name, kind))
        elif isinstance(kind, type) and issubclass(kind, Record):
            yield from _of_record(kind, outer, field.get_default(call_default_factory=True))
        else:
            yield _of_field((*outer, name), field)
    for name, section in later:
        yield from settings_of(section, (*outer, name))


def _of_field(path: tuple[str, ...], field: FieldInfo) -> Setting:
    kind, many, choices = _kind(field.annotation)
    default = REQUIRED if field.is_required() else field.get_default(call_default_factory=True)
    example = field.examples[0] if field.examples else None
    words = field.description or ""
    return Setting(
        path=path, kind=kind, many=many, choices=choices, default=default, example=example, description=words
    )


def _of_record(record: type[Record], outer: tuple[str, ...], standard: object) -> Iterator[Setting]:
    """Yield a record's fields as settings of the section that contains it; its docstring describes them.

    standard: the section's default."""
    hints, words = get_type_hints(record, include_extras=True), _described(record)
    for field in fields(record):  # type: ignore[arg-type]
        kind, many, _ = _kind(hints[field.name])
        expected = next(contract.expected for name, contract in record.CONTRACTS if name == field.name)
        choices = tuple(expected.removeprefix("one of ").split(", ")) if expected.startswith("one of ") else ()
        about = words[field.name]
        default = getattr(standard, field.name)
        yield Setting(
            path=(*outer, field.name), kind=kind, many=many, choices=choices, default=default, description=about
        )


def _described(record: type[Record]) -> dict[str, str]:
    """Return the meaning of each field, from the lines «name: meaning.» of the docstring."""
    lines = inspect.cleandoc(record.__doc__ or "").splitlines()
    pairs = (line.partition(": ") for line in lines)
    return {name: about[:1].upper() + about[1:] for name, colon, about in pairs if colon and name.isidentifier()}


def _kind(annotation: object) -> tuple[type, Literal["", "list", "table"], tuple[str, ...]]:
    """Return the plain type of one value, whether there are many, and the allowed names."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(inner[0])
    if origin in (Union, types.UnionType):
        return _kind(next(one for one in inner if one is not type(None)))
    if origin is Literal:
        return str, "", tuple(str(one) for one in inner)
    if origin in (tuple, list):
        kind, _, choices = _kind(inner[0])
        return kind, "list", choices
    if origin is dict:
        return str, "table", ()
    for kind in _PLAIN:
        if annotation is kind:
            return kind, "", ()
    raise TypeError(f"{annotation!r} is no type of a setting")


def read_toml(path: Path) -> dict[str, Any]:
    """Read the tables of a configuration file; InvalidInput if it cannot be read."""
    try:
        return tomllib.loads(read_small_text(path, encoding="utf-8-sig"))  # Windows editors begin a file with a mark
    except OSError as error:
        raise InvalidInput("config", path, "a readable file", str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput("config", path, "a TOML file", str(error)) from error


def placed(model: type[BaseModel], fields: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Return the fields with every relative path below `base`; wrong types are left for the model to refuse. A
    path that is not UTF-8 is refused, because journals, logs and messages could not contain it."""
    found: dict[str, Any] = dict(fields)
    for setting in settings_of(model):
        value: Any = fields
        for name in setting.path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if setting.kind is Path and isinstance(value, str | Path):
            path = base / Path(value).expanduser()
            if not _is_utf8(str(path)):
                raise InvalidInput(setting.name, str(path), "a path in UTF-8", "Rename the file or folder.")
            found = overlaid(found, {setting.name: path})
    return found


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def overlaid(fields: Mapping[str, Any], given: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields with values overridden. given: «field» or «section.field» -> value."""
    found: dict[str, Any] = dict(fields)
    for path, value in given.items():
        section, dot, name = path.rpartition(".")
        if dot:
            inside = found.get(section)
            found[section] = {**(inside if isinstance(inside, Mapping) else {}), name: value}
        else:
            found[name] = value
    return found


def explained(error: ValidationError, model: type[BaseModel]) -> InvalidInput:
    """Convert pydantic's first error. Unknown fields come first: the field they were meant to be is often missing."""
    fault = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")[0]
    path = tuple(str(part) for part in fault["loc"])
    where = ".".join(path) or "config"
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        return cause
    if fault["type"] == "extra_forbidden":
        kind = f"field of {'.'.join(path[:-1]) or 'the configuration'}"
        return unknown_name(kind, path[-1], _fields_at(model, path[:-1]))
    names = tuple(part for part in fault["loc"] if isinstance(part, str))
    field = _fields_at(model, names[:-1]).get(names[-1]) if names else None
    description = field.description if field is not None else None
    if fault["type"] == "missing":
        flag = "--" + where.replace(".", "-").replace("_", "-")
        return InvalidInput(where, "nothing", "a value", f"Give {flag}, or {where} in the config file. {description}")
    if field is not None and fault["type"] == "model_type":
        return InvalidInput(where, fault["input"], f"a table: [{where}] and its fields on lines below", "")
    return InvalidInput(where, fault["input"], in_words(fault["msg"], description))


def _fields_at(model: type[BaseModel], path: tuple[str, ...]) -> Mapping[str, FieldInfo]:
    for name in path:
        found = model.model_fields[name].annotation if name in model.model_fields else None
        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            return {}
        model = found
    return model.model_fields


def example_file(model: type[BaseModel]) -> str:
    """Return a file with every setting: required ones with an example, all others commented out with their default."""
    lines: list[str] = []
    section: tuple[str, ...] = ()
    for setting in settings_of(model):
        if setting.path[:-1] != section:
            section = setting.path[:-1]
            lines += ["", f"[{'.'.join(section)}]"]
        choices = f" One of {', '.join(setting.choices)}." if setting.choices and setting.kind is not bool else ""
        unset = " Not set by default." if setting.default is None else ""
        lines += [f"# {setting.description}{choices}{unset}", setting.line()]
    return "\n".join(lines) + "\n"


def reference_table(model: type[BaseModel], flags: Mapping[str, str]) -> str:
    """Return all settings as a Markdown table. flags: the flag of each setting by its name."""
    rows = ["| in the file | flag | values | default | meaning |", "|---|---|---|---|---|"]
    for setting in settings_of(model):
        default = "required" if setting.default is REQUIRED else "not set"
        if setting.default is not REQUIRED and setting.default is not None:
            default = f"`{_toml(setting.default)}`"
        cells = (f"`{setting.name}`", f"`{flags[setting.name]}`", setting.type_words, default, setting.description)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _toml(value: object) -> str:
    """Format a value as TOML: JSON is the same for plain values and lists of them; tables are written on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    plain = [str(one) for one in value] if isinstance(value, tuple | list) else value
    return json.dumps(str(plain) if isinstance(plain, Path) else plain, ensure_ascii=False)
