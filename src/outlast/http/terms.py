"""What a policy says of every call that it holds for, worked out once and not in each call.

Refuses to know a call: what depends on its request stands in `CallContext`.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import NamedTuple

from outlast.net.options import fitting_user_timeout
from outlast.policy import KEEPALIVE, USER_TIMEOUT, Policy

__all__ = ["Terms", "terms_of"]


class Terms(NamedTuple):
    """See above. `policy`: whose terms these are, by identity.

    `user_timeout`: seconds; 0 for off. `paced`: something else than the caller's timeouts bounds an
    attempt. `doubts_from`: answers of a lower status are never repeated. `dry`: some rules only
    count.
    """

    policy: Policy
    user_timeout: float
    paced: bool
    doubts_from: float
    dry: bool


def terms_of(policy: Policy, *, tells: bool) -> Terms:
    """`tells`: whether the network tells a slow reader from a dead peer; where nothing does, a user
    timeout would kill the slow one too."""
    limit = policy.user_timeout if tells else 0.0
    # A caller's own timeout stands as it is; ours follows a caller's keepalive.
    if policy.keepalive is not KEEPALIVE and limit == USER_TIMEOUT:
        limit = fitting_user_timeout(limit, policy.keepalive)
    paced = (policy.deadline, policy.hedge, policy.attempt_timeout, policy.deadline_header)
    doubted = chain(policy.retry_status, *policy.unsafe_status.values())
    return Terms(
        policy,
        limit,
        any(each is not None for each in paced),
        -math.inf if policy.retry_if is not None else min(doubted, default=math.inf),
        bool(policy.dry_run),
    )
