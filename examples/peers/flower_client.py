"""One client of the Flower job: receives the weights, makes one step on its 32 images, returns the weights."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from peer_job import LEARNING_RATE, SAMPLES, new_model, samples_of
from torch.nn import functional as F

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    model = new_model().train()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = samples_of(int(context.node_config["partition-id"]))
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimiser.step()
    metrics = MetricRecord({"loss": float(loss.detach()), "num-examples": SAMPLES})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
