"""The `fedap-participant` command: reads options, calls the package's functions and prints; decides nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedap_core.errors import parse_list, parse_pairs
from fedap_core.honest_step import NOTE
from fedap_core.models import MODELS
from fedap_core.parts import Part
from participant import commands
from participant.data import load_dataset
from participant.data.base import DataOptions
from participant.data.formats import formats_text
from protocol.host.command import VersionFlag, require_free, run_app

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def participant(_version: VersionFlag = False) -> None:
    """Run a hospital's side of a federation. Its data never leave the machine."""


@app.command()
def init(
    data: Annotated[str, typer.Option(help="Data that determine input shape and classes; no samples are stored.")],
    model: Annotated[str, typer.Option(help=f"{', '.join(MODELS)}, monai:NAME or package.module:factory.")],
    out: Annotated[Path, typer.Option(help="The model file to write.")] = Path("initial.safetensors"),
    classes: Annotated[
        str | None, typer.Option(help="Classes of all hospitals, in order, as in a,b,c; default: those of the data.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the initial weights.")] = 0,
    weights: Annotated[
        Path | None, typer.Option(help="Pre-trained weights to start from: .safetensors, or a torch state_dict.")
    ] = None,
    head: Annotated[
        list[str] | None, typer.Option(help="Name of the classification layer, if it is not found automatically.")
    ] = None,
    data_root: Annotated[Path | None, typer.Option(help="Folder of the data files; default: FEDAP_DATA.")] = None,
    data_option: Annotated[list[str] | None, typer.Option(help="key=value for the data source; repeatable.")] = None,
    measure_step: Annotated[
        bool, typer.Option(help="Train one round on all of the data to record the size of honest updates.")
    ] = False,
    epochs: Annotated[int, typer.Option(help="With --measure-step: epochs of that round.", min=1)] = 1,
    force: Annotated[bool, typer.Option(help="Replace an existing file.")] = False,
) -> None:
    """Write the initial model file of a federation."""
    require_free(out, force=force)
    dataset = load_dataset(data, DataOptions(root=data_root, options=parse_pairs("data-option", data_option or [])))
    if classes is not None:
        dataset = dataset.with_classes(parse_list("classes", classes))
    # importing torch takes seconds: report wrong input first
    from participant.record.model_file import make_initial, write_model
    from participant.record.weights import with_weights
    from participant.training.honest_step import measure_step as measure

    spec, state = make_initial(
        model,
        input_shape=dataset.input_shape,
        classes=dataset.classes,
        preprocessing=dataset.preprocessing,
        seed=seed,
        head=tuple(head or ()),
    )
    fresh: tuple[str, ...] = ()
    if weights is not None:
        state, fresh = with_weights(spec, state, weights)
    measured = measure(dataset, spec, state, epochs=epochs) if measure_step else None
    write_model(out, spec, state, {NOTE: measured.note()} if measured is not None else None)
    sizes = {part: sum(tensor.size for tensor in spec.tensors if tensor.part is part) for part in Part}
    typer.echo(
        f"{out}: {model} for {len(spec.classes)} classes, input {spec.input_shape}, head {', '.join(spec.head)}; "
        f"values: body {sizes[Part.BODY]:,}, head {sizes[Part.HEAD]:,}, batch norm {sizes[Part.BATCH_NORM]:,}"
    )
    if weights is not None:
        drawn = f"; newly initialised, because the shapes differ: {', '.join(fresh)}" if fresh else ""
        typer.echo(f"weights of {weights}{drawn}")
    if measured is not None:
        admitted = f"updates up to {measured.bound():.3g} lengths will be admitted (more with momentum across rounds)"
        typer.echo(f"one round of training: {measured}; {admitted}")


@app.command()
def formats() -> None:
    """Print every data format with its options and an example."""
    typer.echo(formats_text())


for command in (
    commands.join,
    commands.page,
    commands.check,
    commands.keygen,
    commands.group_key,
    commands.scores,
    commands.predict,
    commands.export,
):
    app.command()(command)
app.command("config")(commands.show_config)


def main() -> None:
    """Entry point: wrong input gives a one-line error and exit code 2."""
    run_app(app)


if __name__ == "__main__":
    main()
