"""Orders and welcomes as messages: finds the tensors that an action names, announces what is too large for a message.

Knows the plan and the model's forms, not the run. A row that is gone is not sent; its receiver asks again.
"""

from __future__ import annotations

import structlog

from coordinator.decisions.actions import Order, SendOrder, SendWelcome
from coordinator.record.model_forms import ModelForms, Payload
from coordinator.wire.deliveries import Deliveries
from coordinator.wire.exchange import Exchange
from fedap_core.errors import InvalidInput
from protocol.messages import Anchor, Finish, Message, Plan, Train, Welcome
from protocol.tensors import TensorSet

log = structlog.get_logger()


class Orders:
    """The sending half of a run."""

    def __init__(
        self, *, run: str, plan: Plan, heartbeat_s: float, forms: ModelForms, deliveries: Deliveries, exchange: Exchange
    ) -> None:
        self._run = run
        self._plan = plan
        self._heartbeat_s = heartbeat_s
        self._forms = forms
        self._deliveries = deliveries
        self._exchange = exchange

    def welcome(self, action: SendWelcome) -> None:
        """Say `welcome`, with the initial model where it is wanted."""
        payload = self._forms.initial() if action.initial else None
        if payload is not None:
            self._deliveries.offer(action.connection, payload, None)
        message = Welcome(
            run=self._run,
            participant=action.member,
            round_no=action.round_no,
            heartbeat_s=self._heartbeat_s,
            plan=self._plan,
            initial=payload.tensor_set() if payload is not None else None,
        )
        self._exchange.say_welcome(action.connection, action.member, message)

    def order(self, action: SendOrder) -> None:
        """Say `anchor`, `train` or `finish`."""
        order = action.order
        try:
            payload = self._payload(order)
            tensors = payload.tensor_set() if payload is not None else None
        except (InvalidInput, OSError) as error:
            log.error("order.withheld", participant=action.member, round=order.round_no, reason=str(error))
            return
        if payload is not None:
            self._deliveries.offer(action.connection, payload, order.step)
        self._exchange.say_order(action.connection, self._message(order, tensors), order.step)

    def _payload(self, order: Order) -> Payload | None:
        if order.weights is None:
            return None
        if order.kind == Anchor.KIND:
            return self._forms.whole_anchor(order.weights)
        return self._forms.weights(order.weights, order.phase)

    def _message(self, order: Order, weights: TensorSet | None) -> Message:
        if order.kind == Anchor.KIND:
            return Anchor(run=self._run, round_no=order.round_no, measure=str(order.measure), weights=weights)
        if order.kind == Finish.KIND:
            return Finish(run=self._run, round_no=order.round_no, reason=str(order.reason), weights=weights)
        if weights is None:
            weights = TensorSet.of({})
        phase, measure = str(order.phase), str(order.measure)
        return Train(run=self._run, round_no=order.round_no, phase=phase, measure=measure, weights=weights)
