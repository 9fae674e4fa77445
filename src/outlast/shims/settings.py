"""Settings of the shims: from arguments, the environment and a TOML file, in this order.

OUTLAST_CONFIG names the file. OUTLAST_ONLY and OUTLAST_SKIP hold patterns with commas between;
OUTLAST_TARGETS holds `destination=target` with blanks between (a target may have commas); and
OUTLAST_CONNECT_TIMEOUT and its like hold the policy's fields. In the file:

    only = ["*.svc"]
    skip = ["10.0.0.7"]
    [targets]
    "db.shop.svc:5432" = "static://10.0.0.1:5432,10.0.0.2:5432"
    [policy]
    connect_timeout = "3s"

Refuses what it does not know, and fields of a policy that say nothing of sockets: a program whose
requests nobody sees cannot be given retries. Reads the environment and one file; decides nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlast.policy import Policy
from outlast.shims.scope import EVERYTHING, Scope, parse_scope
from outlast.target import Target

__all__ = ["SOCKET_FIELDS", "Settings", "read_settings"]

PREFIX = "OUTLAST_"
SOCKET_FIELDS = (
    *("connect_timeout", "attempt_delay", "open_attempts", "keepalive", "user_timeout", "watch"),
)
KEYS = ("only", "skip", "targets", "policy")
OTHERS = {"OUTLAST_FAMILY", "OUTLAST_FULL"}  # of this project's own tests
NOTHING = ("none", "off", "")
DEFAULT = Policy()
FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a shim looks after, and how it dials and watches. Frozen, hashable."""

    scope: Scope = EVERYTHING
    policy: Policy = DEFAULT


def read_settings(
    *,
    config: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] = os.environ,
    only: Iterable[str] | None = None,
    skip: Iterable[str] | None = None,
    targets: Mapping[str, str | Target] | None = None,
    policy: Policy | Mapping[str, Any] | None = None,
) -> Settings:
    """The settings that hold: an argument over the environment over the file over the defaults.

    `targets` and the policy's fields are merged one by one; `only` and `skip` are replaced whole.
    Raises ValueError naming the variable, the file's key or the argument that is wrong; OSError if
    the file cannot be read.
    """
    path = config if config is not None else environ.get(f"{PREFIX}CONFIG") or None
    layers = [_from_file(Path(path))] if path is not None else []
    layers += [_from_environment(environ)]
    layers += [_given(only, skip, targets, policy)]
    found = Settings()
    told: dict[str, Any] = {"only": None, "skip": (), "targets": {}}
    for layer in layers:
        found, told = _over(found, told, layer)
    if isinstance(policy, Policy):
        found = Settings(found.scope, policy)
    return found


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one source says. `where`: what its errors begin with."""

    where: str
    only: Any = None
    skip: Any = None
    targets: Mapping[str, Any] | None = None
    policy: Mapping[str, Any] | None = None


def _over(below: Settings, told: dict[str, Any], layer: _Layer) -> tuple[Settings, dict[str, Any]]:
    """One layer over those below it; it is checked by itself, so that its own name is told."""
    told = {
        "only": told["only"] if layer.only is None else layer.only,
        "skip": told["skip"] if layer.skip is None else layer.skip,
        "targets": {**told["targets"], **(layer.targets or {})},
    }
    try:
        scope = parse_scope(told["only"], told["skip"], told["targets"])
        fields = layer.policy or {}
        for name in fields:
            _check_field(name)
        return Settings(scope, below.policy.merged(fields) if fields else below.policy), told
    except ValueError as error:
        raise ValueError(f"{layer.where}{error}") from error


def _check_field(name: str) -> None:
    if name not in SOCKET_FIELDS:
        known = ", ".join(SOCKET_FIELDS)
        raise ValueError(f"policy: {name!r} says nothing of sockets; the fields are {known}")


def _given(
    only: Iterable[str] | None,
    skip: Iterable[str] | None,
    targets: Any,
    policy: Any,
) -> _Layer:
    if targets is not None and not isinstance(targets, Mapping):
        raise ValueError(
            f"targets: {targets!r} maps nothing; write {{'db.svc:5432': 'static://10.0.0.1:5432'}}"
        )
    if policy is not None and not isinstance(policy, (Policy, Mapping)):
        form = "Policy(connect_timeout=2.0)"
        raise ValueError(f"policy: {policy!r} is no outlast.Policy, such as {form}")
    fields = policy if isinstance(policy, Mapping) else None
    return _Layer("", _listed(only), _listed(skip), targets, fields)


def _listed(words: Iterable[str] | None) -> Any:
    """A list of its own, which may be looked at more than once; a text stays, to be refused."""
    return words if words is None or isinstance(words, (str, bytes)) else list(words)


# -- the environment ---------------------------------------------------------------------------


def _from_environment(environ: Mapping[str, str]) -> _Layer:
    fields: dict[str, Any] = {}
    told: dict[str, Any] = {}
    for variable in sorted(environ):
        name = variable[len(PREFIX) :].lower()
        if not variable.startswith(PREFIX) or variable in OTHERS or name == "config":
            continue
        value = environ[variable]
        if name in ("only", "skip"):
            words = [word.strip() for word in value.split(",") if word.strip()]
            told[name] = words or None
        elif name == "targets":
            told[name] = _pairs(value)
        elif name in SOCKET_FIELDS:
            fields[name] = _value(name, value)
        else:
            known = ", ".join(f"{PREFIX}{each.upper()}" for each in _VARIABLES)
            raise ValueError(f"{variable}: there is no such setting; there are {known}")
    return _Layer("environment, OUTLAST_...: ", policy=fields, **told)


_VARIABLES = ("config", "only", "skip", "targets", *SOCKET_FIELDS)


def _pairs(value: str) -> dict[str, str]:
    found = {}
    for word in value.split():
        key, mark, target = word.partition("=")
        if not mark or not key or not target:
            raise ValueError(
                f"OUTLAST_TARGETS: {word!r} is no destination=target, such as "
                "db.shop.svc:5432=static://10.0.0.1:5432,10.0.0.2:5432"
            )
        found[key] = target
    return found


def _value(name: str, text: str) -> Any:
    """A field's value from its text; what is not understood stays, for the policy to refuse."""
    word = text.strip().lower()
    if name == "watch":
        return FLAGS.get(word, text)
    if name == "keepalive":
        return None if word in NOTHING else _figures(word, text)
    if name == "open_attempts":
        return int(word) if word.isascii() and word.isdigit() else text
    if name == "attempt_delay" and word in NOTHING:
        return None
    try:
        return float(word)
    except ValueError:
        return word


def _figures(word: str, text: str) -> Any:
    parts = [part.strip() for part in word.split(",")]
    numbers = all(part.isascii() and part.isdigit() for part in parts)
    return tuple(map(int, parts)) if numbers else text


# -- the file ------------------------------------------------------------------------------------


def _from_file(path: Path) -> _Layer:
    told = _toml(path)
    unknown = [repr(key) for key in told if key not in KEYS]
    if unknown:
        raise ValueError(f"{path}: unknown {', '.join(unknown)}; the keys are {', '.join(KEYS)}")
    for key in ("targets", "policy"):
        if not isinstance(told.get(key, {}), Mapping):
            raise ValueError(f"{path}: {key} is no table; write [{key}] and its lines below")
    for key in ("only", "skip"):
        if not isinstance(told.get(key, []), list):
            raise ValueError(f"{path}: {key} is no list; write {key} = ['*.svc']")
    return _Layer(f"{path}: ", **told)


def _toml(path: Path) -> dict[str, Any]:
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        toml = importlib.import_module(name)
    except ImportError as error:
        raise ValueError(
            f"{path}: Python 3.10 cannot read TOML by itself; pip install 'outlast[cli]' "
            "brings tomli, or set the OUTLAST_ variables"
        ) from error
    try:
        found: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: no TOML: {error}") from error
    return found
