"""An ASGI application's life around its requests: started before the first, told of the end.

An application that does not know of it raises, and is served without, as servers do that find out
by themselves. What it leaves in the scope's `state` each request gets a copy of.

Source: the ASGI specification, lifespan protocol 2.0. Refuses to serve an application whose start
has failed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from outlast.testing.pod_http import AsgiApp

__all__ = ["Lifespan"]


class Lifespan:
    """One application in one process. `start`, serve `application`, `stop`."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self._state: dict[str, Any] = {}
        self._orders: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def application(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """The application, with its state in every request's scope."""
        if self._task is not None:
            scope["state"] = dict(self._state)
        await self._app(scope, receive, send)

    async def start(self) -> None:
        """Have the application start. Raises RuntimeError if it says that it has failed."""
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self._state,
        }
        self._task = asyncio.create_task(self._run(scope), name="lifespan")
        told = await self._order("lifespan.startup")
        if told == "lifespan.startup.failed":
            raise RuntimeError("the application has failed to start (lifespan.startup.failed)")
        if told != "lifespan.startup.complete":
            self._task = None

    async def stop(self) -> None:
        """Have the application end, if it has started."""
        if self._task is not None:
            await self._order("lifespan.shutdown")
            self._task = None

    async def _order(self, kind: str) -> str:
        """Tell the application something; what it answers, "" if it has ended instead."""
        self._orders.put_nowait({"type": kind})
        return str((await self._answers.get())["type"])

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self._app(scope, self._orders.get, self._answers.put)
        except Exception:  # noqa: BLE001, S110  how an application says that it knows of no lifespan
            pass
        finally:
            self._answers.put_nowait({"type": ""})
