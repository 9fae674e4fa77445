"""The filter, carried out step by step as the kernel does (net/core/filter.c)."""

from __future__ import annotations

import socket
import struct

import pytest

from outlast.shims.run.bpf import program
from outlast.shims.run.machine import (
    IO_URING_SETUP,
    LANDLOCK_RESTRICT_SELF,
    MACHINES,
    Machine,
    Unsupported,
    this_machine,
)

ALLOW, NOTIFY, NO_SUCH_CALL = 0x7FFF0000, 0x7FC00000, 0x00050000 | 38


def verdict(code: bytes, number: int, arch: int, *arguments: int) -> int:
    """What the filter says of one call."""
    given = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", number, arch, 0, *given)
    lines = list(struct.iter_unpack("=HBBI", code))
    at = held = 0
    while True:
        operation, yes, no, operand = lines[at]
        at += 1
        if operation == 0x20:
            (held,) = struct.unpack_from("=I", data, operand)
        elif operation == 0x15:
            at += yes if held == operand else no
        elif operation == 0x35:
            at += yes if held >= operand else no
        else:
            assert operation == 0x06
            return int(operand)


@pytest.fixture(params=sorted(MACHINES))
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


def test_connects_and_what_belongs_to_them_are_told(machine: Machine) -> None:
    code = program(machine, io_uring=True)
    for number in (machine.connect, IO_URING_SETUP, LANDLOCK_RESTRICT_SELF, *machine.epoll_create):
        assert verdict(code, number, machine.arch) == NOTIFY


def test_of_getsockopt_only_the_question_for_the_outcome(machine: Machine) -> None:
    code = program(machine, io_uring=True)
    asked = (machine.getsockopt, machine.arch, 3)
    assert verdict(code, *asked, socket.SOL_SOCKET, socket.SO_ERROR) == NOTIFY
    assert verdict(code, *asked, socket.SOL_SOCKET, socket.SO_TYPE) == ALLOW
    assert verdict(code, *asked, socket.IPPROTO_TCP, socket.SO_ERROR) == ALLOW
    # An int is what the kernel reads of a register: the upper half says nothing.
    assert verdict(code, *asked, 2**32 + socket.SOL_SOCKET, socket.SO_ERROR) == NOTIFY


def test_every_other_call_and_every_other_abi_pass(machine: Machine) -> None:
    code = program(machine, io_uring=True)
    told = {machine.connect, machine.getsockopt, IO_URING_SETUP, LANDLOCK_RESTRICT_SELF}
    for number in set(range(470)) - told - set(machine.epoll_create):
        assert verdict(code, number, machine.arch) == ALLOW
    assert verdict(code, machine.connect, 0x40000003) == ALLOW  # i386: 42 is another call there
    if machine.x32:
        assert verdict(code, machine.connect | machine.x32, machine.arch) == ALLOW


def test_io_uring_can_be_refused(machine: Machine) -> None:
    code = program(machine, io_uring=False)
    assert verdict(code, IO_URING_SETUP, machine.arch) == NO_SUCH_CALL
    assert verdict(code, machine.connect, machine.arch) == NOTIFY


def test_other_machines_and_systems_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(Unsupported, match="darwin"):
        this_machine()
    monkeypatch.setattr("sys.platform", "linux")
    names = type("Names", (), {"machine": "riscv64"})
    monkeypatch.setattr("os.uname", names)
    with pytest.raises(Unsupported, match="riscv64"):
        this_machine()
