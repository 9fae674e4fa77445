"""The seam's `Stream` over a simulated socket.

Every call is carried out at once, by whoever has the turn. Options are those of `net.options`, by
Linux's numbers on every platform, so that a simulation is the same everywhere.

Source: the promises of `outlast.net.seam.Stream`. Refuses to be handed out as a real socket: what
`detach` gives is a simulated one that behaves like it.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from outlast.core.liveness import Sample
from outlast.net.address import Address
from outlast.net.options import Keepalive, LocalRefusal, SocketPlan
from outlast.net.seam import READ, WRITE
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.waiting import Attention, enrol

if TYPE_CHECKING:
    from outlast.testing.simnet.host import Host, Option
    from outlast.testing.simnet.network import SimNetwork

__all__ = ["SimStream", "options_of"]

_SOCKET, _TCP = 1, 6  # Linux's numbers
_REUSEADDR, _KEEPALIVE = 2, 9
_NODELAY, _IDLE, _INTERVAL, _COUNT, _USER_TIMEOUT, _RTO_MAX = 1, 4, 5, 6, 18, 44
_LARGEST = 2**31 - 1


def options_of(plan: SocketPlan, host: Host) -> list[Option]:
    """What to set before the connect. Raises LocalRefusal for one of the caller's own that the
    simulated kernel refuses."""
    theirs = {given[:2] for given in plan.extra}
    options: list[Option] = [(_TCP, _NODELAY, 1)] if plan.nodelay else []
    if plan.keepalive is not None:
        options.append((_SOCKET, _KEEPALIVE, 1))
        options += _numbers(plan.keepalive)
    if plan.user_timeout:
        options.append((_TCP, _USER_TIMEOUT, _milliseconds(plan.user_timeout)))
    if plan.source is not None and plan.source[1]:
        options.append((_SOCKET, _REUSEADDR, 1))
    options = [option for option in options if option[:2] not in theirs]
    for given in plan.extra:
        value = given[2] if len(given) == 3 else None
        try:
            if value is None:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            option = (given[0], given[1], value if isinstance(value, int) else bytes(value))
            host.settings([option])
        except OSError as error:
            text = f"socket option {given}: {error.strerror}"
            raise LocalRefusal(error.errno, text) from error
        options.append(option)
    return options


def _numbers(keepalive: Keepalive) -> list[Option]:
    return [
        (_TCP, _COUNT, keepalive.count),
        (_TCP, _INTERVAL, keepalive.interval),
        (_TCP, _IDLE, keepalive.idle),
    ]


def _milliseconds(seconds: float) -> int:
    return max(1, min(round(seconds * 1000), _LARGEST)) if seconds > 0 else 0


class SimStream:
    """A simulated TCP socket behind the seam; see `Stream`. One owner at a time."""

    foreign = False  # a simulation does not outlive a fork
    notes: Sequence[str] = ()

    def __init__(
        self, network: SimNetwork, sock: SimSocket, address: Address, plan: SocketPlan
    ) -> None:
        self._network = network
        self._turn = network.turn
        self.sock = sock
        self._plan = plan
        self._number = enrol(self)
        self.address = address
        self.local_port = sock.local[1]
        self.written = 0
        self.watchers: list[Attention] = []
        sock.on_change = self._changed

    def _changed(self) -> None:
        for attention in tuple(self.watchers):
            attention.notice()

    def ready(self, mask: int) -> bool:
        """Whether something of `mask` is possible now."""
        sock = self.sock
        return bool((mask & READ and sock.readable()) or (mask & WRITE and sock.writable()))

    def fileno(self) -> int:
        """See `Stream.fileno`: a number of its own; -1 once it is closed."""
        return -1 if self.sock.closed else self._number

    def connected(self) -> None:
        """See `Stream.connected`."""
        self._turn()
        code = self.sock.take_error()
        if code:
            raise OSError(code, f"connect to {self.address}: {os.strerror(code)}")
        if self._plan.rto_max and (_TCP, _RTO_MAX) not in {each[:2] for each in self._plan.extra}:
            self.sock.setsockopt(_TCP, _RTO_MAX, round(self._plan.rto_max * 1000))

    # -- bytes -----------------------------------------------------------------------------

    def recv(self, size: int) -> bytes | None:
        """See `Stream.recv`."""
        self._turn()
        return self.sock.recv(size)

    def send(self, data: bytes | memoryview) -> int:
        """See `Stream.send`."""
        self._turn()
        count = self.sock.send(data)
        self.written += count
        return count

    def flush(self) -> bool:
        """See `Stream.flush`."""
        return True

    # -- liveness --------------------------------------------------------------------------

    def quiet(self) -> bool:
        """See `Stream.quiet`."""
        return not self.sock.readable()

    def state(self) -> Sample | None:
        """See `Stream.state`."""
        if self.sock.closed:
            return None
        self._turn()
        info = self.sock.tcp_info()
        return Sample(
            unacked=info.unacked,
            acked=max(0, info.bytes_acked - 1),  # the SYN counts as one
            window=info.snd_wnd,
            rtt=info.rtt / 1e6,
            backoff=info.backoff,
            heard=info.last_ack_recv / 1e3,
            state=info.state,
            unsent=info.notsent_bytes,
            probes=info.probes,
            received=info.last_data_recv / 1e3,
            sent=info.last_data_sent / 1e3,
            resent=info.total_retrans,
            segments_out=info.segs_out,
            segments_in=info.segs_in,
        )

    def linked(self) -> bool:
        """See `Stream.linked`."""
        return self._network.linked

    def set_user_timeout(self, seconds: float) -> None:
        """See `Stream.set_user_timeout`. The caller's own setting is left as it is."""
        theirs = {given[:2] for given in self._plan.extra}
        if (_TCP, _USER_TIMEOUT) not in theirs and not self.sock.closed:
            self._turn()
            self.sock.setsockopt(_TCP, _USER_TIMEOUT, _milliseconds(seconds))

    @property
    def keepalive(self) -> Keepalive | None:
        """See `Stream.keepalive`."""
        ours = {(_SOCKET, _KEEPALIVE), (_TCP, _IDLE), (_TCP, _INTERVAL), (_TCP, _COUNT)}
        theirs = {given[:2] for given in self._plan.extra}
        return None if theirs & ours else self._plan.keepalive

    def set_keepalive(self, keepalive: Keepalive) -> None:
        """See `Stream.set_keepalive`."""
        if self.keepalive is None or self.sock.closed:
            return
        self._turn()
        for option in _numbers(keepalive):
            self.sock.setsockopt(*option)

    # -- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """See `Stream.close`."""
        self._network.do(lambda: self._end(self.sock.close, "closes"))

    def abort(self) -> None:
        """See `Stream.abort`."""
        self._network.do(lambda: self._end(self.sock.abort, "aborts"))

    def _end(self, how: Callable[[], None], told: str) -> None:
        if not self.sock.closed:
            self._network.tell(self.sock.label, told)
            how()
            self._changed()

    def shut(self) -> None:
        """See `Stream.shut`."""
        self._network.do(self._shut)

    def _shut(self) -> None:
        try:
            self.sock.shutdown()
        except OSError:  # not connected, or closed: nobody can be waiting for long
            return

    def detach(self) -> socket.socket:
        """See `Stream.detach`: a simulated socket that has what `socket.socket` has."""
        from outlast.testing.simnet.plain_socket import PlainSocket

        return PlainSocket(self._network, self)

    def __repr__(self) -> str:
        return f"<{self.sock.label} to {self.address}>"
