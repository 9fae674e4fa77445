"""What a pod can be given to run, and how it is told which: by the number of its arguments.

One argument: a plain function from `Request` to an answer. Two: `async def raw(reader, writer)`.
Three: an ASGI application. A plain function is served as an application is, by the pod's own h11.

Source: the ASGI specification 3.0. Refuses whatever fits none of these.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Handler", "Request", "Response", "as_application", "kind_of"]

_KINDS = {1: "plain", 2: "raw", 3: "asgi"}


@dataclass(frozen=True, slots=True)
class Request:
    """A request as a plain handler sees it, whole."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]  # names in lower case; the last of several
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """What a plain handler may answer. `delay`: seconds before the answer. `drip`: seconds between
    two bytes of the body."""

    body: bytes | str = b""
    status: int = 200
    headers: Sequence[tuple[str, str]] = field(default=())
    delay: float = 0.0
    drip: float = 0.0


Answer: TypeAlias = "Response | bytes | str | int | None"
Handler: TypeAlias = "Callable[[Request], Answer | Awaitable[Answer]]"


def kind_of(program: object) -> str:
    """plain, raw or asgi. Raises ValueError if it is none."""
    right = "right: handler(request), async raw(reader, writer), or an ASGI application"
    if not callable(program):
        raise ValueError(f"{program!r} cannot be called; {right}")
    try:
        parameters = inspect.signature(program).parameters.values()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{program!r} does not tell its arguments; {right}") from error
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        each
        for each in parameters
        if each.kind in positional and each.default is inspect.Parameter.empty
    ]
    kind = _KINDS.get(len(needed))
    if kind is None:
        raise ValueError(f"{program!r} takes {len(needed)} arguments; {right}")
    return kind


def as_application(handler: Handler) -> Callable[[dict[str, Any], Any, Any], Awaitable[None]]:
    """A plain handler as an ASGI application."""

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise ValueError(f"a handler knows nothing of {scope['type']}")
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        answer = handler(_request(scope, body))
        found = await answer if inspect.isawaitable(answer) else answer
        await _send(_response(found), send)

    return application


def _request(scope: dict[str, Any], body: bytes) -> Request:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = scope["query_string"].decode("latin-1")
    return Request(scope["method"], scope["path"], query, headers, body)


def _response(answer: Answer) -> Response:
    if isinstance(answer, Response):
        return answer
    if isinstance(answer, int) and not isinstance(answer, bool):
        return Response(status=answer)
    if answer is None or isinstance(answer, (bytes, str)):
        return Response(answer or b"")
    raise ValueError(
        f"a handler has answered {answer!r}; right: a Response, bytes, text, a status or nothing"
    )


async def _send(response: Response, send: Any) -> None:
    if response.delay:
        await asyncio.sleep(response.delay)
    body = response.body.encode() if isinstance(response.body, str) else response.body
    headers = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in response.headers]
    if not any(name in (b"content-length", b"transfer-encoding") for name, _ in headers):
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if response.drip:
        for at in range(len(body)):
            piece = {"type": "http.response.body", "body": body[at : at + 1], "more_body": True}
            await send(piece)
            await asyncio.sleep(response.drip)
        body = b""
    await send({"type": "http.response.body", "body": body})
