"""Scenarios about the start: excessive plans, foreign models and names, terms that change later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np

from participant.decisions.layouts import floating_layout
from protocol.codec import encode
from protocol.limits import MIB
from protocol.messages import Compute, HelloRequired, Message, Reject, Sgd, Welcome
from protocol.tensors import Layout, TensorSet, WireTensor
from scripts.drill.hostile.false_coordinator import Play, Scenario
from scripts.drill.hostile.scripted_coordinator import FORBIDDEN_MODULE, NAME, RUN, FalseCoordinator, ScenarioData

REFUSED = "It says which field goes too far, leaves and ends with code 2; nothing is trained."
SGD: Mapping[str, Any] = {"learning_rate": 0.05, "batch_size": 16}


def frames_with(message: Message, change: Callable[[dict[str, Any]], None]) -> list[bytes]:
    """Encode a message with changed fields, bypassing all contracts."""
    header, *rest = [bytes(frame) for frame in encode(message)]
    major, minor, kind, fields = msgpack.unpackb(header, strict_map_key=False)
    change(fields)
    return [msgpack.packb([major, minor, kind, fields]), *rest]


def asking(**plan: object) -> Play:
    """Send only a welcome, with a plan that differs from the honest one."""

    def play(session: FalseCoordinator) -> None:
        session.welcome(session.data.plan(**plan))

    return play


def welcoming(**fields: Any) -> Play:  # noqa: ANN401
    def play(session: FalseCoordinator) -> None:
        session.welcome(**fields)

    return play


def _bn_too(data: ScenarioData) -> str:
    return floating_layout(data.home.spec).digest


def _all_tensors_shared(session: FalseCoordinator) -> None:
    session.welcome(session.data.plan(shared_layout=_bn_too(session.data)))


def _another_algorithm(session: FalseCoordinator) -> None:
    session.welcome(session.data.plan(strategy="fedavg", shared_layout=_bn_too(session.data)))


def _other_values(session: FalseCoordinator) -> None:
    session.welcome(initial=session.data.whole(lambda values: values + 0.25))


def _nan_values(session: FalseCoordinator) -> None:
    session.welcome(initial=session.data.whole(lambda values: values * np.nan))


def _other_tensors(session: FalseCoordinator) -> None:
    session.welcome(initial=TensorSet.of({"secret": np.zeros(3, dtype=np.float32)}))


def _giant_offer(session: FalseCoordinator) -> None:
    layout = Layout((WireTensor(name="fc.weight", dtype="float32", shape=(900 * MIB,)),))
    session.welcome(initial=TensorSet(layout=layout, data=None, transfer="ab" * 16))


def _malformed_then_honest(change: Callable[[dict[str, Any]], None]) -> Play:
    def play(session: FalseCoordinator) -> None:
        session.receive("hello")
        session.send_frames(frames_with(_any_welcome(session), change))
        session.send(_any_welcome(session))
        session.go_on_honestly()

    return play


def _any_welcome(session: FalseCoordinator) -> Message:
    return Welcome(
        run=RUN, participant=NAME, round_no=0, heartbeat_s=30.0, plan=session.data.plan(), initial=session.data.whole()
    )


def _set(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(fields: dict[str, Any]) -> None:
        fields[name] = value

    return change


def _changed_in_this_life(**others: object) -> Play:
    def play(session: FalseCoordinator) -> None:
        session.welcome()
        session.round(0)
        session.send(HelloRequired())
        plan = {key: value for key, value in others.items() if key != "participant"}
        name = {"participant": others["participant"]} if "participant" in others else {}
        session.welcome(session.data.plan(**plan), **name)

    return play


def _changed_after_restart(session: FalseCoordinator) -> None:
    session.welcome()
    session.round(0)
    session.send(Reject(code="full", reason="go away"))
    session.receive_the_end()
    session.start()
    session.welcome(session.data.plan(rounds=4, sgd=Sgd(**{**SGD, "epochs": 9})))


def _second_run_with_more(session: FalseCoordinator) -> None:
    session.welcome()
    session.round(0)
    session.send(HelloRequired())
    plan = session.data.plan(strategy="fedavg", shared_layout=_bn_too(session.data))
    session.welcome(plan, run="another-run", initial=session.data.whole())


def _refused(name: str, does: str, play: Play, words: str, *, updates: int = 0, **others: Any) -> Scenario:  # noqa: ANN401
    return Scenario(name=name, does=does, outcome=REFUSED, play=play, code=2, words=words, updates=updates, **others)


WELCOMES: tuple[Scenario, ...] = (
    _refused("algorithm", "The plan names an algorithm that shares batch norm.", _another_algorithm, "plan.strategy"),
    _refused(
        "module", "The plan's strategy is a module of the participant's machine.",
        asking(strategy=f"{FORBIDDEN_MODULE}:FedAp"), "plan.strategy",
    ),
    _refused(
        "module-unpinned", "The same, and the operator has not named an algorithm.",
        asking(strategy=f"{FORBIDDEN_MODULE}:FedAp"), "plan.strategy", settings={"algorithm": None},
    ),
    _refused("warmup-plan", "The plan has warm-up rounds, in which batch norm would leave.",
             asking(anchor="warmup", warmup_rounds=1), "plan.warmup_rounds"),
    _refused("covariance", "The plan asks for covariances beside means and variances.",
             asking(options={"full_covariance": True}), "full_covariance"),
    _refused("learning-rate", "The learning rate is 1000.",
             asking(sgd=Sgd(**{**SGD, "learning_rate": 1e3})), "plan.sgd.learning_rate"),
    _refused("epochs", "A round has 10,000 epochs.", asking(sgd=Sgd(**{**SGD, "epochs": 10_000})), "plan.sgd.epochs"),
    _refused("rounds", "The run has a million rounds.", asking(rounds=1_000_000), "plan.rounds"),
    _refused("allowed-rounds", "The run has more rounds than the operator allows.",
             asking(rounds=3), "--allow", settings={"allow": ["rounds<=2"]}),
    _refused("momentum", "Momentum is 0.99999.", asking(sgd=Sgd(**{**SGD, "momentum": 0.99999})), "plan.sgd.momentum"),
    _refused("weight-decay", "Weight decay is 1000.", asking(sgd=Sgd(**{**SGD, "weight_decay": 1e3})), "weight_decay"),
    _refused("work-limit", "A round may take a year.", asking(sgd=Sgd(**{**SGD, "work_limit_s": 3e7})), "work_limit_s"),
    _refused("threads", "Training takes 1,024 threads.", asking(compute=Compute(threads=1024)), "plan.compute.threads"),
    _refused("evaluation-batch", "Evaluation takes a million samples at once.",
             asking(compute=Compute(evaluation_batch_size=2**20)), "evaluation_batch_size"),
    _refused("fast-heartbeat", "Heartbeats are due every millisecond.", welcoming(heartbeat_s=0.001), "heartbeat_s"),
    _refused("slow-heartbeat", "Heartbeats are due once in a year.", welcoming(heartbeat_s=3e7), "heartbeat_s"),
    _refused("odd-options", "The plan's options name attributes of objects.",
             asking(options={"__class__": "os.system", "self_weight": 0.5}), "__class__"),
    _refused("many-options", "The plan has 64 options.",
             asking(options={f"option{number}": 1.0 for number in range(64)}), "plan.options"),
    _refused("share-all", "The plan says that all tensors are shared.", _all_tensors_shared, "plan.shared_layout"),
    _refused("reserved-run", "The run has the name of a file of the state folder.",
             welcoming(run="current"), "welcome.run"),
    _refused("name", "The welcome is for another participant.", welcoming(participant="someone"), "participant"),
    _refused("initial-values", "The initial model has other values than the participant's file.",
             _other_values, "welcome.initial"),
    _refused("initial-nan", "The initial model is NaN.", _nan_values, "welcome.initial"),
    _refused("giant-offer", "The initial model is offered with 3.5 GiB.", _giant_offer, ""),
    _refused("initial-tensors", "The initial model has other tensors.", _other_tensors, "welcome.initial"),
    _refused("changed-plan", "The coordinator asks for another hello and changes the plan.",
             _changed_in_this_life(rounds=4), "rounds 3 → 4", updates=1),
    _refused("changed-name", "The same, with another name for the participant.",
             _changed_in_this_life(participant="someone"), "participant", updates=1),
    _refused("changed-after-restart", "The participant starts again, and the plan has changed meanwhile.",
             _changed_after_restart, "--accept-plan", updates=1),
    _refused("second-run", "A second run begins, with an algorithm that shares batch norm.",
             _second_run_with_more, "plan.strategy", updates=1),
    _refused("second-run-unpinned", "The same, and the operator has not named an algorithm.",
             _second_run_with_more, "as in the previous run", updates=1, settings={"algorithm": None}),
    Scenario(name="traversal", does="The run's name is a path out of the state folder.",
             outcome="The message is not understood; the participant waits for one that is.",
             play=_malformed_then_honest(_set("run", "../../x"))),
    Scenario(name="no-plan", does="The welcome has no plan.",
             outcome="The message is not understood; the participant waits for one that is.",
             play=_malformed_then_honest(lambda fields: fields.pop("plan"))),
    Scenario(name="extra-field", does="The welcome has a field that does not exist.",
             outcome="The message is not understood; the participant waits for one that is.",
             play=_malformed_then_honest(_set("run_this", "import os"))),
)  # fmt: skip
