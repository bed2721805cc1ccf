"""Describes facts as sentences, without their time. Rounds count from 1."""

from __future__ import annotations

import dataclasses
from functools import partial

from coordinator.decisions import facts
from fedap_core.errors import shortened

_names = partial(shortened, most=6)


def sentence_of(fact: facts.Fact) -> str:
    """Return a sentence for a fact."""
    if isinstance(fact, facts.MemberFact):
        return _of_member(fact)
    if isinstance(fact, facts.RunFact):
        return _of_run(fact)
    match fact:
        case facts.EnrolmentClosed():
            return f"enrolment closed: {fact.reason}"
        case facts.MeasuringOpened():
            return f"members measure statistics before round {fact.round_no + 1}"
        case facts.RoundClosed():
            missing = f"; missing {_names(fact.missing)}" if fact.missing else ""
            return f"round {fact.round_no + 1} closed: {len(fact.reported)} updates{missing}"
        case facts.Weighed():
            return f"mixing weights of {len(fact.members)} members were computed"
        case facts.CaughtUp():
            return f"round {fact.round_no + 1} is open again, recovered from the members"
        case facts.StatisticsLost():
            return f"statistics of {fact.member} were damaged; it measures again"
        case facts.GoodbyeAccepted():
            return f"{fact.member} has its last model"
        case _:
            return _plainly(fact)


def _of_run(fact: facts.RunFact) -> str:
    match fact:
        case facts.Began():
            return f"run {fact.run} began"
        case facts.StopAsked():
            return "the operator asked the run to stop"
        case facts.Paused():
            return f"paused: {fact.reason or 'too little disk is free'}"
        case facts.Resumed():
            return "resumed: there is free disk space again"
        case facts.Finished():
            return fact.sentence
        case facts.Ended():
            return f"ended; {_names(fact.absent)} did not fetch the last model" if fact.absent else "ended"
        case facts.AllowListSet():
            return f"the list of members changed: {len(fact.allowed)} members"


def _of_member(fact: facts.MemberFact) -> str:
    match fact:
        case facts.Joined():
            return f"{fact.member} joined: {fact.train_samples} training and {fact.test_samples} test samples"
        case facts.Returned():
            return f"{fact.member} is back"
        case facts.Contested():
            return f"another process tried to join as {fact.member} and was refused"
        case facts.Lost():
            return f"{fact.member} has been silent for {fact.silent_s:.0f} s; the run no longer waits for it"
        case facts.Left():
            return f"{fact.member} left: {fact.reason}"
        case facts.Refused():
            return f"a message of {fact.member} was refused: {fact.reason}"
        case facts.Quarantined():
            word = "removed" if fact.code == "unknown-key" else "excluded"
            return f"{fact.member} was {word}: {fact.reason}"


def _plainly(fact: facts.Fact) -> str:
    fields = ((one.name, getattr(fact, one.name)) for one in dataclasses.fields(fact))
    return ", ".join(f"{name} {value}" for name, value in fields if isinstance(value, str | int | float))
