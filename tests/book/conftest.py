"""The website, built once for all tests of this folder, and served as static files."""

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from building import ROOT, Built, lesson_times, make_book


@pytest.fixture(scope="session")
def built() -> Built:
    """The website, built here; its pages are executed where no earlier build has done that."""
    before = lesson_times()
    done = make_book()
    assert done.returncode == 0, done.stdout + done.stderr
    return Built(done.stdout, before)


@pytest.fixture(scope="session")
def site(built: Built) -> Path:
    """The folder of the built website."""
    return ROOT / "build" / "book" / "html"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Static files without a line for each request."""

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """Where the site is served by nothing but a server of static files."""
    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(10)
    server.server_close()
