"""`SimNet`: a small cluster in virtual time, to lose nodes of, thousands of times.

The vocabulary is the kernel lab's. Sync code runs in `with net.running():`, async code in
`net.run(main)`; both give `network=net` to whatever dials. Time jumps when everybody waits, the
same seed gives the same run, and nothing reaches the real network.

Source: `outlast.testing.kernel_lab` for the words; the world below for what happens. Refuses event
loops that it did not start, and whatever holds virtual time up: see `stall`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from outlast.net.address import Address
from outlast.net.options import SocketPlan
from outlast.net.seam import Lookup, Ready, Stream, Wait, Waiter
from outlast.testing.simnet.handlers import as_application, kind_of
from outlast.testing.simnet.network import SimNetwork
from outlast.testing.simnet.node import Node
from outlast.testing.simnet.pod import Pod
from outlast.testing.simnet.program import ServerProgram
from outlast.testing.simnet.rules import Kernel
from outlast.testing.simnet.schedule import Schedule
from outlast.testing.simnet.simulation import LONGEST, PATIENCE, Running, Simulation
from outlast.testing.simnet.threads import SimThread
from outlast.testing.simnet.transcript import Transcript, draw
from outlast.testing.simnet.world import World

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["SimNet", "SimNode"]

P = ParamSpec("P")
T = TypeVar("T")


class SimNode(Node):
    """A node whose pods run programs; see `Node` for what can befall it."""

    _world: SimNet

    def pod(
        self,
        serves: Any = None,
        *,
        port: int = 8080,
        name: str | None = None,
        app: Any = None,
        raw: Any = None,
        handler: Any = None,
        tls: ssl.SSLContext | None = None,
    ) -> Pod:
        """Start a pod. It serves the built-in HTTP behaviour, or an ASGI application (`app`), or
        a plain function from Request to an answer (`handler`), or `async def (reader, writer)`
        (`raw`). `serves` is any of these: they differ in the number of their arguments. `tls`: a
        server's context; then it speaks TLS.
        """
        given = {"app": app, "raw": raw, "handler": handler}
        if serves is not None:
            kinds = {"asgi": "app", "raw": "raw", "plain": "handler"}
            given[kinds[kind_of(serves)]] = serves
        chosen = {kind: what for kind, what in given.items() if what is not None}
        if len(chosen) > 1 or (serves is not None and serves not in chosen.values()):
            raise ValueError("a pod serves one thing; right: node.pod(app), or nothing at all")
        if "handler" in chosen:
            chosen = {"app": as_application(chosen["handler"])}
        program = ServerProgram(self._world.simulation, **chosen, tls=tls)
        return self.place(program, port=port, name=name)

    @functools.cached_property
    def network(self) -> SimNetwork:
        """The network as this node sees it: `network=node.network` dials from here."""
        world = self._world
        return SimNetwork(world.simulation, self.kernel, world.dns, world.draws)


class SimNet(World):
    """A cluster in virtual time, and the network of its client node: see `outlast.net.seam`.

    seed: all chance comes from it. kernel: what the hosts' kernels are set to. patience: real
    seconds for what ought to take none. longest: virtual seconds that a run may take. traced:
    whether `transcript` takes everything down, line by line.

    One run at a time; within it, whoever has the turn. Raises SimStalled where time cannot go on.
    """

    node_type = SimNode
    tells = True

    def __init__(
        self,
        seed: int | str = 0,
        *,
        kernel: Kernel | None = None,
        patience: float = PATIENCE,
        longest: float = LONGEST,
        traced: bool = False,
    ) -> None:
        self.seed = seed
        self.simulation = Simulation(patience, longest)
        self._schedule = Schedule(self.simulation.timeline)
        super().__init__(self.simulation.timeline, seed, kernel=kernel)
        self.network = SimNetwork(self.simulation, self.client.kernel, self.dns, self.draws)
        self.transcript = Transcript(self.simulation.timeline)
        if traced:
            self.trace = self.transcript

    # -- the cluster -----------------------------------------------------------------------

    def node(self, name: str, *, kernel: Kernel | None = None, routed: bool = False) -> SimNode:
        """Add a node. kernel: what its kernel is set to. routed: it is behind a router, not on the
        link of the others."""
        node = super().node(name, kernel=kernel, routed=routed)
        assert isinstance(node, SimNode)
        return node

    def at(self, t: float, fn: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call `fn` `t` seconds after the run began (at once when that is past)."""
        if not t >= 0:
            raise ValueError(f"time {t!r} is before the start; right: net.at(3.0, node.power_off)")
        self._schedule.at(t, functools.partial(fn, *args, **kwargs))

    def elapsed(self) -> float:
        """Virtual seconds since the run began; 0 before, its length after."""
        return self._schedule.elapsed()

    # -- runs ------------------------------------------------------------------------------

    def running(self) -> SimRun:
        """Run sync code in virtual time: this thread, and threads that it starts.

        A failure of a scheduled action is raised at the end, unless the block itself failed.
        """
        return SimRun(self, self._schedule)

    def run(
        self,
        main: Callable[..., Coroutine[Any, Any, T]],
        *args: Any,
        backend: str = "asyncio",
        debug: bool = False,
    ) -> T:
        """Run `main(*args)` in an event loop in virtual time, asyncio or trio; what it returns."""
        with self.running():
            work = functools.partial(main, *args)
            return self.simulation.run_loop(work, backend, debug)

    def thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> SimThread[T]:
        """Start a simulated thread; `join` it, or ask for its `result`."""
        return self.simulation.thread(functools.partial(work, *args, **kwargs), None)

    def gather(self, *works: Callable[[], T], names: Sequence[str] | None = None) -> list[T]:
        """Run functions side by side in simulated threads, to the end of all; their results.

        names: of the workers, by which their chance is keyed. Raises the first one's failure.
        """
        if names is not None and len(names) != len(works):
            raise ValueError(f"{len(works)} functions and {len(names)} names; right: one for each")
        chosen = names or [f"worker-{number}" for number in range(1, len(works) + 1)]
        pairs = zip(works, chosen, strict=True)
        threads = [self.simulation.thread(work, name) for work, name in pairs]
        for thread in threads:
            thread.join()
        return [thread.result() for thread in threads]

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass, in sync code."""
        self.simulation.sleep(seconds)

    def close(self) -> None:
        """End every pod's program, so that its handlers have ended too. May be called again."""
        for node in (self.client, *self.nodes.values()):
            for pod in node.pods:
                if pod.running:
                    pod.kill()

    def __enter__(self) -> SimNet:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def httpx_transport(self, **arguments: Any) -> httpx.HTTPTransport:
        """Plain `httpx.HTTPTransport(**arguments)` on this network, to compare with."""
        from outlast.testing.simnet.plain_http import httpx_transport

        return httpx_transport(self.network, **arguments)

    def async_httpx_transport(self, **arguments: Any) -> httpx.AsyncHTTPTransport:
        """Plain `httpx.AsyncHTTPTransport(**arguments)` on this network, to compare with."""
        from outlast.testing.simnet.plain_http import async_httpx_transport

        return async_httpx_transport(self.network, **arguments)

    # -- the client's network, behind the seam ---------------------------------------------

    def now(self) -> float:
        """See `Network.now`."""
        return self.network.now()

    def wall_clock(self) -> float:
        """See `Network.wall_clock`."""
        return self.network.wall_clock()

    def wait(self, wait: Wait) -> Ready:
        """See `Network.wait`."""
        return self.network.wait(wait)

    async def wait_async(self, wait: Wait) -> Ready:
        """See `Network.wait_async`."""
        return await self.network.wait_async(wait)

    def rng(self, name: str) -> Random:
        """See `Network.rng`."""
        return self.network.rng(name)

    def waiter(self) -> Waiter:
        """See `Network.waiter`."""
        return self.network.waiter()

    def lookup(self, host: str, port: int, waiter: Waiter) -> Lookup:
        """See `Network.lookup`."""
        return self.network.lookup(host, port, waiter)

    def dial(self, address: Address, plan: SocketPlan) -> Stream:
        """See `Network.dial`."""
        return self.network.dial(address, plan)

    def spawn(self, job: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See `Network.spawn`."""
        self.network.spawn(job)

    def picture(self) -> str:
        """The transcript as a time line, as the text of an SVG file; needs `traced=True`."""
        if not self.transcript.lines:
            raise RuntimeError("nothing was taken down; right: SimNet(seed=7, traced=True)")
        return draw(self.transcript, f"SimNet, seed {self.seed!r}")

    def sign(self, error: BaseException) -> None:
        """Have an error tell its seed, where the Python takes notes (3.11)."""
        add_note = getattr(error, "add_note", None)
        if add_note is not None:
            when = f"after {self.elapsed():.6f} s of virtual time"
            add_note(f"SimNet(seed={self.seed!r}), {when}: the same seed has it again")

    def __repr__(self) -> str:
        return f"<SimNet seed={self.seed!r} at {self.elapsed():g} s>"


class SimRun(Running):
    """One run of a network, with its schedule."""

    def __init__(self, net: SimNet, schedule: Schedule) -> None:
        super().__init__(net.simulation)
        self._net = net
        self._schedule = schedule

    def __enter__(self) -> SimNet:
        self.begin()
        self._schedule.start()
        return self._net

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        failure = self._schedule.stop()
        try:
            self.end(error)
            if failure is not None and error is None:
                raise failure
        except BaseException as told:
            self._net.sign(told)
            raise
        if error is not None:
            self._net.sign(error)

    async def __aenter__(self) -> SimNet:
        self.inside_own_loop()
        return self._net
