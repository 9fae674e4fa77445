"""Whether this process may build a kernel lab, and how to start one that may.

The answer is found by trying, not by reading capability masks: a throw-away namespace gets a
bridge, a veth pair and the Service rules. That takes about 20 milliseconds, once per process.

Source: user_namespaces(7), capabilities(7), unshare(1).
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from outlast.testing import rtnetlink, service_nat
from outlast.testing.namespaces import Hand, run_tool, search_path

_UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount")


@functools.cache
def missing() -> str | None:
    """What keeps this process from building a lab, or None."""
    if not sys.platform.startswith("linux"):
        return "the kernel lab needs Linux"
    if shutil.which("nft", path=search_path()) is None:
        return "the program 'nft' is missing (the package is called nftables)"
    return _try_it()


def wrapped(command: Sequence[str]) -> list[str]:
    """`command`, put below a user namespace of its own where that is needed and possible."""
    if not sys.platform.startswith("linux") or os.geteuid() == 0:
        return list(command)
    try:
        probe = subprocess.run([*_UNSHARE, "true"], capture_output=True, timeout=10.0, check=False)
    except OSError:
        return list(command)
    return [*_UNSHARE, *command] if probe.returncode == 0 else list(command)


def _try_it() -> str | None:
    with contextlib.closing(Hand()) as hand:
        try:
            made = hand.make("probe")
        except OSError as error:
            return _not_allowed(error)
        with contextlib.closing(made) as space:
            try:
                hand.do(space, _rehearse, space.fd)
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"this kernel refuses a part of the lab: {error}"
    return None


def _rehearse(namespace: int) -> None:
    """Make one of everything; runs inside the throw-away namespace."""
    rtnetlink.set_link("lo", up=True)
    rtnetlink.add_bridge("br0")
    mac = bytes.fromhex("020000000001")
    rtnetlink.add_veth("probe0", peer="probe1", peer_namespace=namespace, peer_mac=mac)
    vip, pods = ("10.96.0.1", 80), [("10.244.1.2", 80), ("10.244.2.2", 80)]
    rules = [service_nat.base(), service_nat.new_service("service-1", vip)]
    rules += [service_nat.replace_endpoints("service-1", vip, [], pods)]
    run_tool(("nft", "-f", "-"), "\n".join(rules))


def _not_allowed(error: OSError) -> str:
    if os.geteuid() == 0:
        return f"root, but without the right to make network namespaces (CAP_SYS_ADMIN): {error}"
    return (
        f"needs root or an unprivileged user namespace ({error}); start it as "
        "`python -m outlast.testing.kernel_lab -- COMMAND`"
    )
