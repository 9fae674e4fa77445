"""The Service's address translation, as nftables text: a pure translation from endpoints to rules.

Written the way kube-proxy's nftables mode writes it, in the client node's output hooks: one verdict
map from (address, protocol, port) to the Service's chain; that chain draws one endpoint chain at
random for each new connection (`numgen random mod N vmap`); the endpoint chain rewrites the
destination. The draw is remembered by connection tracking, so retransmitted SYNs go to the same pod
again. A Service without endpoints is refused before translation, with an ICMP port unreachable. A
change replaces the Service's chain in one transaction and leaves established connections alone.

Source: kubernetes pkg/proxy/nftables (chains service-endpoints-check, services, service-*,
endpoint-*), nft(8). Leaves out what the lab has no use for: masquerading, affinity, NodePorts, UDP.
"""

from __future__ import annotations

from collections.abc import Sequence

TABLE = "ip outlast"

Address = tuple[str, int]


def base() -> str:
    """The client's empty table: the hooks and the two verdict maps."""
    key = "type ipv4_addr . inet_proto . inet_service : verdict"
    look_up = "ip daddr . meta l4proto . th dport vmap"
    return f"""
table {TABLE} {{
  map service-ips {{ {key}; }}
  map no-endpoint-services {{ {key}; }}
  chain reject-chain {{ reject; }}
  chain services {{ {look_up} @service-ips; }}
  chain nat-output {{ type nat hook output priority -100; jump services; }}
  chain service-endpoints-check {{ {look_up} @no-endpoint-services; }}
  chain filter-output-pre-dnat {{
    type filter hook output priority -110;
    ct state new jump service-endpoints-check;
  }}
}}
"""


def new_service(chain: str, vip: Address) -> str:
    """A Service that has no endpoint yet: new connections to it are refused."""
    refused = _element("add", "no-endpoint-services", vip, "goto reject-chain")
    return f"add chain {TABLE} {chain}\n{refused}"


def replace_endpoints(
    chain: str, vip: Address, old: Sequence[Address], new: Sequence[Address]
) -> str:
    """The transaction that makes a Service draw from `new` where it drew from `old`."""
    lines = [f"flush chain {TABLE} {chain}"]
    for endpoint in new:
        lines += _endpoint_chain(endpoint)
    if new:
        lines.append(f"add rule {TABLE} {chain} {_draw(new)}")
    verdict = f"goto {chain}"
    if new and not old:
        lines.append(_element("delete", "no-endpoint-services", vip, "goto reject-chain"))
        lines.append(_element("add", "service-ips", vip, verdict))
    elif old and not new:
        lines.append(_element("delete", "service-ips", vip, verdict))
        lines.append(_element("add", "no-endpoint-services", vip, "goto reject-chain"))
    return "\n".join(lines)


def drop_everything(*, answers: bool) -> str:
    """Rules for a host that takes every packet and answers none; ARP is not IP and goes on.

    With `answers` the host's own packets are lost too, as on the far side of a broken path.
    """
    hooks = ["input", "output"] if answers else ["input"]
    chains = "".join(
        f"  chain void-{hook} {{ type filter hook {hook} priority -300; policy drop; }}\n"
        for hook in hooks
    )
    return f"table ip outlast-void {{\n{chains}}}\n"


def say_unreachable() -> str:
    """Answer every packet with ICMP host unreachable, as a router before a lost host does."""
    return (
        "table ip outlast-void {\n"
        "  chain void-input { type filter hook input priority 0; policy accept;\n"
        "    meta l4proto tcp reject with icmp type host-unreachable\n"
        "  }\n"
        "}\n"
    )


def drop_nothing() -> str:
    """Undo `drop_everything`, also where it was never done."""
    return "add table ip outlast-void\ndelete table ip outlast-void\n"


def _draw(endpoints: Sequence[Address]) -> str:
    choices = ", ".join(f"{n} : goto {_endpoint_name(e)}" for n, e in enumerate(endpoints))
    return f"numgen random mod {len(endpoints)} vmap {{ {choices} }}"


def _endpoint_name(endpoint: Address) -> str:
    return f"endpoint-{endpoint[0]}-{endpoint[1]}"


def _endpoint_chain(endpoint: Address) -> list[str]:
    """An endpoint's chain, the same for every Service; made again without harm."""
    name = f"{TABLE} {_endpoint_name(endpoint)}"
    rule = f"meta l4proto tcp dnat to {endpoint[0]}:{endpoint[1]}"
    return [f"add chain {name}", f"flush chain {name}", f"add rule {name} {rule}"]


def _element(verb: str, table_map: str, vip: Address, verdict: str) -> str:
    return f"{verb} element {TABLE} {table_map} {{ {vip[0]} . tcp . {vip[1]} : {verdict} }}"
