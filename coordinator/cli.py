"""The `fedap-coordinator` command: reads options, calls the package's functions, prints; decides nothing."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import structlog
import typer

from coordinator.config import RunConfig, make_config, read_config, require_safe
from coordinator.exporting import export_weights
from coordinator.model_checks import require_usable_models
from coordinator.observers.log_lines import configure_logs
from coordinator.record.backup import back_up
from coordinator.record.member_list import MemberList
from coordinator.run_plan import make_plan, make_rules, require_enough_listed
from coordinator.runs import open_run, plan_recovery, read_run
from coordinator.summaries import explain, history_lines, status_lines
from fedap_core.errors import InvalidInput, exit_on_invalid_input, parse_pairs
from protocol.host.keys import generate_keys, read_key_file, write_key_file

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file of the run; flags override its fields.")]
RunName = Annotated[str | None, typer.Option("--run", help="Name of the run: a-z, 0-9 and -.")]
RunFolder = Annotated[Path | None, typer.Option("--folder", help="Where the run is kept; a restart continues it.")]
Initial = Annotated[Path | None, typer.Option(help="Initial model file of `fedap-participant init`.")]
AlgorithmName = Annotated[str | None, typer.Option("--algorithm", help="fedap, d-fedap, f-fedap, fedavg, base, …")]
Option = Annotated[list[str] | None, typer.Option("--option", help="key=value for the algorithm; repeatable.")]
Rounds = Annotated[int | None, typer.Option(help="Rounds that each participant trains.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the run.")]
Mode = Annotated[str | None, typer.Option(help="barrier or continuous.")]
Member = Annotated[list[str] | None, typer.Option("--member", help="Name of a member, without keys; repeatable.")]
Endpoint = Annotated[str | None, typer.Option(help="Where to listen, such as tcp://127.0.0.1:5555 or ipc:///tmp/x.")]
Secret = Annotated[Path | None, typer.Option("--secret-key", help="Key file of `keygen`; turns encryption on.")]
Keys = Annotated[Path | None, typer.Option("--members", help="File with a line «name public-key» per member.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="Listen without keys where others can reach it.")]
LogFile = Annotated[
    Path | None, typer.Option("--log-file", help="Write the log to this file instead of stderr; rotated at 10 MB.")
]
ObserverName = Annotated[
    list[str] | None,
    typer.Option("--observer", help="package.module:factory of an observer of the run, which is imported; repeatable."),
]
Folder = Annotated[Path, typer.Argument(help="Folder of the run.")]

Given = Mapping[str, object]
"""Fields by name, as flags gave them."""


@app.callback()
def coordinator() -> None:
    """Coordinate a federation: who takes part, when a round closes, what is durable. Never sees data."""


Work = Callable[[RunConfig, Path | None, Path | None], None]
"""What a command does with a checked configuration, the file it came from, if it did, and the file for its log."""


def with_run_options(work: Work) -> Callable[..., None]:
    """The command that reads the options of a run and hands them on: typer takes options from a signature, and this
    one serves every command that is about a run to start."""

    def command(
        config: ConfigFile = None,
        run: RunName = None,
        folder: RunFolder = None,
        initial: Initial = None,
        algorithm: AlgorithmName = None,
        option: Option = None,
        rounds: Rounds = None,
        seed: Seed = None,
        mode: Mode = None,
        member: Member = None,
        endpoint: Endpoint = None,
        secret_key: Secret = None,
        members: Keys = None,
        insecure: Insecure = False,
        observer: ObserverName = None,
        log_file: LogFile = None,
    ) -> None:
        top: dict[str, object] = {"run": run, "folder": folder, "initial": initial, "rounds": rounds, "seed": seed}
        top |= {"mode": mode, "observers": observer}
        sections: dict[str, dict[str, object]] = {
            "algorithm": {"name": algorithm, "options": parse_pairs("option", option) if option else None},
            "members": {"names": member or None, "keys": members, "at_least": len(member) if member else None},
            "network": {"endpoint": endpoint, "secret_key": secret_key, "insecure": insecure or None},
        }
        work(_overlaid(config, top, sections), config, log_file)

    command.__name__, command.__doc__ = work.__name__, work.__doc__
    return command


def _overlaid(config: Path | None, top: Given, sections: Mapping[str, Given]) -> RunConfig:
    """The file's fields with those of the flags on top; None is «not given»."""
    fields = read_config(config).model_dump() if config is not None else {}
    fields |= {name: value for name, value in top.items() if value is not None}
    for section, values in sections.items():
        given = {name: value for name, value in values.items() if value is not None}
        if given:
            fields[section] = {**fields.get(section, {}), **given}
    return make_config(fields).inside(Path.cwd())


@app.command()
@with_run_options
def serve(settings: RunConfig, config: Path | None, log_file: Path | None) -> None:
    """Start or resume a run and serve it to its end. SIGTERM ends it after the round, a second SIGTERM at once."""
    configure_logs(settings.run, log_file)
    require_usable_models(settings)
    _allow_many_files()
    federation = open_run(settings, config_file=config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: federation.coordinator.request_stop())
    typer.echo(f"ready: run {settings.run} at {federation.endpoint}")
    sys.stdout.flush()
    stopped = federation.coordinator.run()
    counts = {**federation.exchange.counts, "cut": federation.exchange.cut_connections}
    structlog.get_logger().info("coordinator.ended", sentence=stopped.sentence, aborted=stopped.aborted, **counts)
    if stopped.halted:
        fix = f"The run is as it was; `fedap-coordinator recover {settings.folder}` says how to resume it."
        raise InvalidInput(str(settings.folder), stopped.sentence, "a run that can be resumed", fix)
    typer.echo(f"{'aborted' if stopped.aborted else 'ended'}: {stopped.sentence}")
    if stopped.aborted:
        raise typer.Exit(1)


def _allow_many_files() -> None:
    """A round opens an update and a row per member at once; take what the system grants without being asked."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@app.command()
@with_run_options
def check(settings: RunConfig, _config: Path | None, _log_file: Path | None) -> None:
    """Check a configuration and print who takes part, what stays at home and when rounds close. Starts nothing."""
    require_safe(settings.network)
    if settings.network.secret_key is not None:
        read_key_file(settings.network.secret_key)
    model = require_usable_models(settings)
    listed = MemberList(settings.members.keys) if settings.members.keys is not None else None
    plan = make_plan(settings, model.spec)
    rules = make_rules(settings, model.spec, listed)
    require_enough_listed(settings, listed)
    for line in explain(settings, plan, rules, model.spec):
        typer.echo(line)


@app.command()
def status(folder: Folder) -> None:
    """Print the state of a run and what it waits for. Works while it is running and afterwards."""
    for line in status_lines(read_run(folder)):
        typer.echo(line)


@app.command()
def replay(folder: Folder) -> None:
    """Print everything that happened in a run, in order, from its journal."""
    for line in history_lines(read_run(folder)):
        typer.echo(line)


@app.command()
def export(
    folder: Folder,
    participant: Annotated[str, typer.Option(help="Whose weights.")],
    out: Annotated[Path, typer.Option(help="The safetensors file to write.")],
    force: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
) -> None:
    """Write the shared weights that were last mixed for a participant. Its batch norm is its own and not in there."""
    if out.exists() and not force:
        raise InvalidInput("out", str(out), "a file that does not exist yet", "Use --force to replace it.")
    typer.echo(export_weights(read_run(folder), participant, out))


@app.command()
def backup(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="The folder to make.")],
) -> None:
    """Copy a run's folder while the run goes on, and check the copy. To restore it, copy it back."""
    typer.echo(back_up(folder, out, read_run(folder).machine.rules))


@app.command()
def recover(
    folder: Folder,
    yes: Annotated[bool, typer.Option("--yes", help="Carry out the steps.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the steps; the default.")] = False,
    accept_older: Annotated[
        bool, typer.Option("--accept-older", help="Go on from what members hold, though this folder lacks part of it.")
    ] = False,
    backup: Annotated[Path | None, typer.Option("--from", help="A backup to take missing files from.")] = None,
) -> None:
    """Print what is damaged in a run's folder and the steps to resume it; --yes does them. Nothing is deleted."""
    done = yes and not dry_run
    found = plan_recovery(folder, accept_older=accept_older, backup=backup, agreed=done)
    for line in found.lines():
        typer.echo(line)
    if found.asks:
        raise InvalidInput("folder", str(folder), found.expects, found.asks)
    typer.echo("done: `serve` resumes the run" if done else "nothing was changed: --yes carries out the steps")


@app.command()
def keygen(
    out: Annotated[Path, typer.Option(help="Key file to write, readable by you alone.")] = Path("coordinator.key"),
) -> None:
    """Make the coordinator's keys; participants are given the public one."""
    pair = generate_keys()
    write_key_file(out, pair)
    typer.echo(f"{out}: secret, keep it here")
    typer.echo(f"public key for participants: {pair.public}")


def main() -> None:
    """Entry point: wrong input ends in one line and exit code 2."""
    exit_on_invalid_input(app)


if __name__ == "__main__":
    main()
