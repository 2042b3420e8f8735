"""uvicorn for a class view: it closes connections on which nobody asks anything."""

from __future__ import annotations

import asyncio

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from dtlib.lessons.class_view.app import ClassView

SECONDS = 15.0  # in which a request must have arrived, or another one after the last


class Impatient(H11Protocol):
    """uvicorn's own protocol waits for the first request, or half of one, for ever."""

    _last: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look whether requests arrive."""
        super().connection_made(transport)
        self.loop.call_later(SECONDS, self._look)

    def _look(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle
        if self.transport.is_closing():
            return
        if cycle is self._last and (cycle is None or cycle.response_complete):
            self.transport.close()
            return
        self._last = cycle
        self.loop.call_later(SECONDS, self._look)


def server(view: ClassView) -> uvicorn.Server:
    """Return a server of a class view's application."""
    config = uvicorn.Config(
        view.application(), http=Impatient, log_level="warning", access_log=False,
        server_header=False, proxy_headers=False, lifespan="off", ws="none",
        timeout_graceful_shutdown=2,
    )  # fmt: skip
    return uvicorn.Server(config)
