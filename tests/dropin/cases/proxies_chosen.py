"""Which way a request goes: the environment's proxies, NO_PROXY, `proxy=` and `mounts=`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from tests.dropin.authority import speaking
from tests.dropin.proxies import ProxiedStage, http_proxy, proxy_url, socks_proxy
from tests.dropin.sides import Side
from tests.dropin.stage import Handler, Stage, echo
from tests.dropin.table import add

HERE = ("127.0.0.1",)
HOSTS = ("shop.test", "sub.shop.test", "bookshop.test", "other.test", "127.0.0.1", "localhost")
NAMES = dict.fromkeys(HOSTS, HERE)
TLS = functools.partial(speaking, "http/1.1")


async def everywhere(side: Side) -> None:
    for host in HOSTS:
        await side.get(f"{side.stage.scheme}://{host}:{side.stage.port}/x")


def chosen(
    name: str,
    environment: Callable[[Stage], Mapping[str, str]] = lambda _: {},
    *,
    proxy: Handler | None = None,
    tls: Any = None,
    **more: Any,
) -> None:
    """Add a case: which of the hosts are asked through the proxy?"""

    def opened() -> Stage:
        return ProxiedStage(proxy or http_proxy(close=True), echo, context=tls() if tls else None)

    more = {"names": NAMES, "environment": environment, "open": opened, **more}
    add(f"proxies_chosen-{name}", everywhere, **more)


def set_to(*variables: str, scheme: str = "http", **more: str) -> Callable[[Stage], dict[str, str]]:
    """Variables that have the proxy's URL, and others."""
    return lambda stage: {**dict.fromkeys(variables, proxy_url(stage, scheme)), **more}


chosen("nothing_said")
for _variable in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
    chosen(f"by_{_variable}", set_to(_variable))
    chosen(f"by_{_variable}_for_https", set_to(_variable), tls=TLS, client={"verify": False})
chosen("by_all_socks", set_to("ALL_PROXY", scheme="socks5"), proxy=socks_proxy())
chosen("not_trusted", set_to("HTTP_PROXY", "ALL_PROXY"), client={"trust_env": False})
chosen("without_a_scheme", lambda stage: {"HTTP_PROXY": proxy_url(stage).partition("//")[2]})
chosen("empty", lambda _: {"HTTP_PROXY": "", "ALL_PROXY": ""})
chosen(
    "with_credentials",
    lambda stage: {"HTTP_PROXY": proxy_url(stage, user="user:pass")},
    proxy=http_proxy(close=True, credentials="Basic dXNlcjpwYXNz"),
)

NO_PROXY: dict[str, str] = {
    "name": "shop.test",
    "dotted": ".shop.test",
    "starred": "*.shop.test",
    "star": "*",
    "several": " other.test , shop.test,,",
    "upper_case": "SHOP.TEST",
    "address": "127.0.0.1",
    "network": "127.0.0.0/8",
    "localhost": "localhost",
    "with_a_scheme": "http://shop.test",
    "with_another_scheme": "https://shop.test",
    "version_6": "::1",
    "version_6_in_brackets": "[::1]",
    "nonsense": "shop..test",
    "top": "test",
}
for _name, _value in NO_PROXY.items():
    chosen(f"but_for_{_name}", set_to("HTTP_PROXY", NO_PROXY=_value))
    chosen(f"but_for_{_name}_small", set_to("all_proxy", no_proxy=_value))


def but_for_a_port(stage: Stage) -> dict[str, str]:
    return {**set_to("HTTP_PROXY")(stage), "NO_PROXY": f"shop.test:{stage.port},other.test:1"}


chosen("but_for_a_port", but_for_a_port)

# -- arguments -------------------------------------------------------------------------------


def both(stage: Stage) -> dict[str, Any]:
    return {"proxy": proxy_url(stage)}


NOWHERE = {"HTTP_PROXY": "http://127.0.0.9:1", "NO_PROXY": "shop.test"}
chosen("by_argument", client=both)
chosen("by_argument_before_the_environment", lambda _: NOWHERE, client=both)
chosen(
    "by_argument_not_trusted", lambda _: NOWHERE, client=lambda s: {**both(s), "trust_env": False}
)


def mounted(pattern: str) -> Callable[[Stage], dict[str, Any]]:
    """Nothing but None can be mounted for both kinds of client: a way past the proxy."""
    return lambda stage: {**both(stage), "mounts": {pattern: None}}


for _name, _pattern in {
    "a_host": "http://shop.test",
    "all_below": "all://*.shop.test",
    "both": "all://*shop.test",
    "another_scheme": "https://shop.test",
    "everything": "all://",
}.items():
    chosen(f"mounted_for_{_name}", client=mounted(_pattern))
chosen("mounted_over_the_environment", set_to("HTTP_PROXY"), client={"mounts": {"http://": None}})
