"""Common behaviour of all commands: every setting of a configuration is a flag, every error is one line on stderr, an
interrupt is answered with a sentence. What a command does is decided by its package.
"""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from fedap_core.errors import InvalidInput, exit_on_invalid_input, parse_pairs
from fedap_core.exit_codes import DONE, WRONG_INPUT, cut_short_by
from protocol.host.settings import Setting, example_file, reference_table, settings_of
from protocol.versions import VERSION

Complaint: type[Exception] = typer.BadParameter.__mro__[2]
"""The base class of typer's errors about options: click's, or that of the copy of click inside typer."""

Given = Mapping[str, object]
"""Settings by name («section.field»), as given by flags."""


def software_version() -> str:
    """Return the installed release, or `source` if the package is not installed."""
    try:
        return version("fedap")
    except PackageNotFoundError:
        return "source"


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"fedap {software_version()}, wire protocol {VERSION}")
        raise typer.Exit


VersionFlag = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]


ExampleFlag = Annotated[bool, typer.Option("--example", help="A TOML file with every setting and its default.")]
PageToken = Annotated[Path | None, typer.Option(help="File with the access token of the page; created if missing.")]
PageHost = Annotated[list[str] | None, typer.Option(help="Host name under which a proxy serves the page; repeatable.")]
PageCert = Annotated[Path | None, typer.Option(help="PEM file with certificate and key; enables TLS for the page.")]
TableFlag = Annotated[bool, typer.Option("--table", help="Every setting, its flag, values, default and meaning.")]


def settings_text(model: type[BaseModel], short: Mapping[str, str], *, example: bool, table: bool) -> str:
    """Return what `config` prints about the settings of a model."""
    if example == table:
        raise InvalidInput("config", "both or none", "one of --example and --table")
    return example_file(model) if example else reference_table(model, flags_of(model, short))


def require_file(out: Path) -> None:
    """Refuse to write a file where something else is: it would be replaced, and /dev/null is needed by others."""
    if out.exists() and not out.is_file():
        what = "a folder" if out.is_dir() else "a device or a pipe"
        raise InvalidInput("out", str(out), "a file to write", f"This is {what}.")


def require_free(out: Path, *, force: bool) -> None:
    """Refuse a file to write that exists, unless it may be replaced, and anything else in its place."""
    require_file(out)
    if out.exists() and not force:
        raise InvalidInput("out", str(out), "a file that does not exist yet", "Use --force to replace it.")


def run_app(app: typer.Typer, *, interrupted: str = "interrupted") -> None:
    """Run a command to its end and exit with its code: 2 after one line about wrong input, 130 after an interrupt."""
    exit_on_invalid_input(lambda: _run(app, interrupted), interrupted=interrupted)


def _run(app: typer.Typer, interrupted: str) -> None:
    _require_utf8(sys.argv[1:])
    try:
        code = app(standalone_mode=False)
    except Complaint as error:
        _complain(error)
        sys.exit(WRONG_INPUT)
    if code == cut_short_by(signal.SIGINT):  # typer's answer to an interrupt
        typer.echo(interrupted, err=True)
    sys.exit(code if isinstance(code, int) else DONE)


def _require_utf8(arguments: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8: journals, logs and messages could not contain them."""
    for given in arguments:
        try:
            given.encode()
        except UnicodeEncodeError as error:
            shown = given.encode(errors="backslashreplace").decode()
            raise InvalidInput("argument", shown, "text in UTF-8", "Rename the file or folder.") from error


def _complain(error: Any) -> None:  # noqa: ANN401 - click's class, wherever it is kept
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    where = f" `{context.command_path} --help` lists the options." if context is not None else ""
    typer.echo(f"error: {' '.join(error.format_message().split()).rstrip('.')}.{where}", err=True)


def flags_of(model: type[BaseModel], short: Mapping[str, str]) -> dict[str, str]:
    """Return the flag of every setting by its name. short: flags with shorter names."""
    return {setting.name: short.get(setting.name, setting.flag) for setting in settings_of(model)}


def with_settings(
    model: type[BaseModel], short: Mapping[str, str], *, only: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a function that becomes a command: it gets a flag for every setting of the model, is called with those
    that were given, and keeps its other parameters as further options. only: restricts the settings to these."""

    def decorate(work: Callable[..., None]) -> Callable[..., None]:
        offered = [one for one in settings_of(model) if not only or one.name in only]
        flags = flags_of(model, short)
        own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
        every = [*own, *(_parameter(setting, flags[setting.name]) for setting in offered)]

        def command(**values: object) -> None:
            found = {one.name: _value(one, flags[one.name], values.pop(_key(one), None)) for one in offered}
            work({name: value for name, value in found.items() if value is not None}, **values)

        command.__name__, command.__doc__ = work.__name__, work.__doc__
        kept = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in every]
        command.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in every}
        return command

    return decorate


def _key(setting: Setting) -> str:
    return "__".join(setting.path)


def _parameter(setting: Setting, flag: str) -> inspect.Parameter:
    kind = list[str] if setting.many else setting.kind
    about = setting.description + (f" One of {', '.join(setting.choices)}." if setting.choices else "")
    about += {"": "", "list": " Repeatable.", "table": " key=value, repeatable."}[setting.many]
    shown = f"{flag}/--no-{flag[2:]}" if setting.kind is bool else flag
    option = typer.Option(shown, help=about, rich_help_panel=setting.path[0] if setting.path[1:] else None)
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(_key(setting), inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _value(setting: Setting, flag: str, given: object) -> object:
    if given is None or (setting.many and not given):
        return None
    if setting.many == "table" and isinstance(given, list):
        return parse_pairs(flag.removeprefix("--"), given)
    return given
