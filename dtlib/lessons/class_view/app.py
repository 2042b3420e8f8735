"""The class view as a web application: students post verdicts, the instructor's page asks.

There are no cookies and no CORS headers, so a page of another site can neither read nor send
anything: what is sent has to be JSON, which a browser does not send to another site unasked.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dtlib.lessons.class_view.arriving import content, events, text, token_of
from dtlib.lessons.class_view.overview import Exercise, shown
from dtlib.lessons.class_view.refusals import Limiter, Refused
from dtlib.lessons.class_view.store import Store

HERE = Path(__file__).parent
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@dataclass
class ClassView:
    """What the routes share.

    Parameters
    ----------
    store
        What is kept.
    known
        The exercises that verdicts may be about.
    most
        How many students may join.
    line
        What students type, to be shown on the page.
    """

    store: Store
    known: Mapping[str, Exercise]
    most: int = 60
    line: str = ""
    # A whole class may share one address, so what has a valid token is counted for its student
    # alone: one by one, or, when the server comes back, all events that were waiting.
    by_address: Limiter = field(default_factory=lambda: Limiter(600, 20))
    joins: Limiter = field(default_factory=lambda: Limiter(40, 1 / 2))
    wrong_codes: Limiter = field(default_factory=lambda: Limiter(20, 1 / 3))
    by_student: Limiter = field(default_factory=lambda: Limiter(300, 2))

    def application(self) -> Starlette:
        """Return the ASGI application."""
        routes = [
            *(Route(at, _file(name)) for at, name in
              (("/", "page.html"), ("/page.js", "page.js"), ("/page.css", "page.css"))),
            Route("/api/class", _json(self.show)),
            Route("/api/join", _json(self.join), methods=["POST"]),
            # Not :int, which fails on more digits than Python reads.
            Route("/api/students/{student:str}/events", _json(self.receive), methods=["POST"]),
            Route("/api/students/{student:str}", _json(self.leave), methods=["DELETE"]),
        ]  # fmt: skip
        return Starlette(
            routes=routes,
            middleware=[Middleware(_WithHeaders)],
            exception_handlers={Refused: _refused, HTTPException: _not_there},
        )

    def _stranger(self, request: Request) -> None:
        """Count a request without a valid token, and refuse more of them than a class needs."""
        _limit(self.by_address, _address(request), 1, "This address asks too often")

    async def show(self, request: Request) -> dict[str, Any]:
        """What the instructor's page draws."""
        if not self.store.is_key(token_of(request)):
            self._stranger(request)
            raise Refused(403, "This is not the instructor's key: `dtlib class serve` printed it.")
        return await run_in_threadpool(self._state)

    def _state(self) -> dict[str, Any]:
        found = shown(self.known, self.store.students(), self.store.standings())
        return found | {"line": self.line}

    async def join(self, request: Request) -> dict[str, Any]:
        """Make somebody who has the code a student."""
        address = _address(request)
        self._stranger(request)
        _limit(self.wrong_codes, address, 0, "There were too many wrong codes from this address")
        found = await content(request, ("code", "name"))
        if not self.store.is_code(text(found, "code")):
            self.wrong_codes.wait(address)
            raise Refused(403, "This is not the code of this class: it is on the board.")
        name = text(found, "name") if found.get("name") is not None else None
        _limit(self.joins, address, 1, "Too many students join from this address at once")
        student, name, token = await run_in_threadpool(self.store.join, name, self.most)
        return {"student": student, "name": name, "token": token}

    async def receive(self, request: Request) -> dict[str, Any]:
        """Keep a student's verdicts, each once."""
        student = await self._student(request)
        often = "You send verdicts too often"
        try:
            found = events(await content(request, ("events",)), self.known)
        except Refused:
            _limit(self.by_student, student, 1, often)
            raise
        _limit(self.by_student, student, max(1, len(found)), often)
        return {"new": await run_in_threadpool(self.store.add, student, found)}

    async def leave(self, request: Request) -> dict[str, Any]:
        """Forget who a student was."""
        await run_in_threadpool(self.store.leave, await self._student(request))
        return {}

    async def _student(self, request: Request) -> int:
        number: str = request.path_params["student"]
        student = int(number) if number.isdecimal() and len(number) <= 10 else -1
        try:
            if await run_in_threadpool(self.store.owns, token_of(request), student):
                return student
            raise Refused(403, "This token is that of another student.")
        except Refused:
            self._stranger(request)
            raise


def _json(
    answer: Callable[[Request], Awaitable[dict[str, Any]]],
) -> Callable[[Request], Awaitable[Response]]:
    async def route(request: Request) -> Response:
        return JSONResponse(await answer(request))

    return route


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _limit(limiter: Limiter, key: Any, cost: int, what: str) -> None:
    wait = limiter.wait(key, cost)
    if wait:
        seconds = math.ceil(wait)
        raise Refused(429, f"{what}: try again in {seconds} s.", wait=seconds)


def _file(name: str) -> Callable[[Request], Response]:
    kind = _TYPES[name.rpartition(".")[2]]
    body = (HERE / name).read_bytes()
    return lambda request: Response(body, media_type=kind)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    headers = {"retry-after": str(math.ceil(error.wait))} if error.wait else None
    return JSONResponse({"error": error.sentence, **error.more}, error.status, headers)


async def _not_there(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path[:80]
    sentence = f"{request.method} {path} is not something that a class view answers."
    return JSONResponse({"error": sentence}, error.status_code)


class _WithHeaders:
    """Add `HEADERS` to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *added]
            await send(message)

        await self.app(scope, receive, send_more)
