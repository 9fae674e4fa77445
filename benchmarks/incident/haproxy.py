"""HAProxy between the client and the pods: as the OpenShift router sets it, and tuned for this.

The router's settings are those that its template writes for a plain route with two endpoints when
no variable and no annotation is set: the timeouts, `option redispatch`, `balance random`, TCP
checks every 5 s. One thing is left out: the cookie that pins a client to a pod (annotation
`disable_cookies`). With it, luck decides whether the one pooled client of a run is pinned to the
pod that dies, and the row would show either nothing or all.

The tuned ones answer the question what a careful person can get out of HAProxy for this incident
without touching the time that a slow answer may take: `timeout server` stays at the router's 30 s.
Connections that stand are found dead by `tcp-ut` and their requests repeated (`empty-response`);
`on-marked-down shutdown-sessions`, often advised, was tried and left out: it is quicker (0.27 s
instead of 0.93 s), but cuts the requests under way without repeating them, 2 to 7 errors a run.

Source: openshift/router, images/router/haproxy/conf/haproxy-config.template; the HAProxy 2.6
configuration manual for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ROUTER", "TUNED", "router", "tuned"]

ROUTER = (
    "`timeout connect 5s`, `client`/`server 30s`, `option redispatch`, `balance random`,"
    " `check inter 5000ms`, without the route's cookie"
)
TUNED = (
    "`timeout connect 250ms`, `retries 3`, `option redispatch 1`, `retry-on conn-failure"
    " empty-response` (GET only), `httpchk`, `inter 500ms fastinter 100ms fall 2`, `observe layer4"
    " error-limit 1 on-error mark-down`, `tcp-ut 500ms`; `timeout server 30s` as before"
)

# Those of the router that decide nothing here (TLS, maps of routes, statistics) are left out.
_ROUTER = """\
global
  maxconn 4000
  nbthread 4
  tune.maxrewrite 8192
  tune.bufsize 32768
defaults
  maxconn 4000
  timeout connect 5s
  timeout client 30s
  timeout client-fin 1s
  timeout server 30s
  timeout server-fin 1s
  timeout http-request 10s
  timeout http-keep-alive 300s
  timeout tunnel 1h
frontend public
  bind 127.0.0.1:{port}
  mode http
  tcp-request inspect-delay 5s
  tcp-request content accept if HTTP
  http-request del-header Proxy
  http-request set-header Host %[req.hdr(Host),lower]
  default_backend be_http
backend be_http
  mode http
  option redispatch
  option forwardfor
  balance random
  timeout check 5000ms
  http-request add-header X-Forwarded-Host %[req.hdr(host)]
  http-request add-header X-Forwarded-Port %[dst_port]
  http-request add-header X-Forwarded-Proto http
  http-request add-header Forwarded for=%[src];host=%[req.hdr(host)];proto=http
{servers}
"""

_TUNED = """\
global
  maxconn 4000
  nbthread 1
defaults
  mode http
  timeout connect 250ms
  timeout client 30s
  timeout server 30s
  timeout check 250ms
  timeout http-request 10s
  timeout http-keep-alive 300s
frontend public
  bind 127.0.0.1:{port}
  default_backend be_http
backend be_http
  balance random
  retries 3
  option redispatch 1
  retry-on conn-failure empty-response
  option httpchk GET /
  http-request disable-l7-retry unless METH_GET
{servers}
"""
_TUNED_SERVER = (
    "check inter 500ms fastinter 100ms downinter 500ms fall 2 rise 2 observe layer4"
    " error-limit 1 on-error mark-down tcp-ut 500ms"
)


def router(endpoints: Sequence[str], port: int) -> str:
    """The router's configuration in front of these endpoints."""
    return _filled(_ROUTER, endpoints, port, "weight 1 check inter 5000ms")


def tuned(endpoints: Sequence[str], port: int) -> str:
    """The tuned configuration in front of these endpoints."""
    return _filled(_TUNED, endpoints, port, _TUNED_SERVER)


def _filled(text: str, endpoints: Sequence[str], port: int, options: str) -> str:
    servers = [
        f"  server pod{number} {endpoint} {options}" for number, endpoint in enumerate(endpoints)
    ]
    return text.format(port=port, servers="\n".join(servers))
