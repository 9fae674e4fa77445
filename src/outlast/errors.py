"""What goes wrong, in this library's own words, before it is given the caller's.

Transports turn a `TransportFailure` into the matching exception of the family that made the
request; `create_connection` raises OSError kinds. Each carries `.report`.
"""

from __future__ import annotations

from outlast.core.report import Report

__all__ = ["NotAvailableYet", "TransportFailure"]


class NotAvailableYet(ValueError):
    """A documented form that this version does not serve yet; the text says what to use now."""


class TransportFailure(Exception):
    """A call's end without an answer.

    `kind` is the name of the family's exception, such as "ConnectTimeout". `cause` is the error
    below, if there is one; `final` as in `core.call.Failure`; `report` is the call's time line,
    empty if the call never began. `ours`: this machine's own link was down, so that nothing of it
    speaks against the peer. `phase`: of a connection that did not come about, as in the event
    `AttemptFailed`.
    """

    def __init__(
        self, kind: str, message: str, cause: BaseException | None = None, *, final: bool = False
    ) -> None:
        super().__init__(message)
        self.final = final
        self.kind = kind
        self.message = message
        self.cause = cause
        self.ours = False
        self.phase = ""
        self.report = Report(0.0)
