"""The job on Flower's simulation engine (Ray): FedAvg, two actors of one core each."""

from __future__ import annotations

import torch
from flower_client import app as client_app
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from peer_job import CHOSEN, CLIENTS, ROUNDS, new_model, tell_round

server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:  # noqa: ARG001 - Flower's signature
    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:  # noqa: ARG001 - Flower's signature
        tell_round(number)
        return MetricRecord({"seen": 1.0})

    strategy = FedAvg(fraction_train=CHOSEN / CLIENTS, fraction_evaluate=0.0, min_available_nodes=CLIENTS)
    arrays = ArrayRecord(new_model().state_dict())
    strategy.start(grid=grid, initial_arrays=arrays, num_rounds=ROUNDS, evaluate_fn=evaluate)


if __name__ == "__main__":
    torch.set_num_threads(1)
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    run_simulation(server_app, client_app, num_supernodes=CLIENTS, backend_config=resources)
