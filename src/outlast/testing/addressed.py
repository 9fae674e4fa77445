"""What pods and Services have in common, in a lab and in a simulation: an address, and a URL."""

from __future__ import annotations

__all__ = ["Addressed"]


class Addressed:
    """Something at a host and a port. A Service's are virtual."""

    host: str
    port: int

    @property
    def address(self) -> str:
        """Host and port, as in a `static://` target."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Its HTTP address; a pod's is its own, past any Service."""
        return f"http://{self.address}"
