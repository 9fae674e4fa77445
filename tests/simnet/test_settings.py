"""Socket options: the kernel's numbers, ranges and refusals (facts 2.1)."""

from __future__ import annotations

import errno

import pytest

from outlast.testing.simnet.rules import Kernel
from tests.simnet.scene import IP, SOCKET, TCP, Scene


@pytest.mark.parametrize(
    ("level", "number", "good", "bad", "default"),
    [
        (TCP, 4, (1, 32767), (0, 32768), 7200),
        (TCP, 5, (1, 32767), (0, 32768), 75),
        (TCP, 6, (1, 127), (0, 128), 9),
        (TCP, 7, (1, 127), (0, 128), 6),
        (TCP, 18, (0, 11_000), (-1,), 0),
        (TCP, 44, (1000, 120_000), (0, 500, 120_001), 120_000),
        (SOCKET, 9, (0, 1), (), 0),
        (TCP, 1, (0, 1), (), 0),
        (IP, 11, (0, 1), (), 0),
    ],
)
def test_options(
    level: int, number: int, good: tuple[int, ...], bad: tuple[int, ...], default: int
) -> None:
    sock = Scene().connection()
    assert sock.getsockopt(level, number) == default
    for value in good:
        sock.setsockopt(level, number, value)
        assert sock.getsockopt(level, number) == value
        sock.setsockopt(level, number, value.to_bytes(4, "little"))
        assert sock.getsockopt(level, number) == value
    for value in bad:
        with pytest.raises(OSError, match="Invalid") as failure:
            sock.setsockopt(level, number, value)
        assert failure.value.errno == errno.EINVAL
        assert sock.getsockopt(level, number) == good[-1]


def test_what_the_model_does_not_know_is_refused() -> None:
    scene = Scene()
    sock = scene.connection()
    for attempt in (
        lambda: sock.setsockopt(TCP, 12, 1),
        lambda: sock.getsockopt(TCP, 12),
        lambda: scene.dial((TCP, 12, 1), label="other"),
    ):
        with pytest.raises(OSError, match="not available") as failure:
            attempt()
        assert failure.value.errno == errno.ENOPROTOOPT


def test_buffers_are_doubled_and_capped() -> None:
    sock = Scene().connection()
    for asked, held in ((10_000, 20_000), (1, 4_608), (10_000_000, 425_984)):
        sock.setsockopt(SOCKET, 7, asked)
        assert sock.getsockopt(SOCKET, 7) == held


def test_so_error_is_read_once() -> None:
    scene = Scene()
    sock = scene.client.connect((scene.pod.host, 9))
    scene.run(0.1)
    assert [sock.getsockopt(SOCKET, 4) for _ in range(2)] == [errno.ECONNREFUSED, 0]


def test_local_addresses() -> None:
    scene = Scene()
    remote = scene.pod.endpoint
    sock = scene.client.connect(remote, source=("10.244.0.1", 5000))
    assert sock.local == ("10.244.0.1", 5000)
    for source, options, code in (
        (("10.244.0.1", 5000), [], errno.EADDRINUSE),
        (("", 5000), [(SOCKET, 2, 1)], errno.EADDRNOTAVAIL),
        (("10.1.1.1", 0), [], errno.EADDRNOTAVAIL),
    ):
        with pytest.raises(OSError, match="ddress") as failure:
            scene.client.connect(remote, options, source=source)
        assert failure.value.errno == code
    other = scene.client.connect(("10.244.1.2", 9), [(SOCKET, 2, 1)], source=("0.0.0.0", 5000))
    assert other.local == sock.local


def test_listening_twice_is_refused() -> None:
    kernel = Scene().a.kernel
    kernel.listen(9)
    for where, code in ((9, errno.EADDRINUSE), (("10.244.0.1", 9), errno.EADDRNOTAVAIL)):
        with pytest.raises(OSError, match="ddress") as failure:
            kernel.listen(where)
        assert failure.value.errno == code


def test_a_kernel_of_ones_own() -> None:
    scene = Scene(kernel=Kernel(syn_retries=2, keepalive_idle=30))
    sock = scene.connection()
    assert (sock.getsockopt(TCP, 7), sock.getsockopt(TCP, 4)) == (2, 30)
