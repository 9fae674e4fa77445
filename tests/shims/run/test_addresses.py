"""Addresses as they stand in a program's memory, and which of them are ours."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import struct
from random import Random

import pytest

from outlast.net.address import literal
from outlast.net.kernel import kernel
from outlast.shims.run.destinations import Destinations
from outlast.shims.run.sockaddr import Wanted, fitted, packed, parsed, read_address
from outlast.shims.scope import parse_scope

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="Linux only")


def wanted(host: str, port: int) -> Wanted:
    address = literal(host, port)
    assert address is not None
    found = parsed(packed(address))
    assert found is not None
    return found


@pytest.mark.parametrize("host", ["10.1.2.3", "fd00::7", "::1", "255.255.255.255"])
def test_an_address_is_read_as_it_is_written(host: str) -> None:
    found = wanted(host, 8080)
    assert (found.host, found.port, found.scoped) == (host, 8080, False)


def test_a_mapped_address_is_its_ipv4_address() -> None:
    four = literal("10.1.2.3", 80)
    assert four is not None
    six = fitted(four, socket.AF_INET6)
    assert six is not None
    found = parsed(packed(six))
    assert found is not None
    assert (found.family, found.host) == (socket.AF_INET6, "10.1.2.3")


def test_an_ipv4_socket_cannot_dial_ipv6() -> None:
    six = literal("fd00::7", 80)
    assert six is not None
    assert fitted(six, socket.AF_INET) is None


def test_an_interface_in_the_address_is_seen() -> None:
    raw = struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", 80, 0)
    raw += socket.inet_pton(socket.AF_INET6, "fe80::1") + struct.pack("=I", 2)
    found = parsed(raw)
    assert found is not None
    assert found.scoped


def test_memory_that_is_not_there_is_nobodys_address() -> None:
    assert read_address(os.getpid(), 1, 16) is None
    room = ctypes.create_string_buffer(wanted("10.0.0.1", 80).raw)
    assert read_address(os.getpid(), ctypes.addressof(room), 16) is not None
    for length in (0, 15, 129, 2**31, 2**32 - 1):
        assert read_address(os.getpid(), ctypes.addressof(room), length) is None


def test_any_bytes_are_an_address_or_none() -> None:
    seed = Random().randrange(2**32)
    rng = Random(seed)
    for _ in range(2000):
        raw = rng.randbytes(rng.randrange(16, 29))
        if rng.random() < 0.7:
            raw = struct.pack("=H", rng.choice([2, 10])) + raw[2:]
        found = parsed(raw)
        assert found is None or 0 < found.port < 65536, f"seed {seed}: {raw!r}"


# -- the scope, as addresses see it ------------------------------------------------------------


def test_what_stays_on_this_machine_is_left_alone() -> None:
    there = Destinations(parse_scope(), kernel())
    assert there.aim(wanted("127.0.0.1", 80)) is None
    assert there.aim(wanted("169.254.169.254", 80)) is None
    found = there.aim(wanted("10.0.0.1", 80))
    assert found is not None
    assert found.raw == wanted("10.0.0.1", 80).raw


def test_a_mapped_address_leads_to_the_first_endpoint_of_its_family() -> None:
    targets = {"10.96.0.1:80": "static://[fd00::1]:81,10.0.0.1:82"}
    there = Destinations(parse_scope(targets=targets), kernel())
    found = there.aim(wanted("10.96.0.1", 80))
    assert found is not None
    assert str(found.address) == "10.0.0.1:82"
    assert found.raw == wanted("10.0.0.1", 82).raw


def test_names_are_looked_up() -> None:
    scope = parse_scope(
        only=["localhost:81"],
        skip=["localhost:82"],
        targets={"localhost:80": "static://10.0.0.1:8080"},
    )
    there = Destinations(scope, kernel())
    assert asyncio.run(there.first_look_up())
    mapped = there.aim(wanted("127.0.0.1", 80))
    assert mapped is not None
    assert str(mapped.address) == "10.0.0.1:8080"
    named = there.aim(wanted("127.0.0.1", 81))
    assert named is not None
    assert str(named.address) == "127.0.0.1:81"
    assert there.aim(wanted("127.0.0.1", 82)) is None


def test_a_name_that_cannot_be_looked_up_does_not_stop_the_others() -> None:
    scope = parse_scope(only=["no-such-name.invalid:80", "localhost:81"])
    there = Destinations(scope, kernel())
    assert asyncio.run(there.first_look_up())
    assert there.aim(wanted("127.0.0.1", 81)) is not None
