"""Claims about the baseline: it is the same job, in stock layers."""

from __future__ import annotations

import pytest
import torch

from fedap_core.models import ModelRequest, build_model
from fedap_core.nn.state import model_entries
from scripts.bench.job import make_job
from scripts.bench.plain import plain_loop
from scripts.bench.plain_models import PLAIN_MODELS

SHAPES = {"lenet5": (1, 28, 28), "har-cnn": (27, 200), "alexnet": (1, 64, 64)}


@pytest.mark.parametrize("name", PLAIN_MODELS)
def test_plain_model_computes_what_ours_does_with_its_weights(name: str) -> None:
    """Same tensors in the same order; with ours copied in, the same logits up to float32 rounding."""
    ours = build_model(name, ModelRequest(input_shape=SHAPES[name], classes=5), 0)
    plain = PLAIN_MODELS[name](SHAPES[name][0], 5)
    tensors = model_entries(ours)
    assert [t.shape for t in tensors.values()] == [t.shape for t in plain.state_dict().values()]
    plain.load_state_dict(dict(zip(plain.state_dict(), tensors.values(), strict=True)))
    x = torch.randn(4, *SHAPES[name], generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(plain.train()(x), ours.train()(x), rtol=1e-4, atol=1e-4)


def test_plain_loop_learns() -> None:
    job = make_job(clients=1, samples=64)
    model = PLAIN_MODELS["lenet5"](1, 11)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    plain_loop(job, job.cohort.clients, lambda: model)()
    after = list(model.parameters())
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True) if new.dim() > 1)


def test_job_gives_every_client_its_samples_and_next_to_no_test() -> None:
    job = make_job(clients=3, samples=64)
    assert [len(client.splits["train"]) for client in job.cohort.clients] == [64, 64, 64]
    used = sorted(int(i) for client in job.cohort.clients for part in client.splits.values() for i in part)
    assert used == list(range(3 * 66))
