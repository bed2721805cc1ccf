"""The `fedap-coordinator` command: reads options, calls the package's functions, prints; decides nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import structlog
import typer

from coordinator.config import RunConfig, overlaid, require_safe
from coordinator.exporting import export_weights
from coordinator.link_estimate import LinkSpeeds, link_lines
from coordinator.model_checks import require_usable_models
from coordinator.observers.log_lines import configure_logs
from coordinator.record.backup import back_up
from coordinator.record.member_list import MemberList
from coordinator.run_plan import make_plan, make_rules, require_enough_listed, with_measured_step
from coordinator.runs import open_run, plan_recovery, read_run
from coordinator.summaries import explain, history_lines, link_job, measured_step_lines
from coordinator.supervisor import Supervisor, find_runs
from coordinator.watching.following import RunFollower
from coordinator.watching.status import status_texts
from fedap_core.errors import InvalidInput
from fedap_core.exit_codes import FAILED
from protocol.host.command import (
    ExampleFlag,
    Given,
    PageCert,
    PageHost,
    PageToken,
    TableFlag,
    VersionFlag,
    require_free,
    run_app,
    settings_text,
    with_settings,
)
from protocol.host.keys import make_key_file, read_key_file
from protocol.host.logs import make_output_unfailing
from protocol.host.web.address import PageAddress

if TYPE_CHECKING:
    from protocol.host.web.serving import PageProcess

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

ConfigFile = Annotated[Path | None, typer.Option("--config", help="TOML file of the run; flags override its fields.")]
RunsFolder = Annotated[
    Path | None, typer.Option("--runs", help="Serve every .toml file of this folder, each run in its own process.")
]
MemberLink = Annotated[
    str | None,
    typer.Option("--link", help="Estimate round times for members with links of this speed, such as 10Mbit/s."),
]
CoordinatorLink = Annotated[
    str | None,
    typer.Option(
        "--coordinator-link", help="Speed of the coordinator's link, which all members share; default: unlimited."
    ),
]
EpochSeconds = Annotated[
    float | None,
    typer.Option("--epoch-seconds", help="With --link: seconds per epoch at the slowest member.", min=0.001),
]
Folder = Annotated[Path, typer.Argument(help="Folder of the run.")]

SHORT = {
    "algorithm.name": "--algorithm",
    "algorithm.options": "--option",
    "members.keys": "--members",
    "members.names": "--member",
    "network.endpoint": "--endpoint",
    "network.insecure": "--insecure",
    "network.secret_key": "--secret-key",
    "observers": "--observer",
    "page.listen": "--page",
    "page.hosts": "--page-host",
    "page.certificate": "--page-cert",
}
"""Flags with shorter names than their section and field."""


@app.callback()
def coordinator(_version: VersionFlag = False) -> None:
    """Run the coordinator of a federation: admit members, close rounds, mix weights. It never sees data."""


@app.command()
@with_settings(RunConfig, SHORT)
def serve(given: Given, config: ConfigFile = None, runs: RunsFolder = None) -> None:
    """Start or resume a run. SIGTERM ends it after the current round, a second SIGTERM at once."""
    make_output_unfailing()
    if runs is not None:
        _supervise(runs, alone=config is None and not given)
    settings = overlaid(config, given)
    configure_logs(settings.run, settings.log_file)
    require_usable_models(settings)
    page = _start_page(settings)
    federation = open_run(settings, config_file=config)
    _on_stop(federation.coordinator.request_stop, "the run ends after the current round")
    typer.echo(f"ready: run {settings.run} at {federation.endpoint}")
    if page is not None:
        typer.echo(page.words)
    stopped = federation.coordinator.run()
    if page is not None:
        page.close()
    counts = {**federation.exchange.counts, "cut": federation.exchange.cut_connections}
    structlog.get_logger().info("coordinator.ended", sentence=stopped.sentence, aborted=stopped.aborted, **counts)
    if stopped.halted:
        fix = f"The run was not changed; `fedap-coordinator recover {settings.folder}` prints how to resume it."
        raise InvalidInput(str(settings.folder), stopped.sentence, "a run that can be resumed", fix)
    typer.echo(f"{'aborted' if stopped.aborted else 'ended'}: {stopped.sentence}")
    if stopped.aborted:
        raise typer.Exit(FAILED)


def _start_page(settings: RunConfig) -> PageProcess | None:
    """Start the run's page if one is configured; a wrong address is refused before anything else happens."""
    address = settings.page.address()
    if address is None:
        return None
    from protocol.host.web.serving import start_page_process  # of the extra `page`

    return start_page_process("coordinator.page", address, {"folder": str(settings.folder)})


def _supervise(folder: Path, *, alone: bool) -> None:
    if not alone:
        raise InvalidInput("runs", "other options as well", "--runs alone", "Settings are read from the files.")

    supervisor = Supervisor(find_runs(folder), typer.echo)
    _on_stop(supervisor.request_stop, "every run ends after its current round")
    raise typer.Exit(supervisor.run())


def _on_stop(stop: Callable[[], None], words: str) -> None:
    """On SIGTERM and Ctrl-C: request a stop, and print at once what will happen, because a round may take hours."""
    answers = [f"stopping: {words}; a second signal stops at once\n", "stopping at once\n"]

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop()
        if answers:
            with contextlib.suppress(OSError):
                os.write(sys.stdout.fileno(), answers.pop(0).encode())  # unbuffered: it may interrupt a print

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


@app.command()
@with_settings(RunConfig, SHORT)
def check(
    given: Given,
    config: ConfigFile = None,
    link: MemberLink = None,
    coordinator_link: CoordinatorLink = None,
    epoch_seconds: EpochSeconds = None,
) -> None:
    """Check a configuration and print who takes part, what stays local and when rounds close. Starts nothing.

    With --link, also estimate how long rounds take and how many bytes are sent, and suggest settings.
    """
    settings = overlaid(config, given)
    require_safe(settings.network)
    if settings.network.secret_key is not None:
        read_key_file(settings.network.secret_key)
    settings.page.address()  # refuses what `serve` would refuse
    if link is None and (coordinator_link is not None or epoch_seconds is not None):
        raise InvalidInput("link", "none", "the speed of a member's link with these options, such as 10Mbit/s")
    speeds = None if link is None else LinkSpeeds.parse(link, coordinator_link, epoch_seconds)
    model = require_usable_models(settings)
    listed = MemberList(settings.members.keys) if settings.members.keys is not None else None
    plan = make_plan(settings, model.spec)
    rules = make_rules(with_measured_step(settings, plan, model), model.spec, listed)
    require_enough_listed(settings, listed)
    for line in (*explain(settings, plan, rules, model.spec), *measured_step_lines(settings, plan, model)):
        typer.echo(line)
    if speeds is not None:
        for line in link_lines(link_job(plan, rules, model.spec, speeds)):
            typer.echo(line)


@app.command("config")
def show_config(example: ExampleFlag = False, table: TableFlag = False) -> None:
    """Print every setting of a run: as a file to fill in (--example), or as a Markdown table (--table)."""
    typer.echo(settings_text(RunConfig, SHORT, example=example, table=table), nl=False)


@app.command()
def status(
    folder: Folder,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Print again whenever the state changes, until the run has ended.")
    ] = False,
) -> None:
    """Print the state of a run and what it waits for. Works while it is running and afterwards."""
    for text in status_texts(folder, as_json=as_json, watch=watch):
        if watch and sys.stdout.isatty() and not as_json:
            typer.echo("\x1b[2J\x1b[H", nl=False)  # clears the terminal
        typer.echo(text)


@app.command()
def page(
    folder: Folder,
    listen: Annotated[str, typer.Option(help="HOST:PORT of the page.")] = "127.0.0.1:8600",
    page_token: PageToken = None,
    page_host: PageHost = None,
    page_cert: PageCert = None,
) -> None:
    """Serve the web page of a running or finished run. Only reads the run's folder."""
    from coordinator.page.serving import run_page  # of the extra `page`
    from protocol.host.web.serving import serve_page

    RunFollower(folder).refresh()
    address = PageAddress(listen=listen, token=page_token, hosts=tuple(page_host or ()), certificate=page_cert)
    listening = address.bind()
    typer.echo(address.words(listening))
    serve_page(lambda: run_page(folder), address, listening)


@app.command()
def replay(folder: Folder) -> None:
    """Print everything that happened in a run, in order, from its journal."""
    for line in history_lines(read_run(folder)):
        typer.echo(line)


@app.command()
def export(
    folder: Folder,
    participant: Annotated[str, typer.Option(help="Name of the participant.")],
    out: Annotated[Path, typer.Option(help="The safetensors file to write.")],
    force: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
) -> None:
    """Write the weights that were last mixed for a participant, without its local batch norm."""
    require_free(out, force=force)
    typer.echo(export_weights(read_run(folder), participant, out))


@app.command()
def backup(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="The folder to create.")],
) -> None:
    """Copy the folder of a run, also while it is running, and verify the copy. To restore it, put it in its place."""
    typer.echo(back_up(folder, out, read_run(folder).machine.rules))


@app.command()
def recover(
    folder: Folder,
    yes: Annotated[bool, typer.Option("--yes", help="Carry out the steps.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the steps; the default.")] = False,
    accept_older: Annotated[
        bool, typer.Option("--accept-older", help="Continue from the members' state although this folder is older.")
    ] = False,
    backup: Annotated[Path | None, typer.Option("--from", help="Backup to restore missing files from.")] = None,
) -> None:
    """Print what is damaged in a run's folder and how to repair it; --yes repairs it. Nothing is deleted."""
    done = yes and not dry_run
    found = plan_recovery(folder, accept_older=accept_older, backup=backup, agreed=done)
    for line in found.lines():
        typer.echo(line)
    if found.asks:
        raise InvalidInput("folder", str(folder), found.expects, found.asks)
    typer.echo("done; resume the run with `serve`" if done else "nothing was changed; carry out the steps with --yes")


@app.command()
def keygen(
    out: Annotated[
        Path, typer.Option(help="Secret key file to write; the public key goes to NAME.pub next to it.")
    ] = Path("coordinator.key"),
) -> None:
    """Create the coordinator's key pair; participants need the public key."""
    _, public = make_key_file(out)
    typer.echo(f"{out}: secret, for --secret-key; keep it here")
    typer.echo(f"{public}: public, for every participant's --coordinator-key")


def main() -> None:
    """Entry point: wrong input ends in one line and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
