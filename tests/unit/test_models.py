"""The models: shapes, parameter counts worked out by hand, smallest inputs, names, and where weights come from."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fedap_core.errors import InvalidInput
from fedap_core.models import MODELS, ModelRequest, build_model


def make_tiny(request: ModelRequest) -> nn.Module:
    """A user's factory, found by this module's name."""
    features = 1
    for size in request.input_shape:
        features *= size
    return nn.Sequential(nn.Flatten(), nn.Linear(features, request.classes))


def make_nothing(request: ModelRequest) -> object:
    return "not a model"


def parameters_of(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def flat_weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def request(*shape: int, classes: int) -> ModelRequest:
    return ModelRequest(input_shape=shape, classes=classes)


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("lenet5", (1, 28, 28), 11),
        ("lenet5", (3, 16, 16), 2),
        ("lenet5", (2, 33, 21), 5),
        ("har-cnn", (27, 200), 10),
        ("har-cnn", (1, 28), 2),
        ("har-cnn", (9, 129), 6),
        ("alexnet", (3, 63, 63), 4),
        ("alexnet", (1, 64, 80), 2),
        ("mlp", (1, 7), 3),
        ("mlp", (3, 16, 16), 2),
        ("cnn3d", (1, 16, 16, 16), 2),
        ("cnn3d", (2, 17, 24, 33), 5),
    ],
)
def test_every_model_answers_with_one_logit_per_class_and_trains_all_its_weights(
    name: str, shape: tuple[int, ...], classes: int
) -> None:
    model = build_model(name, request(*shape, classes=classes), seed=1)
    logits = model(torch.randn(3, *shape))
    assert logits.shape == (3, classes)
    logits.square().sum().backward()
    untouched = [
        key for key, value in model.named_parameters() if value.grad is None or not value.grad.isfinite().all()
    ]
    assert untouched == []


def test_lenet5_has_the_papers_parameters() -> None:
    """6*25+6=156, BN 12, 16*150+16=2416, BN 32, 256*120+120=30840, 120*84+84=10164, 84*11+11=935: 44555."""
    assert parameters_of(build_model("lenet5", request(1, 28, 28, classes=11), seed=0)) == 44_555


def test_har_cnn_has_the_papers_parameters() -> None:
    """27*16*9+16=3904, BN 32, 16*32*9+32=4640, BN 64, 32*44*64+64=90176, 64*10+10=650: 99466."""
    assert parameters_of(build_model("har-cnn", request(27, 200, classes=10), seed=0)) == 99_466


def test_mlp_has_the_parameters_of_its_layers() -> None:
    """10*64+64=704, BN 128, 64*32+32=2080, BN 64, 32*3+3=99: 3075."""
    assert parameters_of(build_model("mlp", request(1, 10, classes=3), seed=0)) == 3_075


def test_cnn3d_has_the_parameters_of_its_layers() -> None:
    """8*27+8=224, BN 16, 16*8*27+16=3472, BN 32, 32*16*27+32=13856, BN 64, 32*8*2+2=514: 18178."""
    assert parameters_of(build_model("cnn3d", request(1, 32, 32, 32, classes=2), seed=0)) == 18_178


def test_alexnet_has_about_57_million_parameters() -> None:
    """Convolutions 64*363+64=23296, 192*1600+192=307392, 384*1728+384=663936, 256*3456+256=884992,
    256*2304+256=590080; their BN 2*(64+192+384+256+256)=2304; linear 9216*4096+4096=37752832,
    4096*4096+4096=16781312, their BN 16384, 4096*4+4=16388: 57038916."""
    assert parameters_of(build_model("alexnet", request(3, 64, 64, classes=4), seed=0)) == 57_038_916


@pytest.mark.parametrize(
    ("name", "shape", "minimum"),
    [
        ("lenet5", (1, 15, 28), "(1, 16, 16)"),
        ("lenet5", (1, 28, 15), "(1, 16, 16)"),
        ("har-cnn", (27, 27), "(1, 28)"),
        ("alexnet", (3, 62, 63), "(1, 63, 63)"),
    ],
)
def test_an_input_too_small_for_the_model_is_refused_with_the_minimum(
    name: str, shape: tuple[int, ...], minimum: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        build_model(name, request(*shape, classes=3), seed=0)
    assert minimum in refusal.value.expected
    assert refusal.value.field == "model.input_shape"


@pytest.mark.parametrize(("name", "shape"), [("lenet5", (28, 28)), ("har-cnn", (27, 1, 200)), ("alexnet", (64,))])
def test_an_input_with_the_wrong_number_of_axes_is_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="axes"):
        build_model(name, request(*shape, classes=3), seed=0)


@pytest.mark.parametrize(("shape", "classes"), [((), 2), ((1, 0, 28), 2), ((1, 28, -1), 2), ((1, 28, 28), 1)])
def test_a_request_that_makes_no_sense_cannot_be_built(shape: tuple[int, ...], classes: int) -> None:
    with pytest.raises(InvalidInput):
        ModelRequest(input_shape=shape, classes=classes)


def test_an_unknown_name_lists_the_known_ones_and_the_nearest() -> None:
    with pytest.raises(InvalidInput) as refusal:
        build_model("lenet", request(1, 28, 28, classes=2), seed=0)
    assert all(name in str(refusal.value) for name in (*MODELS, "package.module:factory", "Did you mean 'lenet5'?"))


def test_a_users_factory_is_found_by_module_and_name() -> None:
    model = build_model(f"{__name__}:make_tiny", request(2, 3, classes=4), seed=0)
    assert parameters_of(model) == 6 * 4 + 4


@pytest.mark.parametrize(
    "name", ["no_such_package.models:net", ":net", ".relative:net", f"{__name__}:absent", "math:pi"]
)
def test_a_factory_that_cannot_be_found_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        build_model(name, request(2, 3, classes=4), seed=0)
    assert refusal.value.field == "model"
    assert "\n" not in str(refusal.value)


def test_a_factory_that_returns_no_module_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not str"):
        build_model(f"{__name__}:make_nothing", request(2, 3, classes=4), seed=0)


@pytest.mark.parametrize(("name", "shape"), [("lenet5", (1, 28, 28)), ("har-cnn", (9, 64))])
def test_weights_depend_on_the_seed_alone(name: str, shape: tuple[int, ...]) -> None:
    wanted = request(*shape, classes=3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        first = flat_weights(build_model(name, wanted, seed=5))
        torch.manual_seed(12)
        second = flat_weights(build_model(name, wanted, seed=5))
    assert torch.equal(first, second)
    assert not torch.equal(first, flat_weights(build_model(name, wanted, seed=6)))


def test_building_leaves_the_global_random_state_untouched() -> None:
    before = torch.get_rng_state()
    build_model("lenet5", request(1, 28, 28, classes=2), seed=5)
    assert torch.equal(before, torch.get_rng_state())
