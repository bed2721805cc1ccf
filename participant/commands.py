"""The commands of `fedap-participant` beside `init`: options in, the room's functions called, lines out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedap_core.choosing import BEST
from fedap_core.errors import InvalidInput, parse_pairs
from participant.config import read_settings
from participant.data.base import DataOptions
from participant.joining import join as join_run
from participant.joining import open_home
from participant.privacy import describe
from participant.progress import configure_logging, is_terminal, watching
from participant.record.bundle import export_bundle, predict_csv
from participant.wire.keys import make_keys
from protocol.encodings import ENCODINGS

Config = Annotated[Path | None, typer.Option(help="TOML file with any of these settings; options win over it.")]
Data = Annotated[str | None, typer.Option(help="Known data set, path (.npz, .csv, folder) or package.module:factory.")]
DataOption = Annotated[list[str] | None, typer.Option(help="key=value for the data source; repeatable.")]
DataRoot = Annotated[Path | None, typer.Option(help="Folder of the data files (else FEDAP_DATA).")]
ModelFile = Annotated[Path | None, typer.Option(help="The federation's initial model file.")]
Model = Annotated[str | None, typer.Option(help="Or the model's name; its values then come from the coordinator.")]
Name = Annotated[str | None, typer.Option(help="What the participant calls itself.")]
Split = Annotated[str | None, typer.Option(help="paper or reference: the split that the first hello counts.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the split that the first hello counts.")]
Allow = Annotated[list[str] | None, typer.Option(help="What a plan may ask for, such as 'rounds<=200'; repeatable.")]
TrustCode = Annotated[list[str] | None, typer.Option(help="package.module:name of your own that a plan may use.")]
Share = Annotated[list[str] | None, typer.Option(help="class_counts: let class counts and confusion matrices leave.")]

LogFile = Annotated[Path | None, typer.Option(help="Write the log there instead of to stderr; put aside at 10 MB.")]


def join(
    coordinator: Annotated[str | None, typer.Option(help="tcp://host:port or ipc://path.")] = None,
    data: Data = None,
    model_file: ModelFile = None,
    model: Model = None,
    name: Name = None,
    keys: Annotated[Path | None, typer.Option(help="Own secret key file, of keygen.")] = None,
    coordinator_key: Annotated[str | None, typer.Option(help="The coordinator's public key, or a file of it.")] = None,
    state: Annotated[Path | None, typer.Option(help="Folder of all that must survive a crash.")] = None,
    config: Config = None,
    data_option: DataOption = None,
    data_root: DataRoot = None,
    split: Split = None,
    seed: Seed = None,
    share: Share = None,
    threads: Annotated[str | None, typer.Option(help="plan, or auto: all cores; no more reproducible bits.")] = None,
    also_local: Annotated[bool | None, typer.Option(help="Also train alone at home, for comparison.")] = None,
    insecure: Annotated[bool | None, typer.Option(help="Allow a line without keys to another machine.")] = None,
    give_up_s: Annotated[float | None, typer.Option(help="End after this long without a coordinator.")] = None,
    algorithm: Annotated[str | None, typer.Option(help="The only algorithm to take part in.")] = None,
    allow: Allow = None,
    trust_code: TrustCode = None,
    accept_plan: Annotated[str | None, typer.Option(help="Digest of a changed plan that you agree to.")] = None,
    log_file: LogFile = None,
) -> None:
    """Take part in a federation until it ends. May be killed and started again at any moment."""
    given: dict[str, object] = {
        "coordinator": coordinator,
        "data": data,
        "data_options": parse_pairs("data-option", data_option) if data_option else None,
        "data_root": data_root,
        "model_file": model_file,
        "model": model,
        "name": name,
        "keys": keys,
        "coordinator_key": coordinator_key,
        "state": state,
        "split": split,
        "seed": seed,
        "share": share,
        "threads": threads,
        "also_local": also_local,
        "insecure": insecure,
        "give_up_s": give_up_s,
        "algorithm": algorithm,
        "allow": allow,
        "trust_code": trust_code,
        "accept_plan": accept_plan,
    }
    settings = read_settings(config, given)
    terminal = is_terminal()
    configure_logging(terminal=terminal, file=log_file)
    with watching(terminal=terminal) as watch:
        end = join_run(settings, watch=watch)
    if end.code == 2:
        raise InvalidInput("join", settings.name, "a federation to take part in", end.reason)
    typer.echo(end.reason, err=end.code != 0)
    if end.code:
        raise typer.Exit(end.code)


def check(
    algorithm: Annotated[
        str | None, typer.Option(help="The algorithm that the federation will run; fedap unless the config says.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help="key=value of the algorithm; repeatable.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the federation.")] = 100,
    warmup_rounds: Annotated[int, typer.Option(min=0, help="Rounds that make the anchor.")] = 0,
    encoding: Annotated[str, typer.Option(help=f"One of {', '.join(ENCODINGS)}.")] = "f32",
    data: Data = None,
    model_file: ModelFile = None,
    model: Model = None,
    name: Name = None,
    config: Config = None,
    data_option: DataOption = None,
    data_root: DataRoot = None,
    split: Split = None,
    seed: Seed = None,
    share: Share = None,
    allow: Allow = None,
    trust_code: TrustCode = None,
) -> None:
    """Load the data, build the model, print what stays home, what leaves, what is allowed; refuse what cannot work."""
    given: dict[str, object] = {
        "coordinator": "tcp://127.0.0.1:1" if config is None else None,
        "data": data,
        "data_options": parse_pairs("data-option", data_option) if data_option else None,
        "data_root": data_root,
        "model_file": model_file,
        "model": model,
        "name": name or ("participant" if config is None else None),
        "split": split,
        "seed": seed,
        "share": share,
        "algorithm": algorithm,
        "allow": allow,
        "trust_code": trust_code,
    }
    settings = read_settings(config, given)
    allowance = settings.allowance()  # a wrong expression is said before any data is read
    home = open_home(settings)
    text = describe(
        home,
        settings,
        algorithm=settings.algorithm or "fedap",
        options=parse_pairs("option", option or []),
        rounds=rounds,
        warmup_rounds=warmup_rounds,
        encoding=encoding,
    )
    typer.echo(text)
    typer.echo("\na plan may ask for; anything else is refused, and ends the participant before it trains:")
    for line in allowance.lines():
        typer.echo(f"  {line}")


def keygen(
    name: Annotated[str, typer.Option(help="The participant's name.")],
    folder: Annotated[Path, typer.Option(help="Where to write NAME.key, readable by you alone.")] = Path("keys"),
) -> None:
    """Make a key pair; the public half goes to the coordinator's list of members."""
    made = make_keys(folder, name)
    typer.echo(f"secret, for --keys:            {made.secret_file}")
    typer.echo(f"line for the list of members:  {name} {made.public}")


def predict(
    model: Annotated[Path, typer.Option(help="A personal model or a bundle of export.")],
    data: Annotated[str, typer.Option(help="Samples: any data source, or an .npz with an array x alone.")],
    out: Annotated[Path, typer.Option(help="The csv to write.")],
    data_option: DataOption = None,
    data_root: DataRoot = None,
) -> None:
    """Write the personalised model's class probabilities for new samples."""
    options = DataOptions(root=data_root, options=parse_pairs("data-option", data_option or []))
    typer.echo(predict_csv(model, data, options, out))


def export(
    state: Annotated[Path, typer.Option(help="The folder that join used.")],
    out: Annotated[Path, typer.Option(help="The bundle to write (.safetensors).")],
    force: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
    which: Annotated[
        str, typer.Option(help="federated, fine-tuned, alone, or best: the one that your validation samples say.")
    ] = BEST,
    own: Annotated[bool, typer.Option(help="The model that your own training made last, before the last mix.")] = False,
) -> None:
    """Write the personalised model as one self-describing file: all weights, classes, provenance, metrics."""
    typer.echo(export_bundle(state, out, force=force, which=which, own=own))
