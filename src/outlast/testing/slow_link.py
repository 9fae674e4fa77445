"""A link that takes its time: a relay process between a node's cable and the lab's bridge.

Without it: bridge - port. With it: bridge - near end = far end - relay - port. The relay is
`link_relay`. Where frames enter it, checksum offload is switched off, which switches segmentation
off too: the relay sees frames as a wire would.

Source: veth(4), linux/ethtool.h. Refuses nothing that a link has; only packets towards the node are
late, so the round trip grows by the delay.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys

from outlast.testing import rtnetlink
from outlast.testing.namespaces import Hand, Namespace

_SIOCETHTOOL, _ETHTOOL_STXCSUM = 0x8946, 0x17
_START_LIMIT = 20.0


class SlowLink:
    """The relay in front of the port `port` of `fabric`'s bridge."""

    def __init__(self, hand: Hand, fabric: Namespace, bridge: str, port: str) -> None:
        self._hand = hand
        self._fabric = fabric
        self._bridge = bridge
        self._port = port
        self._near, self._far = f"{port}-near", f"{port}-far"
        self._relay = hand.do(fabric, self._lay)
        self._await_ready()
        hand.do(fabric, self._cut_in)

    def set(self, seconds: float) -> None:
        """Set the delay for the frames to come."""
        if self._relay.stdin is not None:
            os.write(self._relay.stdin.fileno(), b"%f\n" % seconds)

    def close(self) -> None:
        """Take the relay out; the port is left without a bridge."""
        self._relay.kill()
        self._relay.wait()
        for pipe in (self._relay.stdin, self._relay.stdout):
            if pipe is not None:
                pipe.close()
        self._hand.do(self._fabric, rtnetlink.delete_link, self._near)

    def _lay(self) -> subprocess.Popen[bytes]:
        """Runs in the fabric: everything but the connection to the bridge."""
        mac = bytes.fromhex("02000000fa50")  # never seen by anybody: the far end only carries
        rtnetlink.add_veth(self._near, peer=self._far, peer_namespace=self._fabric.fd, peer_mac=mac)
        without_offload(self._near)
        rtnetlink.set_link(self._near, up=True)
        rtnetlink.set_link(self._far, up=True)
        boot = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from outlast.testing.link_relay import main; main(*sys.argv[1:])"
        )
        command = [sys.executable, "-c", boot, str(os.getpid()), self._far, self._port]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def _await_ready(self) -> None:
        output = self._relay.stdout
        ready = output is not None and select.select([output], [], [], _START_LIMIT)[0]
        if not ready or output is None or not output.readline():
            self.close()
            raise RuntimeError(f"the relay of {self._port} did not start; stderr may tell why")

    def _cut_in(self) -> None:
        rtnetlink.leave_bridge(self._port)
        rtnetlink.join_bridge(self._near, self._bridge)


def without_offload(interface: str) -> None:
    """Have an interface of the calling thread's namespace send whole frames with checksums."""
    value = ctypes.create_string_buffer(struct.pack("=II", _ETHTOOL_STXCSUM, 0))
    request = struct.pack("16sP", interface.encode("ascii"), ctypes.addressof(value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCETHTOOL, request + bytes(16))
