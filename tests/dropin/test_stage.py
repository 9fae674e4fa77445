"""What the stage promises to its cases."""

from __future__ import annotations

import errno
import socket

import pytest

from tests.dropin.stage import OTHER, Stage, echo


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_nobody_else_has_its_port_on_the_other_loopback(host: str) -> None:
    """Cases send clients there to be refused; side by side, others' servers were there."""
    with Stage(echo, host=host) as stage, socket.socket(_of(host)) as another:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((OTHER[":" in host], stage.port), 5.0)
        with pytest.raises(OSError) as caught:
            another.bind((OTHER[":" in host], stage.port))
        assert caught.value.errno == errno.EADDRINUSE
        stage.end()


def _of(host: str) -> socket.AddressFamily:
    """The other family than an address has."""
    return socket.AF_INET if ":" in host else socket.AF_INET6
