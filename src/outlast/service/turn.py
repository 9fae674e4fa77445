"""One attempt's turn at an endpoint: what the balance counts as in flight.

From the pick to the response's head, or to the attempt's end. Whoever holds one ends it, once;
a second end does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.endpoint import Endpoint
from outlast.core.health import Standing
from outlast.net.address import Address

if TYPE_CHECKING:
    from outlast.service.service import Service

__all__ = ["Turn"]


class Turn:
    """See above. One owner; not thread-safe."""

    __slots__ = ("_service", "began", "endpoint", "trial")

    def __init__(self, service: Service, endpoint: Endpoint[Address], began: float) -> None:
        self._service: Service | None = service
        self.endpoint = endpoint
        self.began = began
        self.trial = endpoint.health.standing is Standing.TRIAL

    def answered(self, status: int, now: float, retry_after: float = 0.0) -> None:
        """The response's head has come. `retry_after`: seconds for which it asks to be spared."""
        self._end(status, now, retry_after)

    def failed(self, now: float) -> None:
        """There was no response, by the endpoint's doing."""
        self._end(None, now, 0.0)

    def _end(self, status: int | None, now: float, retry_after: float) -> None:
        service, self._service = self._service, None
        if service is not None:
            service.end(self, status, retry_after, now)

    def quit(self, now: float, *, late: bool = False) -> None:
        """It ended without a word about the endpoint: cancelled, or by our own doing. `late`: its
        hedge was answered first, so that its time so far is a measure."""
        service, self._service = self._service, None
        if service is not None:
            service.quit(self, now, late=late)
