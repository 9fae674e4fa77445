"""An incident's cluster on the simulated network, and how what befalls it is brought about."""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import trustme

from outlast.net.address import Address
from outlast.net.options import SocketPlan
from outlast.testing import NodePort, SimNet
from outlast.testing.pod_http import answer, behaviour_of
from outlast.testing.simnet.faults import KINDS, Kind
from outlast.testing.simnet.net import SimNode
from outlast.testing.simnet.packet import Segment
from outlast.testing.simnet.service import Service
from outlast.testing.simnet.sockets import SimSocket
from outlast.testing.simnet.states import SYN_SENT
from outlast.testing.simnet.stream import SimStream
from tests.fire.h2_pod import Books, serve_h2
from tests.fire.incident import Blow, Incident

__all__ = ["HOST", "Cluster", "Dial", "trusting"]

HOST = "orders.shop.svc"
PORT = 8080
NODE_PORT = 30080
PATIENCE = 60.0  # real seconds; the machine may be busy with other tests


@dataclass(frozen=True, slots=True)
class Dial:
    """One dial of the client's. `at`: absolute. `open`: how many dials of this worker, this one
    included, had neither been answered nor given up."""

    worker: str
    at: float
    elapsed: float
    address: Address
    port: int
    open: int


class Watched(SimNet):
    """A simulated network that keeps account of the client's dials."""

    def __init__(self, seed: int, *, traced: bool) -> None:
        super().__init__(seed, patience=PATIENCE, traced=traced)
        self.dials: list[Dial] = []
        self._unanswered: dict[str, list[SimSocket]] = {}

    def dial(self, address: Address, plan: SocketPlan) -> SimStream:
        """See `Network.dial`."""
        stream = self.network.dial(address, plan)
        worker = stream.sock.label.partition("/")[0]
        known = self._unanswered.get(worker, [])
        still = [each for each in known if not each.closed and each.state == SYN_SENT]
        self._unanswered[worker] = still = [*still, stream.sock]
        self.dials.append(
            Dial(worker, self.now(), self.elapsed(), address, stream.local_port, len(still))
        )
        return stream


class Cluster:
    """See above. `applied`: how often each request has arrived, by its id."""

    def __init__(self, incident: Incident, *, traced: bool = False) -> None:
        self.incident = incident
        self.net = Watched(incident.seed, traced=traced)
        self.books = Books()  # of pods that count for themselves
        self.drop: Callable[..., int]  # the client's connections
        self.releases: list[Callable[[], None]] = []  # of names that hang
        place = incident.place
        for name, pods in zip("abcd", place.pods, strict=False):
            node = self.net.node(name)
            for _ in range(pods):
                node.pod(**self._program())
        self.orders = self._service()
        if place.lag:
            self.net.control_plane(lag=place.lag)
        for blow in incident.blows:
            self._arm(blow)

    # -- what is there ---------------------------------------------------------------------

    def _program(self) -> dict[str, Any]:
        place = self.incident.place
        if place.serves == "h2":
            return {"raw": serve_h2(self.books, place.goaway, place.streams)}
        if place.serves == "asgi":
            return {"app": echo}
        return {"tls": _serving() if place.serves == "tls" else None}

    def _service(self) -> Service:
        target = self.incident.place.target
        outside = None
        if "ports" in target:
            outside = NodePort(NODE_PORT, local=target == "local ports")
        return self.net.service(
            f"{HOST}:{PORT}",
            pods=[pod for node in self.net.nodes.values() for pod in node.pods],
            headless=target == "headless",
            affinity=10.0 if target == "sticky vip" else 0.0,
            balance="source-hash" if target == "hashed vip" else "random",
            node_port=outside,
        )

    @property
    def origin(self) -> str:
        """Scheme, host and port of the requests."""
        scheme = "https" if self.incident.place.serves == "tls" else "http"
        return f"{scheme}://{HOST}:{PORT}"

    @property
    def targets(self) -> dict[str, str]:
        """Where they really go, if not to the name's addresses."""
        target, nodes = self.incident.place.target, self.net.nodes.values()
        if target == "static":
            listed = [pod.address for node in nodes for pod in node.pods]
        elif "ports" in target:
            listed = [f"{node.host}:{NODE_PORT}" for node in nodes]
        else:
            return {}
        return {self.origin: f"static://{','.join(listed)}"}

    @property
    def ways(self) -> int:
        """How many addresses lead to the pods."""
        target, nodes = self.incident.place.target, self.net.nodes.values()
        if target in ("static", "headless"):
            return sum(len(node.pods) for node in nodes)
        return len(nodes) if "ports" in target else 1

    @property
    def applied(self) -> Counter[str]:
        """How often each request has arrived at a pod, by its id."""
        found = Counter(self.books.applied)
        for node in self.net.nodes.values():
            for pod in node.pods:
                found.update(pod.counts()["ids"])
        return found

    # -- what befalls it -------------------------------------------------------------------

    def _arm(self, blow: Blow) -> None:
        node: Any = self.net.nodes[blow.node]
        act, undo = _KINDS[blow.kind]

        def strike() -> None:
            act(self, node, blow.amount)
            self.net.at(self.net.elapsed() + blow.lasts, undo, self, node)

        if not blow.segment:
            self.net.at(blow.at, strike)
            return
        addresses = node.kernel.addresses

        def counted(segment: Segment) -> bool:
            return segment.src[0] in addresses or segment.dst[0] in addresses

        self.net.at(blow.at, self.net.when(counted).at_segment, blow.segment, strike)


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """An application that answers with the request's id and the length of its body."""
    length, more = 0, True
    while more:
        message = await receive()
        length += len(message.get("body", b""))
        more = message.get("more_body", False)
    told = {"id": dict(scope["headers"])[b"x-request-id"].decode(), "length": length}
    wanted = behaviour_of(f"?{scope['query_string'].decode()}")
    fields, body = answer(wanted, json.dumps(told).encode())
    await asyncio.sleep(wanted.delay)
    await send({"type": "http.response.start", "status": wanted.status, "headers": fields})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


# -- TLS ---------------------------------------------------------------------------------------


@functools.cache
def _authority() -> trustme.CA:
    return trustme.CA()


@functools.cache
def _serving() -> ssl.SSLContext:
    """What pods show."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _authority().issue_cert(HOST).configure_cert(context)
    return context


@functools.cache
def trusting() -> ssl.SSLContext:
    """What a client needs to trust the pods."""
    context = ssl.create_default_context()
    _authority().configure_trust(context)
    return context


# -- kinds of blows ----------------------------------------------------------------------------

Act = Callable[[Cluster, SimNode, float], object]
Undo = Callable[[Cluster, SimNode], object]


def _endpoints(change: Callable[[Service, SimNode], object]) -> Callable[..., None]:
    """Something about the Service's endpoints, where the node has any."""

    def act(cluster: Cluster, node: SimNode, *_amount: float) -> None:
        if node.pods:
            change(cluster.orders, node)

    return act


def _box(**how: Any) -> Act:
    """A middlebox that speaks for a node without power."""

    def act(_cluster: Cluster, node: SimNode, _amount: float) -> None:
        node.middlebox(**how)
        node.power_off()

    return act


def _unbox(_cluster: Cluster, node: SimNode) -> None:
    node.kernel.link.put(None)
    node.power_on()


def _names(how: str) -> tuple[Act, Undo]:
    return (lambda c, _n, _x: c.net.dns.fail(how), lambda c, _n: c.net.dns.heal())


def _hang(cluster: Cluster, _node: SimNode, _amount: float) -> None:
    cluster.releases.append(cluster.net.dns.hold(HOST))


def _go_on(cluster: Cluster, _node: SimNode) -> None:
    for release in cluster.releases:
        release()


def _of(kind: Kind) -> tuple[Act, Undo]:
    return (lambda _c, n, x: kind.act(n, x), lambda _c, n: kind.undo(n))


_KINDS: dict[str, tuple[Act, Undo]] = {
    **{name: _of(kind) for name, kind in KINDS.items()},
    "removed": (_endpoints(Service.remove), _endpoints(Service.add)),
    "ending": (_endpoints(Service.end), _endpoints(Service.add)),
    "drop": (lambda c, _n, _x: c.drop(), lambda c, _n: c.drop()),
    "abort": (lambda c, _n, _x: c.drop(abort=True), lambda c, _n: c.drop(abort=True)),
    "parted": (
        lambda c, n, _x: c.net.partition(c.net.client, n),
        lambda c, n: c.net.join(c.net.client, n),
    ),
    "idle box": (
        lambda _c, n, _x: n.middlebox(idle=2.0),
        lambda _c, n: n.kernel.link.put(None),
    ),
    "dead box": (_box(acknowledges=True), _unbox),
    "no answer": (_box(accepts=True), _unbox),
    "client cut": (lambda c, _n, _x: c.net.client.unplug(), lambda c, _n: c.net.client.heal()),
    "client loss": (lambda c, _n, x: c.net.client.lose(x), lambda c, _n: c.net.client.heal()),
    "servfail": _names("SERVFAIL"),
    "nxdomain": _names("NXDOMAIN"),
    "no address": _names("empty"),
    "dns loss": (lambda c, _n, x: c.net.dns.lose(x), lambda c, _n: c.net.dns.heal()),
    "dns hangs": (_hang, _go_on),
}
