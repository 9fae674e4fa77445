"""Settings of the shims: argument over environment over file over default, and bad input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outlast import Policy
from outlast.net.options import Keepalive
from outlast.shims.settings import SOCKET_FIELDS, Settings, read_settings

DB = "static://10.0.0.1:5432,10.0.0.2:5432"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "outlast.toml"
    path.write_text(
        'only = ["*.svc"]\nskip = ["10.0.0.7"]\n'
        f'[targets]\n"db.svc:5432" = "{DB}"\n'
        '[policy]\nconnect_timeout = "3s"\nkeepalive = [7, 2, 5]\nopen_attempts = 3\n',
        encoding="utf-8",
    )
    return path


def test_nothing_said_is_the_defaults() -> None:
    assert read_settings(environ={}) == Settings()
    assert read_settings(environ={"HOME": "/", "OUTLAST_ONLY": " ", "OUTLAST_CONFIG": ""}) == (
        Settings()
    )


def test_the_file(file: Path) -> None:
    found = read_settings(config=file, environ={})
    assert found == read_settings(environ={"OUTLAST_CONFIG": str(file)})
    assert found.policy == Policy(
        connect_timeout=3.0, keepalive=Keepalive(7, 2, 5), open_attempts=3
    )
    assert found.scope.target_for("db.svc", 5432) is not None
    assert found.scope.target_for("db.example", 5432) is None


def test_the_environment_over_the_file(file: Path) -> None:
    environ = {
        "OUTLAST_ONLY": "*.example, db.svc:1",
        "OUTLAST_TARGETS": f"x.svc:1=static://10.0.0.3:1  y.svc:2={DB}",
        "OUTLAST_CONNECT_TIMEOUT": "250ms",
        "OUTLAST_ATTEMPT_DELAY": "none",
        "OUTLAST_KEEPALIVE": "off",
        "OUTLAST_USER_TIMEOUT": "12.5",
        "OUTLAST_WATCH": "No",
    }
    found = read_settings(config=file, environ=environ)
    assert found.policy == Policy(
        connect_timeout=0.25, keepalive=None, open_attempts=3, user_timeout=12.5, watch=False
    )
    assert [pattern.text for pattern in found.scope.only] == ["*.example", "db.svc:1"]
    assert [pattern.text for pattern in found.scope.skip] == ["10.0.0.7"]
    assert [key.text for key, _ in found.scope.targets] == ["db.svc:5432", "x.svc:1", "y.svc:2"]


def test_an_argument_over_everything(file: Path) -> None:
    found = read_settings(
        config=file,
        environ={"OUTLAST_CONNECT_TIMEOUT": "1", "OUTLAST_SKIP": "a"},
        only=iter(["b"]),
        skip=[],
        targets={"db.svc:5432": "static://10.0.0.9:1"},
        policy={"attempt_delay": 0.05},
    )
    assert found.policy.connect_timeout == 1.0
    assert found.policy.attempt_delay == 0.05
    assert found.scope.skip == ()
    target = found.scope.target_for("db.svc", 5432)
    assert target is not None
    assert target.text == "static://10.0.0.9:1"


def test_a_policy_is_taken_whole(file: Path) -> None:
    policy = Policy(connect_timeout=9.0, attempts=7)
    assert read_settings(config=file, environ={}, policy=policy).policy is policy


@pytest.mark.parametrize(
    ("variable", "value", "field", "means"),
    [
        ("KEEPALIVE", "5, 1 ,6", "keepalive", Keepalive(5, 1, 6)),
        ("OPEN_ATTEMPTS", "2", "open_attempts", 2),
        ("ATTEMPT_DELAY", "20ms", "attempt_delay", 0.02),
        ("WATCH", "1", "watch", True),
        ("USER_TIMEOUT", "0", "user_timeout", 0.0),
    ],
)
def test_how_variables_are_written(variable: str, value: str, field: str, means: object) -> None:
    found = read_settings(environ={f"OUTLAST_{variable}": value})
    assert getattr(found.policy, field) == means


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"OUTLAST_ATTEMPTS": "3"}, "OUTLAST_ATTEMPTS: there is no such setting"),
        ({"OUTLAST_CONECT_TIMEOUT": "3"}, "there are OUTLAST_CONFIG, .*OUTLAST_CONNECT_TIMEOUT"),
        ({"OUTLAST_CONNECT_TIMEOUT": "soon"}, "connect_timeout: 'soon' is no duration"),
        ({"OUTLAST_OPEN_ATTEMPTS": "many"}, "open_attempts: 'many' is not a whole number"),
        ({"OUTLAST_KEEPALIVE": "5,1"}, "keepalive: .* neither None nor"),
        ({"OUTLAST_KEEPALIVE": "5,x,1"}, "keepalive: .* neither None nor"),
        ({"OUTLAST_WATCH": "perhaps"}, "watch: 'perhaps' is not True or False"),
        ({"OUTLAST_ONLY": "a:b"}, "^environment, OUTLAST_...: only: 'a:b'"),
        ({"OUTLAST_TARGETS": "db"}, "OUTLAST_TARGETS: 'db' is no destination=target"),
        ({"OUTLAST_TARGETS": "db:1=nothing"}, "has no port"),
    ],
)
def test_a_bad_variable_is_named(environ: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_settings(environ=environ)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("only = '*.svc'", "only is no list"),
        ("targets = 3", "targets is no table"),
        ("[polcy]", "unknown 'polcy'; the keys are only, skip, targets, policy"),
        ("[policy]\nattempts = 3", "'attempts' says nothing of sockets"),
        ("[policy]\nconnect_timeout = -1", "connect_timeout: -1 is no duration"),
        ("only = ['a:b']", "only: 'a:b'"),
        ("only = [3]", "only: 3 names no host"),
        ("= 3", "no TOML"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{path}: .*{says}"):
        read_settings(config=path, environ={})


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_settings(config=tmp_path / "none.toml", environ={})


def test_what_is_no_text_is_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "bytes.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="no TOML"):
        read_settings(config=path, environ={})


def test_without_a_reader_of_toml_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "outlast.toml"
    path.write_text("", encoding="utf-8")

    def gone(_name: str) -> Any:
        raise ImportError

    monkeypatch.setattr("importlib.import_module", gone)
    with pytest.raises(ValueError, match="brings tomli"):
        read_settings(config=path, environ={})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"only": "*.svc"}, "only: .* is one text"),
        ({"targets": ["a"]}, "targets: .* maps nothing"),
        ({"policy": 3}, "policy: 3 is no outlast.Policy"),
        ({"policy": {"deadline": 3}}, "'deadline' says nothing of sockets"),
    ],
)
def test_bad_arguments(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_settings(environ={}, **given)


def test_every_socket_field_is_one_of_the_policy() -> None:
    assert all(hasattr(Policy(), name) for name in SOCKET_FIELDS)
