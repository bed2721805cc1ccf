"""Decides which of two processes with one name or key is admitted: the one that holds it, as long as it is alive.

An installation is identified by the digest of the token in its hello, one of its processes by the number there. Pure:
takes a member and its connection, returns a refusal or None. Without keys, a name is the only identity, so strikes
belong to the installation that got them, and one that held the name before another had it excluded may reclaim it; with
keys, all processes that use a key count as one participant.
"""

from __future__ import annotations

import hashlib

from coordinator.decisions.roster import Link
from coordinator.decisions.state import Member
from protocol.messages import Reject

REMEMBERED = 8
"""Earlier installations whose strikes are kept for a name without a key: the first one, and the latest."""

TRADES = 5
"""How often a process may take a name back from another one with the same token. A restarted process has a new number
and takes the name once; a delayed hello of a dead process takes it once, and is repeated a few times at most; two
processes with one state folder never stop. New connections of one process do not count, however many there are. Without
a number, connections are counted instead of processes."""

CONTESTED_EVERY_S = 600.0
"""A contested name is journalled, and its holder warned, at most this often: the other process may retry for ever."""


def digest_of(token: str) -> str:
    """Return the digest of a token, which is stored and shown instead of the token."""
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
    """Return why a process may not use a member's name; None: it already holds the name, or no other process does.

    process: its number, or without one its connection.
    """
    if link is None or not member.is_active or now >= link.received_at + dead_after_s:
        return None
    if instance == member.instance or not member.instance:
        is_traded = process != link.process and link.replaced.count(process) >= TRADES
        return _copied(member, link) if is_traded else None
    silent_s = now - link.received_at
    wait_s = max(dead_after_s - silent_s, 0.01)
    reason = (
        f"the name {member.name}, or its key, is in use by process {member.instance}, for"
        f" {now - member.held_since:.0f} s, last message {silent_s:.1f} s ago; this is process {instance}. Stop one of"
        " them, or give this one another --name, --state and key. If the other one is dead and this one, with a new"
        f" --state folder, replaces it: the name is free in {wait_s:.0f} s unless the other one sends a message"
    )
    return Reject(code="name-in-use", reason=reason[:500], wait_s=wait_s)


def _copied(member: Member, link: Link) -> Reject | None:
    """Refuse a process that others with the same token have replaced repeatedly. After a restart the old process is
    silent, and its delayed or repeated messages come to an end."""
    if link.connection is None:
        return None
    reason = (
        f"the name {member.name} was taken over by another process with a copy of this one's --state folder (process"
        f" {member.instance}); stop one of them, or give one another --name, --state and key"
    )
    return Reject(code="name-in-use", reason=reason[:500])


def may_reclaim(member: Member, instance: str, strikes: int) -> bool:
    """Whether an excluded member's name may be reclaimed: not by the excluded installation, but by one that held the
    name before it, unless a key shows that both are the same participant."""
    if has_key(member) or instance == member.instance:
        return False
    return member.earlier_strikes.get(instance, strikes) < strikes


def is_same(member: Member, instance: str) -> bool:
    """Whether a process belongs to the same participant as the member so far, as far as is known."""
    return has_key(member) or instance == member.instance


def has_key(member: Member) -> bool:
    """Whether the member is identified by a key, not only by its name."""
    return member.identity != member.name


def hand_over(before: Member, member: Member, instance: str, now: float) -> None:
    """Transfer a name from `before` to `member` with its strikes; both may be the same record."""
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
