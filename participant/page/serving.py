"""Assemble a participant's page: follows its state folder and renders it; `protocol.host.web` serves it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from participant.page.reading import HomeFollower
from participant.page.view import PARTS, context_of
from protocol.host.web.live import Context, LivePage


def home_page(state: Path) -> LivePage:
    """The page of the participant with this state folder."""
    follower = HomeFollower(state)

    def shown() -> tuple[Context, object]:
        overview = follower.refresh()
        return context_of(overview), dataclasses.asdict(overview)

    return LivePage(package="participant.page", template="home.html.j2", parts=PARTS, read=shown)
