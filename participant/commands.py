"""The commands of `fedap-participant` except `init`: read options, call the package's functions, print.

Modules that need torch are imported inside the commands that use them: importing torch takes seconds, and help, keys
and wrong settings should not wait for it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from fedap_core.choosing import BEST
from fedap_core.errors import InvalidInput, parse_pairs
from fedap_core.exit_codes import DONE, WRONG_INPUT
from participant.config import DataSettings, JoinSettings, read_settings
from participant.sealing.group_key import make_group_key, read_group_key
from participant.training.privacy_budget import StatisticsPrivacy, UpdatePrivacy
from participant.wire.keys import make_keys
from protocol.encodings import ENCODINGS
from protocol.host.command import (
    ExampleFlag,
    Given,
    PageCert,
    PageHost,
    PageToken,
    TableFlag,
    settings_text,
    with_settings,
)
from protocol.host.logs import make_output_unfailing
from protocol.host.open_files import require_open_files
from protocol.host.web.address import PageAddress
from protocol.limits import ROUNDS
from protocol.messages import Sealing

Config = Annotated[Path | None, typer.Option(help="TOML file with any of these settings; options override it.")]
DataOption = Annotated[list[str] | None, typer.Option(help="key=value for the data source; repeatable.")]
DataRoot = Annotated[Path | None, typer.Option(help="Folder of the data files; default: FEDAP_DATA.")]

ScoresTo = Literal["clear", "sealed"]

LEAST_FILES = 64
"""A participant opens about 30."""

SHORT = {
    "data_options": "--data-option",
    "outgoing_steps": "--outgoing-step",
    "page_hosts": "--page-host",
    "page_certificate": "--page-cert",
}
"""Flags whose names differ from their settings."""
PRIVACY = tuple(f"{kind.SECTION}.{name}" for kind in (StatisticsPrivacy, UpdatePrivacy) for name in kind.model_fields)
CHECKED = (
    *DataSettings.model_fields, "algorithm", "allow", "trust_code", "outgoing_steps", "group_key", "statistics_to",
    *PRIVACY,
)  # fmt: skip
"""The settings that `check` takes."""


@with_settings(JoinSettings, SHORT)
def join(given: Given, config: Config = None) -> None:
    """Take part in a federation until it ends. May be killed and restarted at any time."""
    make_output_unfailing()
    settings = read_settings(config, given)
    require_open_files(LEAST_FILES)
    from participant.joining import join as join_run
    from participant.progress import configure_logging, is_terminal, showing, watching

    terminal = is_terminal()
    configure_logging(terminal=terminal, file=settings.log_file)
    with watching(terminal=terminal) as watch, showing(settings.page_address(), settings.state) as note:
        end = join_run(settings, watch=lambda progress: (watch(progress), note(progress))[0])
    if end.code == WRONG_INPUT:
        raise InvalidInput("join", settings.name, "a federation to join", end.reason)
    typer.echo(end.reason, err=end.code != DONE)
    if end.code != DONE:
        sys.exit(end.code)


def page(
    state: Annotated[Path, typer.Option(help="The state folder that join uses.")],
    listen: Annotated[str, typer.Option(help="HOST:PORT of the page.")] = "127.0.0.1:8601",
    page_token: PageToken = None,
    page_host: PageHost = None,
    page_cert: PageCert = None,
) -> None:
    """Serve the web page of a running or finished participant. Only reads its folder."""
    from participant.page.reading import HomeFollower
    from participant.page.serving import home_page
    from protocol.host.web.serving import serve_page  # of the extra `page`

    HomeFollower(state).refresh()
    address = PageAddress(listen=listen, token=page_token, hosts=tuple(page_host or ()), certificate=page_cert)
    listening = address.bind()
    typer.echo(address.words(listening))
    serve_page(lambda: home_page(state), address, listening)


@with_settings(JoinSettings, SHORT, only=CHECKED)
def check(
    given: Given,
    config: Config = None,
    option: Annotated[list[str] | None, typer.Option(help="key=value of the algorithm; repeatable.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=ROUNDS, help="Rounds of the federation.")] = 100,
    warmup_rounds: Annotated[int, typer.Option(min=0, max=ROUNDS, help="Rounds that produce the anchor.")] = 0,
    encoding: Annotated[str, typer.Option(help=f"One of {', '.join(ENCODINGS)}.")] = "f32",
    scores: Annotated[
        ScoresTo, typer.Option(help="Whether the coordinator of a sealed run sees losses and scores.")
    ] = "clear",
) -> None:
    """Check data, model and settings, and print what stays, what is sent and what a plan may ask for."""
    if config is None:
        given = {"coordinator": "tcp://127.0.0.1:1", "name": "participant", **given}
    settings = read_settings(config, given)
    allowance = settings.allowance()  # report a wrong expression before reading any data
    from participant.joining import open_home
    from participant.privacy import describe

    home = open_home(settings)
    text = describe(
        home,
        settings,
        algorithm=settings.algorithm or "fedap",
        options=parse_pairs("option", option or []),
        rounds=rounds,
        warmup_rounds=warmup_rounds,
        encoding=encoding,
        statistics=settings.private_statistics,
        updates=settings.private_updates,
        steps=settings.outgoing_steps,
        sealing=_sealing_of(settings, scores),
    )
    typer.echo(text)
    typer.echo("\nlimits of a plan; a plan beyond them is refused before training, and the participant exits:")
    for line in allowance.lines():
        typer.echo(f"  {line}")


def _sealing_of(settings: JoinSettings, scores: str) -> Sealing | None:
    """Return the sealing of a run under this participant's group key; None without a key."""
    if settings.group_key is None:
        return None
    fingerprint = read_group_key(settings.group_key).fingerprint
    return Sealing(fingerprint=fingerprint, statistics_to=settings.statistics_to, scores=scores)


def keygen(
    name: Annotated[str, typer.Option(help="The participant's name.")],
    folder: Annotated[Path, typer.Option(help="Folder for NAME.key (secret) and NAME.pub.")] = Path("keys"),
) -> None:
    """Create a key pair; the public key goes to the coordinator's list of members."""
    made = make_keys(folder, name)
    typer.echo(f"{made.secret_file}: secret, for --keys; keep it here")
    typer.echo(f"{made.public_file}: public, for the coordinator's folder of members")
    typer.echo(f"or as a line of its list: {name} {made.public}")


def group_key(
    out: Annotated[Path, typer.Option(help="The key file to write, readable only by you.")] = Path("group.key"),
) -> None:
    """Create the common key of a sealed federation; give it to the other members, never to the coordinator."""
    made = make_group_key(out)
    typer.echo(f"secret, for --group-key of every member:  {out}")
    typer.echo(f"fingerprint, for sealing.group_key:       {made.fingerprint}")


def scores(
    folder: Annotated[Path, typer.Option(help="The coordinator's folder of the run, or a copy of it.")],
    key: Annotated[Path, typer.Option("--group-key", help="The members' common key.")],
    state: Annotated[Path, typer.Option(help="The state folder that join used.")] = Path("fedap-state"),
) -> None:
    """Print the scores of a run that seals them, as CSV."""
    from participant.sealing.opened_scores import scores_table

    typer.echo(scores_table(folder, state, key), nl=False)


def predict(
    model: Annotated[Path, typer.Option(help="A model file or bundle from export.")],
    data: Annotated[str, typer.Option(help="Samples, with labels or without: a file, a folder or any data source.")],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write; default: standard output.")] = None,
    data_option: DataOption = None,
    data_root: DataRoot = None,
) -> None:
    """Write class probabilities for new samples, by file name or id."""
    from participant.record.predictions import predict as predict_new
    from participant.record.predictions import write_predictions

    if out is not None and out.exists():
        for option, used in (("--model", model), ("--data", Path(data))):
            if used.exists() and used.samefile(out):
                raise InvalidInput("out", out, f"another file than {option}")
    found = predict_new(model, data, root=data_root, options=parse_pairs("data-option", data_option or []))
    if out is None:
        typer.echo(found.to_csv(), nl=False)
    else:
        write_predictions(out, found)
        typer.echo(f"{out}: {len(found.names)} samples, {len(found.classes)} classes")


def export(
    state: Annotated[Path, typer.Option(help="The state folder that join used.")],
    out: Annotated[Path, typer.Option(help="The file to write (.safetensors or .onnx), or the folder (monai).")],
    force: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
    which: Annotated[
        str, typer.Option(help="federated, fine-tuned, alone, or best: the best one on your validation samples.")
    ] = BEST,
    own: Annotated[bool, typer.Option(help="The model after your last local training, before the last mix.")] = False,
    form: Annotated[
        str | None,
        typer.Option("--format", help="safetensors, onnx or monai (a bundle); default: by the name of --out."),
    ] = None,
) -> None:
    """Write the personalised model as one self-describing file: all weights, classes, provenance, metrics."""
    from participant.record.bundle import export_bundle

    typer.echo(export_bundle(state, out, force=force, which=which, own=own, form=form))


def show_config(example: ExampleFlag = False, table: TableFlag = False) -> None:
    """Print every setting of join: as a file to fill in (--example), or as a Markdown table (--table)."""
    typer.echo(settings_text(JoinSettings, SHORT, example=example, table=table), nl=False)
