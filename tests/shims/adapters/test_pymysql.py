"""PyMySQL over our sockets: what it takes and raises is its own."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
import trustme

from outlast import Policy, report_of
from outlast.shims.adapters.pymysql import OutlastConnection
from tests.shims.adapters.conftest import SOON
from tests.shims.adapters.looks import LINUX, both, is_ours
from tests.shims.adapters.mysql_site import database
from tests.shims.adapters.site import Site, go_dead


@pytest.fixture
def db() -> Iterator[Site]:
    """A MySQL server."""
    with database() as made:
        yield made


def alone(port: int) -> dict[str, str]:
    return {"db.svc:3306": f"static://127.0.0.1:{port}"}


def connect(targets: dict[str, str], **kwargs: Any) -> Any:
    return OutlastConnection(**{"host": "db.svc", "user": "u", "targets": targets, **kwargs})


def seven(connection: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("select 7")
        return cursor.fetchone()


def test_a_silent_endpoint_costs_a_moment(db: Site, silent: int) -> None:
    for _ in range(3):
        with connect({"db.svc:3306": both(silent, db.port)}, read_timeout=3) as made:
            assert seven(made) == (7,)
            assert made._sock.gettimeout() == 3
            assert not LINUX or is_ours(made._sock)


def test_it_connects_again_when_it_is_asked_to(db: Site) -> None:
    made = connect(alone(db.port), defer_connect=True)
    for _ in range(2):
        made.connect()
        assert seven(made) == (7,)
        made.close()


def test_errors_are_pymysqls_and_carry_the_report(silent: int, refusing: int) -> None:
    for port, kind in ((silent, TimeoutError), (refusing, ConnectionRefusedError)):
        with pytest.raises(pymysql.OperationalError, match=r"2003.*Can't connect") as caught:
            connect(alone(port), policy=SOON)
        assert isinstance(caught.value.__cause__, kind)
        assert report_of(caught.value) is not None
    with pytest.raises(pymysql.OperationalError):
        connect(alone(silent), connect_timeout=1, policy=Policy(connect_timeout=60))


def test_the_local_address(db: Site) -> None:
    connect(alone(db.port), bind_address="127.0.0.2").close()
    assert db.peers == ["127.0.0.2"]


@pytest.mark.skipif(not LINUX, reason="needs a socket filter")
@pytest.mark.incident("FR-23")
def test_fr23_a_query_whose_server_is_lost_ends(db: Site) -> None:
    made = connect(alone(db.port), policy=Policy(user_timeout=1, keepalive=None))
    go_dead(db.accepted[0])
    with pytest.raises(pymysql.OperationalError, match="Lost connection"):
        made.query("select 'mute'")
    made.connect()
    assert seven(made) == (7,)
    made.close()


def test_tls_verifies_the_name_that_was_written(
    served_as: ssl.SSLContext, authority: trustme.CA, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    with database(served_as) as db:
        port = f"static://127.0.0.1:{db.port}"
        targets = {"orders.svc:3306": port, "others.svc:3306": port}
        secure: dict[str, Any] = {"ssl": {"ca": str(bundle), "check_hostname": True}}
        with connect(targets, host="orders.svc", **secure) as made:
            assert seven(made) == (7,)
        with pytest.raises(pymysql.OperationalError, match=r"others.svc"):
            connect(targets, host="others.svc", **secure)
