"""Pre-trained weights as the start of a federation, and networks of MONAI by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fedap_core.errors import InvalidInput
from fedap_core.models import ModelRequest, build_model
from fedap_core.nn.batchnorm import batch_norm_layers
from fedap_core.nn.heads import find_head
from participant.cli import main
from participant.record.model_file import read_model
from tests.support.cohorts import CommandOutcome, run_command


def init(out: Path, weights: Path, *, classes: int = 3) -> CommandOutcome:
    given = ["--data-option", "samples=20", "--data-option", f"classes={classes}"]
    return run_command(
        main, "init", "--data", "synthetic", "--model", "lenet5", "--weights", str(weights), "--out", str(out), *given
    )


def pretrained(classes: int = 3) -> dict[str, torch.Tensor]:
    return build_model("lenet5", ModelRequest(input_shape=(1, 16, 16), classes=classes), seed=9).state_dict()


@pytest.mark.parametrize("form", ["plain.pt", "nested.pth", "wrapped.pt", "tensors.safetensors"])
def test_weights_of_a_file_are_where_the_federation_begins(form: str, tmp_path: Path) -> None:
    state, path = pretrained(), tmp_path / form
    if form.startswith("nested"):
        torch.save({"state_dict": state, "epoch": 3}, path)
    elif form.startswith("wrapped"):
        torch.save({f"module.{name}": value for name, value in state.items()}, path)
    elif form.endswith("pt"):
        torch.save(state, path)
    else:
        save_file(state, path)
    made = init(tmp_path / "initial", path)
    assert made.code == 0, made.complaint
    assert "drawn anew" not in made.out
    _, found, _ = read_model(tmp_path / "initial")
    assert all(torch.equal(found[name], value) for name, value in state.items())


def test_a_head_for_other_classes_is_initialised_again_and_reported(tmp_path: Path) -> None:
    torch.save(pretrained(classes=7), tmp_path / "w.pt")
    made = init(tmp_path / "initial", tmp_path / "w.pt")
    assert "newly initialised, because the shapes differ: fc3.weight, fc3.bias" in made.out
    _, found, _ = read_model(tmp_path / "initial")
    assert found["fc3.weight"].shape == (3, 84)
    assert torch.equal(found["conv1.weight"], pretrained()["conv1.weight"])


class Anything:
    """An object that only an unrestricted reader would build."""


@pytest.mark.parametrize("what", ["missing", "misshapen", "unknown", "code", "garbage", "absent", "list", "nan"])
def test_a_file_that_does_not_fit_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    state, path = pretrained(), tmp_path / "w.pt"
    if what == "missing":
        del state["conv1.weight"]
    if what == "misshapen":
        state["conv1.weight"] = torch.zeros(3)
    if what == "unknown":
        state["conv9.weight"] = torch.zeros(3)
    if what == "nan":
        state["conv1.weight"][0] = float("nan")
    content = {"code": {"a": Anything()}, "list": [torch.zeros(1)]}.get(what, state)
    if what == "garbage":
        path.write_bytes(b"nothing of the kind")
    elif what != "absent":
        torch.save(content, path)
    refused = init(tmp_path / "initial", path)
    assert refused.is_one_clear_line, refused.complaint
    assert "w.pt" in refused.complaint
    assert not (tmp_path / "initial").exists()


def test_an_unknown_network_of_monai_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidInput, match="Did you mean 'monai:resnet18'"):
        build_model("monai:resnet-18", ModelRequest(input_shape=(1, 64, 64), classes=2), seed=0)
    with pytest.raises(InvalidInput, match="images or volumes for monai:resnet10"):
        build_model("monai:resnet10", ModelRequest(input_shape=(1, 64), classes=2), seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 64, 64), (1, 32, 32, 32)])
@pytest.mark.parametrize("name", ["densenet121", "resnet10", "seresnet50", "efficientnet-b0"])
def test_networks_of_monai_have_batch_norm_and_a_head_for_images_and_volumes(name: str, shape: tuple[int, ...]) -> None:
    request = ModelRequest(input_shape=shape, classes=3)
    model = build_model(f"monai:{name}", request, seed=4)
    assert len(batch_norm_layers(model)) >= 10
    assert model.eval()(torch.zeros(2, *shape)).shape == (2, 3)
    head = model.get_submodule(find_head(model, shape))
    assert isinstance(head, torch.nn.Linear)
    again = build_model(f"monai:{name}", request, seed=4)
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), again.parameters(), strict=True))
