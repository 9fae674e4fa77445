"""A random incident as a value: a cluster, what befalls it, and what its clients ask.

An incident is a function of its seed. Its text is the expression that makes it, with nothing in it
that is as usual, so that a small one is short: `python -m tests.fire "Incident(...)"` plays it.

`calm` incidents are those in which every safe call has to succeed (see `invariants`): one node is
spared, the others meet only what a client can see (power, silence, resets, ends), and nobody asks
for broken answers. In the others anything may happen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from outlast.testing.simnet.faults import KINDS

__all__ = ["CALM", "LENGTH", "WILD", "Ask", "Blow", "Incident", "Place", "draw", "drawn", "read"]

LENGTH = 30.0  # seconds in which faults begin and requests are made
MOST, MANY = 4, 60  # workers, and calls of each

# What a client can see of a node that is gone. A program that hangs, lost packets and DNS are not
# among it: there a caller's own timeout may have the last word.
CALM = (
    *("power", "unplug", "hole", "hole-towards", "hole-away", "unreachable", "fins", "late"),
    *("slow", "kill", "reset", "stop", "queue", "removed", "ending", "parted", "drop", "abort"),
)
WILD = (
    *KINDS,
    *("removed", "ending", "parted", "drop", "abort", "idle box", "dead box", "no answer"),
    *("client cut", "client loss", "servfail", "nxdomain", "no address", "dns loss", "dns hangs"),
)
TARGETS = ("vip", "vip", "vip", "headless", "static", "node ports", "local ports")
STICKY = ("sticky vip", "hashed vip")
BEHAVIOURS = (
    *("delay=0.3", "delay=2", "delay=8", "status=503", "status=500", "status=429", "status=502"),
    *("status=503&retry_after=1", "status=503&retry_after=30", "drop=1", "reset=1", "stall=1"),
    *("close=1", "size=50000", "size=50000&delay=0.2"),
)
STORMS = ("status=503", "status=502", "status=429", "drop=1", "reset=1", "delay=2")


class Brief:
    """A value whose text leaves out what is as usual."""

    __slots__ = ()

    def __repr__(self) -> str:
        fields: Any = dataclasses.fields(self)  # type: ignore[arg-type]  # of its children
        told = [(each.name, getattr(self, each.name), each.default) for each in fields]
        parts = [f"{name}={value!r}" for name, value, usual in told if value != usual]
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True, slots=True, repr=False)
class Ask(Brief):
    """One call. Times in seconds.

    `pause`: before it. `query`: what the pod is asked to do. `key`: with an Idempotency-Key.
    `body`: "", "bytes" or "stream", of `size` bytes; a stream comes in three pieces, `gap` apart.
    `whole`: the answer is read to its end. `cancel`: after so long, in an event loop.
    """

    pause: float = 0.5
    method: str = "GET"
    query: str = ""
    key: bool = False
    body: str = ""
    size: int = 0
    gap: float = 0.0
    connect: float | None = 5.0
    read: float | None = 5.0
    write: float | None = 5.0
    pool: float | None = 5.0
    deadline: float | None = None
    first_byte: float | None = None
    attempts: int = 3
    whole: bool = True
    cancel: float | None = None

    @property
    def idempotent(self) -> bool:
        """Whether it may be applied twice."""
        return self.key or self.method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS")

    @property
    def safe(self) -> bool:
        """Whether it may be sent twice: it can also be produced again."""
        return self.idempotent and self.body != "stream"


@dataclass(frozen=True, slots=True, repr=False)
class Blow(Brief):
    """What befalls `node` at `at` (seconds), or when its `segment`-th segment after that is about
    to be sent; undone after `lasts` seconds."""

    kind: str = "power"
    node: str = "a"
    at: float = 0.0
    lasts: float = 10.0
    amount: float = 0.1
    segment: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class Place(Brief):
    """The cluster. `pods`: how many each node has, by the nodes' order: a, b, c, d.

    `serves`: "plain" (the built-in server), "asgi", "tls", or "h2" (HTTP/2, which sends GOAWAY
    after `goaway` requests and takes `streams` at once). `lag`: of the control plane; 0 for none.
    `connections`: of the pool, at most.
    """

    pods: tuple[int, ...] = (1, 1)
    target: str = "vip"
    serves: str = "plain"
    goaway: int = 0
    streams: int = 100
    lag: float = 0.0
    connections: int = 100


@dataclass(frozen=True, slots=True, repr=False)
class Incident(Brief):
    """All of it. `asks`: of each worker. `spared`: the node that nothing befalls, if it is calm."""

    seed: int = 0
    spared: str = ""
    backend: str = "sync"
    place: Place = Place()
    blows: tuple[Blow, ...] = ()
    asks: tuple[tuple[Ask, ...], ...] = ()

    @property
    def calm(self) -> bool:
        """Whether every safe call has to succeed."""
        return bool(self.spared)


# -- drawing -----------------------------------------------------------------------------------


def draw(seed: int, *, full: bool = False) -> Incident:
    """The incident of a seed. `full`: with `MOST` workers that make up to `MANY` calls each."""
    return drawn(Random(f"fire/{seed}"), seed, full=full)


def drawn(rng: Random, seed: int, *, full: bool = False) -> Incident:
    """An incident as `rng` has it. `seed`: of what chance decides while it is played."""
    calm = rng.random() < 0.5
    place = _place(rng, calm)
    names = "abcd"[: len(place.pods)]
    spared = _spared(rng, place) if calm else ""
    struck = [name for name in names if name != spared]
    backend = rng.choice(("sync", "sync", "asyncio", "trio"))
    workers = MOST if full else rng.randint(1, MOST)
    most = MANY if full else rng.choice((6, 12, 12, 25, MANY) if workers < 3 else (6, 12, 12, 25))
    asks = tuple(_asks(rng, rng.randint(1, most), calm, backend) for _ in range(workers))
    if not calm and rng.random() < 0.1:
        asks = _storm(rng, asks, together=place.serves != "h2")
    blows = tuple(_blow(rng, struck, calm) for _ in range(rng.randint(0, 5) if struck else 0))
    return Incident(seed, spared, backend, place, _in_order(blows), asks)


def _place(rng: Random, calm: bool) -> Place:
    pods = tuple(rng.choice((1, 1, 1, 2)) for _ in range(rng.randint(1, 4)))
    while sum(pods) > 5:
        pods = pods[:-1]
    target = rng.choice(TARGETS if calm or rng.random() < 0.8 else STICKY)
    if target == "local ports" and len(pods) > 1 and rng.random() < 0.5:
        pods = (*pods[:-1], 0)
    return Place(
        pods=pods,
        target=target,
        serves=rng.choice(("plain", "plain", "plain", "asgi", "asgi", "h2", "tls")),
        goaway=rng.choice((0, 0, 1, 7)),
        streams=rng.choice((100, 100, 2, 1)),
        lag=rng.choice((0.0, 4.0, 40.0)),
        connections=rng.choice((100, 100, 4, 2) if calm else (100, 100, 4, 2, 1)),
    )


def _spared(rng: Random, place: Place) -> str:
    """A node with its share of the endpoints: at least a third."""
    fit = [n for n, pods in zip("abcd", place.pods, strict=False) if 3 * pods >= sum(place.pods)]
    return rng.choice(fit) if fit else ""


def _blow(rng: Random, nodes: Sequence[str], calm: bool) -> Blow:
    kind = rng.choice(CALM if calm else WILD)
    least, most = (KINDS[kind].least, KINDS[kind].most) if kind in KINDS else (0.05, 0.3)
    return Blow(
        kind,
        rng.choice(nodes),
        at=round(rng.uniform(0, LENGTH), 3),
        lasts=round(rng.choice((0.05, 1.0, 10.0, LENGTH)) * rng.uniform(0.5, 1.5), 3),
        amount=round(rng.uniform(least, most), 3),
        segment=rng.randint(1, 12) if rng.random() < 0.4 else 0,
    )


def _in_order(blows: Sequence[Blow]) -> tuple[Blow, ...]:
    return tuple(sorted(blows, key=lambda blow: (blow.at, blow.kind, blow.node)))


def _asks(rng: Random, number: int, calm: bool, backend: str) -> tuple[Ask, ...]:
    pause = min(rng.choice((0.05, 0.5, 2.0)), LENGTH / number)
    ask = _calm_ask if calm else _wild_ask
    first = rng.uniform(0, LENGTH / 10)
    found = [ask(rng, round(pause * rng.uniform(0.2, 1.8), 3), backend) for _ in range(number)]
    found[0] = dataclasses.replace(found[0], pause=round(first, 3))
    return tuple(found)


def _storm(
    rng: Random, asks: Sequence[tuple[Ask, ...]], *, together: bool
) -> tuple[tuple[Ask, ...], ...]:
    """Everybody meets the same failure, all the time. `together`: all ask in the same instants;
    where they share a connection it is chance who of them is first."""
    query = rng.choice(STORMS)

    def pause() -> float:
        return 0.05 if together else round(rng.uniform(0.02, 0.08), 3)

    return tuple(
        tuple(dataclasses.replace(ask, pause=pause(), query=query) for ask in worker)
        for worker in asks
    )


def _body(rng: Random, method: str, sizes: Sequence[int]) -> dict[str, Any]:
    body = rng.choice(("bytes", "bytes", "", "stream")) if method in ("POST", "PUT") else ""
    gap = rng.choice((0.0, 0.0, 0.3)) if body == "stream" else 0.0
    return {"body": body, "size": rng.choice(sizes) if body else 0, "gap": gap}


def _calm_ask(rng: Random, pause: float, _backend: str) -> Ask:
    """A call with time enough to be saved."""
    method = rng.choice(("GET", "GET", "GET", "PUT", "DELETE", "HEAD", "POST"))
    return Ask(
        pause,
        method,
        query=rng.choice(("", "", "", "", "close=1", "size=20000", "delay=0.2")),
        key=method == "POST" and rng.random() < 0.4,
        **_body(rng, method, (3, 1000)),
        connect=rng.choice((3.0, 5.0, 20.0)),
        read=rng.choice((5.0, 10.0, 60.0)),
        pool=rng.choice((10.0, 30.0)),
        deadline=rng.choice((None, None, 12.0, 20.0)),
        first_byte=rng.choice((*[None] * 9, 2.0)),
    )


def _wild_ask(rng: Random, pause: float, backend: str) -> Ask:
    """Any call that ends by itself."""
    method = rng.choice(("GET", "GET", "PUT", "DELETE", "POST", "POST"))
    deadline = rng.choice((None, 0.1, 1.0, 5.0, 15.0))
    short = (0.05, 0.5, 2.0, 5.0) if deadline is None else (0.5, 2.0, 5.0, None)
    return Ask(
        pause,
        method,
        query=rng.choice(BEHAVIOURS) if rng.random() < 0.4 else "",
        key=method == "POST" and rng.random() < 0.3,
        **_body(rng, method, (0, 3, 1000, 3000, 70_000)),
        connect=rng.choice(short),
        read=rng.choice(short),
        write=rng.choice(short),
        pool=rng.choice(short),
        deadline=deadline,
        first_byte=rng.choice((None, None, None, 0.2, 1.0)),
        attempts=rng.choice((3, 3, 3, 1, 2, 5)),
        whole=rng.random() < 0.9,
        cancel=rng.choice((0.01, 0.3, 2.0)) if backend != "sync" and rng.random() < 0.1 else None,
    )


def read(text: str) -> Incident:
    """An incident from its text. Raises ValueError if it is none."""
    known = {each.__name__: each for each in (Ask, Blow, Incident, Place)}
    found = eval(text, {"__builtins__": {}}, known)  # typed by whoever runs the tests
    if not isinstance(found, Incident):
        raise ValueError(f"{text!r} is no incident; right: Incident(asks=((Ask(),),))")
    return found
