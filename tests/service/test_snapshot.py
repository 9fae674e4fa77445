"""Snapshots: the table for people, the dictionary for programs."""

from __future__ import annotations

import json
import math

from outlast.service.snapshot import EndpointSnapshot, Snapshot, TargetSnapshot

TABLE = """
dns://orders:8080  (3 endpoints, 1 out, 1 trial, 812 calls, 23 repeats left, 50 extra dials left, \
PANIC)
  endpoint       standing         weight  pending  latency    answered  notes
  10.0.0.1:8080  in                 1.00        2     3 ms  120 ms ago  8 connections (6 idle)
  10.0.0.2:8080  out, 4.2 s left    1.00        0        -       never  priority 1; eu-1a; node-2; \
on death (connect_failures): 3 connects failed; ejected 3 times; suspect; check down (refused)
  10.0.0.3:8080  trial              0.10        1    1.5 s   250 s ago  check up; 1 connection

static://10.9.0.1:80  (1 endpoint, 1 out, 1 call)
  endpoint     standing        weight  pending  latency  answered  notes
  10.9.0.1:80  out, trial due    1.00        0        -     never  on answers \
(gateway_errors): 5 times 503; ejected 1 time
"""


def orders() -> TargetSnapshot:
    first = EndpointSnapshot(
        address="10.0.0.1:8080",
        pending=2,
        latency=0.003,
        last_success=99.88,
        connections=8,
        idle=6,
    )
    second = EndpointSnapshot(
        address="10.0.0.2:8080",
        standing="out",
        evidence="death",
        rule="connect_failures",
        why="3 connects failed",
        until=104.2,
        ejections=3,
        priority=1,
        zone="eu-1a",
        node="node-2",
        suspect=True,
        check="down",
        check_why="refused",
    )
    third = EndpointSnapshot(
        address="10.0.0.3:8080",
        standing="trial",
        pending=1,
        latency=1.5,
        weight=0.1,
        last_success=-150.0,
        check="up",
        connections=1,
    )
    return TargetSnapshot(
        target="dns://orders:8080",
        endpoints=(first, second, third),
        panic=True,
        retry_budget_left=23.0,
        redials_left=50.0,
        calls=812,
    )


def made() -> Snapshot:
    lone = EndpointSnapshot(
        address="10.9.0.1:80",
        standing="out",
        evidence="answers",
        rule="gateway_errors",
        why="5 times 503",
        until=100.0,
        ejections=1,
    )
    return Snapshot(
        at=100.0,
        targets=(
            orders(),
            TargetSnapshot(target="static://10.9.0.1:80", endpoints=(lone,), calls=1),
        ),
    )


def test_the_table_for_people() -> None:
    assert str(made()) == TABLE.strip()


def test_nothing_to_tell() -> None:
    assert str(Snapshot(at=0.0)) == "no target has been used yet"
    alone = TargetSnapshot(target="dns://a:80")
    assert str(Snapshot(at=0.0, targets=(alone,))).startswith("dns://a:80  (0 endpoints, 0 calls)")


def test_the_dictionary_for_programs() -> None:
    told = made().as_dict()
    assert json.loads(json.dumps(told)) == told
    target = told["targets"][0]
    assert target["panic"] is True
    assert target["endpoints"][1]["evidence"] == "death"
    assert target["endpoints"][0]["until"] is None


def test_out_until_a_check_passes() -> None:
    lone = EndpointSnapshot(address="10.9.0.1:80", standing="out", until=math.inf, check="down")
    snapshot = Snapshot(at=1.0, targets=(TargetSnapshot(target="t", endpoints=(lone,)),))
    assert "out, until checked" in str(snapshot)
    assert "Infinity" not in json.dumps(snapshot.as_dict())


def test_finding_the_way() -> None:
    snapshot = made()
    assert len(snapshot) == 2
    assert [each.target for each in snapshot] == ["dns://orders:8080", "static://10.9.0.1:80"]
    target = snapshot.get("dns://orders:8080")
    assert target is not None
    assert target.pending == 3
    assert [target.standing(word) for word in ("in", "out", "trial")] == [1, 1, 1]
    found = target.get("10.0.0.2:8080")
    assert found is not None
    assert found.node == "node-2"
    assert (snapshot.get("dns://other:80"), target.get("10.0.0.9:8080")) == (None, None)
