"""The job on pfl-research: FedAvg in one process, which trains the clients one after another in one model."""

from __future__ import annotations

import os

import torch
from peer_job import CHOSEN, CLIENTS, LEARNING_RATE, ROUNDS, SAMPLES, new_model, samples_of, tell_round
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F


class Trained(nn.Module):
    """LeNet-5 with the two methods that pfl requires."""

    def __init__(self) -> None:
        super().__init__()
        self.model = new_model()

    def loss(self, x: Tensor, y: Tensor, is_eval: bool = False) -> Tensor:
        self.model.train(not is_eval)
        return F.cross_entropy(self.model(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, float]:
        return {"loss": float(self.loss(x, y, is_eval=True))}


class Clock(TrainingProcessCallback):
    """Records the end of every round."""

    def after_central_iteration(
        self, _metrics: Metrics, _model: object, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        tell_round(central_iteration)
        return False, Metrics()


def main() -> None:
    torch.set_num_threads(int(os.environ.get("PEER_THREADS", "2")))
    model = Trained()
    wrapped = PyTorchModel(model, torch.optim.SGD, torch.optim.SGD(model.parameters(), lr=1.0))
    sampler = get_user_sampler("minimize_reuse", list(range(CLIENTS)))
    data = FederatedDataset(lambda client: Dataset(samples_of(client)), sampler)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=ROUNDS, evaluation_frequency=ROUNDS + 1, train_cohort_size=CHOSEN, val_cohort_size=0
        ),
        backend=SimulatedBackend(training_data=data, val_data=data),
        model=wrapped,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=LEARNING_RATE, local_batch_size=SAMPLES
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=SAMPLES),
        callbacks=[Clock()],
    )


if __name__ == "__main__":
    main()
