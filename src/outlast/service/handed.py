"""A connection goes into somebody else's hands: it is watched there, if the policy wants it so.

Without a watch no user timeout may stand on it (DESIGN section 7), and the report says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.report import Report
from outlast.net.options import fitting_user_timeout
from outlast.net.seam import Network, Stream
from outlast.net.sentry import Watched, watch_handed
from outlast.policy import Policy

if TYPE_CHECKING:
    import socket

__all__ = ["watch_by_policy"]


def watch_by_policy(
    world: Network, stream: Stream, sock: socket.socket, policy: Policy, report: Report
) -> Watched | None:
    """Have a socket watched that is handed out; or say why not, and what stands instead."""
    if not policy.watch or not policy.user_timeout:
        why = "watch=False" if not policy.watch else "user_timeout=0"
        report.note(f"not watched, by Policy({why}): no user timeout")
        return None
    if not world.tells:
        report.note("not watched: this platform does not tell enough; no user timeout")
        return None
    limit = fitting_user_timeout(policy.user_timeout, policy.keepalive)
    try:
        watched = watch_handed(world, stream, sock, limit)
    except (OSError, RuntimeError) as error:  # gone already, or the system gives no thread
        report.note(f"not watched: {error}; no user timeout")
        return None
    report.note(f"watched: user timeout {limit:g} s while its window is open")
    return watched
