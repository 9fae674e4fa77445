"""A minute of outage in a fraction of a second: plain httpx and outlast, the same seed.

Run: python examples/simulated_outage.py
"""

from __future__ import annotations

import httpx

import outlast
from outlast.testing import SimNet

URL = "http://orders.shop.svc:8080/"


def cluster() -> SimNet:
    """Two nodes with a pod each, one Service. A node loses power; 40 s later that is known."""
    net = SimNet(seed=7, traced=True)
    a, b = net.node("a"), net.node("b")
    orders = net.service("orders.shop.svc:8080", pods=[a.pod(), b.pod()])
    net.at(3.0, a.power_off)
    net.at(43.0, orders.remove, a)
    return net


def outage(name: str, net: SimNet, transport: httpx.BaseTransport) -> None:
    """A request per half second and worker; what became of them."""
    answered, errors = 0, 0

    def work() -> None:
        nonlocal answered, errors
        while net.elapsed() < 60:
            try:
                client.get(URL)
                answered += 1
            except httpx.TransportError:
                errors += 1
            net.sleep(0.5)

    with net.running(), httpx.Client(transport=transport) as client:
        net.gather(work, work, work, work)
    print(f"{name}: {answered} answered, {errors} errors in {net.elapsed():.0f} virtual seconds")


if __name__ == "__main__":
    plain, ours = cluster(), cluster()
    outage("httpx  ", plain, plain.httpx_transport())
    outage("outlast", ours, outlast.Transport(network=ours))
    print("\n".join(ours.transcript.text(packets=False).splitlines()[-3:]))
