"""The limit of open files of this process: raised as far as the system allows, refused if it is too low to work."""

from __future__ import annotations

import resource

from fedap_core.errors import InvalidInput

MOST = 65_536
"""More is never needed; some systems allow a billion, and programs that close all of them would take minutes."""


def require_open_files(least: int) -> int:
    """Raise the limit to the hard limit and return it; refuses a hard limit below `least`. Without this check a process
    that runs out of descriptors is aborted by ZeroMQ, or never hears of a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(soft, MOST if hard == resource.RLIM_INFINITY else min(hard, MOST))
    if limit < least:
        fix = f"Raise it: ulimit -n {least}, or LimitNOFILE={least} in a systemd unit."
        raise InvalidInput("open files", f"a limit of {limit}", f"at least {least}", fix)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit
