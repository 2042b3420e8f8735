"""A web server that treats its callers badly, as the path asks it to; toys to fetch from it."""

import hashlib
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import dtlib.data.fetch
from dtlib import cli
from dtlib.data.fetch.sources import File, Source

BODY = random.Random(0).randbytes(300_000)
PAGE = b"<!DOCTYPE html><html><body>Please log in to the campus network.</body></html>"


class Server(ThreadingHTTPServer):
    """Serves `body` at every path; the first part of the path says how.

    `asked` has the path and the Range header of each request, in order; `half_sent` is set when
    half of a body has been sent and no more comes, and `go_on` is what a stalled answer waits for.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body = body
        self.asked: list[tuple[str, str]] = []
        self.half_sent, self.go_on = threading.Event(), threading.Event()

    def url(self, how: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{how}/file.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        how = self.path.split("/")[1]
        span = self.headers.get("Range", "")
        self.server.asked.append((how, span))
        first = len(self.server.asked) == 1
        getattr(self, f"_{how}")(first, span)

    def _good(self, first: bool, span: str) -> None:
        """All right, with Range."""
        start = int(span.removeprefix("bytes=").removesuffix("-")) if span else 0
        body = self.server.body
        if start >= len(body):
            self.send_error(416)
            return
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self._finish(body[start:], len(body) - start)

    def _no_range(self, first: bool, span: str) -> None:
        """Half the first time; then the whole again, whatever part is asked for."""
        self._half() if first else self._good(first, "")

    def _breaks_once(self, first: bool, span: str) -> None:
        self._half() if first else self._good(first, span)

    def _always_breaks(self, first: bool, span: str) -> None:
        """Says that there is more and sends nothing, once the first half is there."""
        if first:
            self._half()
        else:
            self.send_response(206)
            size = len(self.server.body)
            self.send_header("Content-Range", f"bytes {size // 2}-{size - 1}/{size}")
            self._finish(b"", size - size // 2)

    def _stalls(self, first: bool, span: str) -> None:
        if first:
            self._half()
            self.wfile.flush()
            self.server.half_sent.set()
            self.server.go_on.wait(60)
        else:
            self._good(first, span)

    def _slow(self, first: bool, span: str) -> None:
        """Nothing at all until it is told to."""
        self.server.go_on.wait(60)
        self._good(first, span)

    def _promises_more(self, first: bool, span: str) -> None:
        """The right bytes under a length that is too large."""
        self.send_response(200)
        self._finish(self.server.body, len(self.server.body) + 1000)

    def _promises_less(self, first: bool, span: str) -> None:
        """A length that is too small, and no more than that."""
        self.send_response(200)
        self._finish(self.server.body[:-7], len(self.server.body) - 7)

    def _endless(self, first: bool, span: str) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(1 << 16))
        except OSError:
            self.close_connection = True

    def _page(self, first: bool, span: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self._finish(PAGE, len(PAGE))

    def _page_unsized(self, first: bool, span: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)
        self.close_connection = True

    def _gone(self, first: bool, span: str) -> None:
        self.send_error(404)

    def _busy_once(self, first: bool, span: str) -> None:
        self.send_error(503) if first else self._good(first, span)

    def _moved(self, first: bool, span: str) -> None:
        self.send_response(302)
        self.send_header("Location", self.server.url("good"))
        self._finish(b"", 0)

    def _half(self) -> None:
        self.send_response(200)
        self._finish(self.server.body[: len(self.server.body) // 2], len(self.server.body))

    def _finish(self, body: bytes, told: int) -> None:
        self.send_header("Content-Length", str(told))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True


@contextmanager
def serving(body: bytes) -> Iterator[Server]:
    """Run a server as long as the block lasts."""
    server = Server(body)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()


def file_of(body: bytes, *urls: str, name: str = "file.bin", exact: bool = True) -> File:
    return File(name, hashlib.sha256(body).hexdigest(), len(body), urls, exact)


def toy(*files: File, archive: File | None = None) -> Source:
    return Source("toy", "a toy", "toy-folder", files, "free", "Nobody (2026)", archive)


def offer(monkeypatch: pytest.MonkeyPatch, source: Source) -> None:
    monkeypatch.setattr(dtlib.data.fetch, "SOURCES", {source.name: source})


def fetched(monkeypatch: pytest.MonkeyPatch, capsys, *words: str) -> tuple[int, str]:
    """Run `dtlib fetch`, and return its exit code and what it said on stderr."""
    code = cli.main(["fetch", *words])
    return code, capsys.readouterr().err
