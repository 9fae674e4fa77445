"""A socket that is replaced is the program's own in everything but its file.

Without a node to lose: an endpoint that is only known by name is dialled by the supervisor, and
what it dials takes the place of the program's own.
"""

from __future__ import annotations

import json

import pytest

from tests.shims.run.command import HERE, run

pytestmark = [pytest.mark.usefixtures("supervised"), pytest.mark.timeout(90)]


@pytest.mark.parametrize("how", ["blocking", "waiting", "loop"])
def test_nothing_changes_but_the_file(port: int, how: str) -> None:
    target = f"10.255.255.1:9=dns://localhost:{port}"
    program = [str(HERE / "replaced.py"), "10.255.255.1", "9", how]
    done = run("--explain", "--target", target, program=program)
    found = json.loads(done.stdout or "{}")
    assert found, done.stderr
    assert found.pop("code") == (0 if how == "blocking" else "EINPROGRESS")
    assert found.pop("error") == 0
    assert found.pop("source") == "127.0.0.1"
    assert found.pop("answer") == "HTTP/1.0 200"
    assert set(found.values()) == {True}, found
    assert "socket replaced, 2 descriptors" in done.stderr
    if how == "loop":
        assert "2 of 2 epoll registrations made anew" in done.stderr
