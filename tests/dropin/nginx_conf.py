"""What the cases' nginx is told: its servers, each with the limits that a case is to meet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["SERVERS", "nginx_conf"]

# Each listens on a port of its own; `plain` on a Unix socket too.
SERVERS: Mapping[str, str] = {
    "plain": "",
    "secure": "ssl",
    "certified": "ssl",
    "http2": "ssl http2",
    "http2_twice": "ssl http2",
    "http2_brief": "ssl http2",
}
TLS = """
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_certificate {home}/server.pem;
        ssl_certificate_key {home}/server.pem;
        ssl_client_certificate {home}/authority.pem;"""
MORE: Mapping[str, str] = {
    "http2": "lingering_timeout 50ms;",
    "certified": "ssl_verify_client on;",
    "http2_twice": "keepalive_requests 2; lingering_timeout 50ms;",
    "http2_brief": "keepalive_timeout 50ms; lingering_timeout 50ms;",
}
LOCATIONS = """
        location /up/ {{ proxy_pass http://unix:{home}/upstream.sock:/; }}
        location /up_1_1/ {{
            proxy_http_version 1.1;
            proxy_buffering off;
            proxy_pass http://unix:{home}/upstream.sock:/;
        }}
        location /impatient/ {{
            proxy_read_timeout 100ms;
            proxy_pass http://unix:{home}/upstream.sock:/;
        }}
        location /nobody/ {{ proxy_pass http://unix:{home}/nobody.sock:/; }}
        location /once/ {{ keepalive_requests 1; alias {home}/files/; }}
        location /twice/ {{ keepalive_requests 2; alias {home}/files/; }}
        location /thrice/ {{ keepalive_requests 3; alias {home}/files/; }}
        location /never/ {{ keepalive_timeout 0; alias {home}/files/; }}
        location /brief/ {{ keepalive_timeout 50ms; alias {home}/files/; }}
        gzip_types text/plain;
        gzip_min_length 1;
        location /zipped/ {{ gzip on; alias {home}/files/; }}
        location /endless/ {{ gzip on; chunked_transfer_encoding off; alias {home}/files/; }}
        location /small/ {{
            client_max_body_size 1k;
            proxy_pass http://unix:{home}/upstream.sock:/;
        }}
        location /small_and_rude/ {{
            client_max_body_size 1k; lingering_close off;
            proxy_pass http://unix:{home}/upstream.sock:/;
        }}
        location /moved/ {{ return 301 /hello.txt; }}
        location /found/ {{ return 302 /hello.txt; }}
        location /again/ {{ return 307 /up/moved; }}
        location /closed/ {{ return 444; }}
        location = /hints {{ return 200 "hint"; }}"""


def nginx_conf(home: Path, ports: Mapping[str, int]) -> str:
    """The configuration of an nginx that lives in `home`."""
    servers = "".join(_server(home, name, ports[name]) for name in SERVERS)
    return f"""
{"user root;" if os.geteuid() == 0 else ""}
worker_processes 1;
daemon off;
pid {home}/nginx.pid;
error_log {home}/error.log;
events {{ }}
http {{
    log_format told escape=json '["$connection", "$request", "$request_length", "$status", '
        '"$ssl_protocol", "$ssl_server_name", "$ssl_client_s_dn", "$http_user_agent"]';
    access_log {home}/access.log told;
    default_type text/plain;
    client_body_temp_path {home}/bodies;
    proxy_temp_path {home}/answers;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    client_max_body_size 100m;
    server {{
        listen unix:{home}/control.sock;
        access_log off;
        location /worker {{ return 200 $pid; }}
        location /open {{ stub_status; }}
    }}{servers}
}}
"""


def _server(home: Path, name: str, port: int) -> str:
    kind = SERVERS[name]
    also = f"listen unix:{home}/plain.sock;" if name == "plain" else ""
    tls = TLS.format(home=home) if kind else ""
    return f"""
    server {{
        listen 127.0.0.1:{port} {kind};
        {also}{tls}
        {MORE.get(name, "")}
        root {home}/files;{LOCATIONS.format(home=home)}
    }}"""
