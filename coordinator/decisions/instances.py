"""Which of two processes with one name or key is admitted: the one that holds it, as long as it is alive.

An installation is known by the digest of the token in its hello, a process of it by the number there. Pure: what is
known of a member and of its connection in, a refusal or None out. Without keys a name is all that somebody has, so
strikes belong to the installation that earned them, and who held a name before another one had it excluded may have it
back; a key answers for whoever uses it.
"""

from __future__ import annotations

import hashlib

from coordinator.decisions.roster import Link
from coordinator.decisions.state import Member
from protocol.messages import Reject

REMEMBERED = 8
"""Processes whose strikes are kept for a name without a key: the first that had it, and the latest ones."""

TRADES = 5
"""How often a process may take a name back from another one of the same token. A restarted one has a new number and
takes it once; a hello of a dead one that was under way does so once, and is repeated a few times at most; two processes
with one state folder never end. However often the network trades connections of one process, it is no copy of itself.
Without a number, connections are counted in place of processes."""

TOLD_EVERY_S = 600.0
"""A contested name is journalled and told to its holder at most this often: whoever contests it may go on for ever."""


def digest_of(token: str) -> str:
    """What is kept and shown of a token."""
    return hashlib.blake2b(token.encode(), digest_size=8).hexdigest()


def refuse_rival(
    member: Member,
    link: Link | None,
    instance: str,
    process: str,
    *,
    now: float,
    dead_after_s: float,
) -> Reject | None:
    """Why a process may not have a member's place; None: it has it already, or nobody else does any more.

    process: its number, or without one its connection.
    """
    if link is None or not member.is_active or now >= link.heard_at + dead_after_s:
        return None
    if instance == member.instance or not member.instance:
        is_traded = process != link.process and link.replaced.count(process) >= TRADES
        return _copied(member, link) if is_traded else None
    silent_s = now - link.heard_at
    wait_s = max(dead_after_s - silent_s, 0.01)
    reason = (
        f"the name {member.name}, or its key, is in use: process {member.instance} has had it for"
        f" {now - member.held_since:.0f} s and was heard {silent_s:.1f} s ago, this is process {instance}; end one of"
        " the two, or give this one another --name, --state and key. If the other one is dead and this one, with a new"
        f" --state folder, is to replace it: without a sign of life from it the name is free in {wait_s:.0f} s"
    )
    return Reject(code="name-in-use", reason=reason[:500], wait_s=wait_s)


def _copied(member: Member, link: Link) -> Reject | None:
    """To a process that others of the same token have replaced again and again: one that was restarted says nothing
    more, and what a network delays or repeats of it comes to an end."""
    if link.connection is None:
        return None
    reason = (
        f"the name {member.name} was taken over by another process with a copy of this one's --state folder (process"
        f" {member.instance}); end one of the two, or give one another --name, --state and key"
    )
    return Reject(code="name-in-use", reason=reason[:500])


def may_reclaim(member: Member, instance: str, strikes: int) -> bool:
    """Whether somebody excluded may come back: not the process that was, but one that had the name before it, where no
    key says that both are the same participant."""
    if has_key(member) or instance == member.instance:
        return False
    return member.earlier_strikes.get(instance, strikes) < strikes


def is_same(member: Member, instance: str) -> bool:
    """Whether a process is the participant that the member has been so far, as far as anything tells."""
    return has_key(member) or instance == member.instance


def has_key(member: Member) -> bool:
    """Whether more than its name says who it is."""
    return member.identity != member.name


def hand_over(before: Member, member: Member, instance: str, now: float) -> None:
    """Let `member` be what another process finds where `before` was; both may be the same record."""
    if instance == before.instance:
        member.instance, member.held_since = before.instance, before.held_since
        member.strikes, member.earlier_strikes = before.strikes, before.earlier_strikes
        return
    kept = dict(before.earlier_strikes)
    found = before.strikes
    if not has_key(before) and before.instance:
        kept[before.instance] = before.strikes
        found = kept.pop(instance, 0)
        while len(kept) > REMEMBERED:
            del kept[list(kept)[1]]
    member.strikes, member.earlier_strikes = found, kept
    member.instance, member.held_since = instance, now
