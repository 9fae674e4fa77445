"""requests: a transport adapter whose connections are dialled by this library.

Hook: `HTTPAdapter.init_poolmanager` and `proxy_manager_for`, which requests documents for
subclasses. `max_retries`, timeouts, `verify`, `cert`, proxies and the exceptions are requests' own.
Refuses to repeat requests: that is `max_retries`' business, and requests tells nobody how far one
got. SOCKS proxies are dialled by PySocks, without this library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests.adapters

from outlast.policy import Policy
from outlast.shims.adapters.dialler import Dialler, carry_report
from outlast.shims.adapters.urllib3 import dial_by
from outlast.target import Target

__all__ = ["OutlastAdapter"]


class OutlastAdapter(requests.adapters.HTTPAdapter):
    """`requests.adapters.HTTPAdapter` that outlives its endpoints: `session.mount("http://", ...)`.

    Takes that class's arguments, and by keyword:

    targets: "host:port" to the target that stands behind it; see `outlast.Target`.
    policy: an `outlast.Policy`; its socket fields are used.

    Raises requests' exceptions; those of a connect carry `.report`. As thread-safe as requests'.
    """

    __attrs__ = [  # noqa: RUF012  requests' own declaration; what is pickled
        *requests.adapters.HTTPAdapter.__attrs__,
        *("targets", "policy"),
    ]

    def __init__(
        self,
        *args: Any,
        targets: Mapping[str, str | Target] | None = None,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> None:
        self.targets = targets
        self.policy = policy
        super().__init__(*args, **kwargs)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """See requests; the pools are ours."""
        self._dialler = Dialler(self.targets, self.policy)
        super().init_poolmanager(*args, **kwargs)
        dial_by(self.poolmanager, self._dialler)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """See requests; the pools are ours, but for SOCKS."""
        pools = super().proxy_manager_for(proxy, **proxy_kwargs)
        if not proxy.lower().startswith("socks"):
            dial_by(pools, self._dialler)
        return pools

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        """See requests."""
        try:
            return super().send(*args, **kwargs)
        except requests.RequestException as error:
            carry_report(error)
            raise
