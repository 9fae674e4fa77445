"""A local TCP forwarder, for what the in-process patch and the runner cannot reach."""

from __future__ import annotations

from outlast.shims.forward.forwarder import Forwarder
from outlast.shims.forward.news import Counts

__all__ = ["Counts", "Forwarder"]
