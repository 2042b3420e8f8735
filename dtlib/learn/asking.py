"""Ask a class view's server over HTTP: JSON both ways, no proxy, no redirect, a short time-out."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from dtlib.errors import BadInput

SECONDS = 5.0  # without an answer, in a local network, the server is not there
MOST = 65_536  # bytes of an answer


@dataclass(frozen=True)
class Answer:
    """What the server said; status 0 when it said nothing."""

    status: int
    content: dict[str, Any] = field(default_factory=dict)
    wait: float = 0.0  # seconds that it asks to wait

    @property
    def sentence(self) -> str:
        """Why it refused."""
        said = str(self.content.get("error", ""))[:300]
        plain = "".join(one for one in said if one.isprintable())
        return plain or f"the server's answer is not that of a class view (status {self.status})."


def base_of(url: str) -> str:
    """Return `http://host:port` of an address as people type it.

    Raises
    ------
    BadInput
        When it is no address.
    """
    whole = url.strip() if "://" in url else f"http://{url.strip()}"
    try:
        parts = urlsplit(whole)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise BadInput(
            f"{url!r} is not the address of a class view: it looks like http://192.168.1.20:8733."
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")


def ask(method: str, base: str, path: str, body: Any = None, token: str = "") -> Answer:
    """Send a request and return the answer.

    Raises
    ------
    OSError
        When there is none, or it is no HTTP.
    """
    parts = urlsplit(base)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=SECONDS)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        text = json.dumps(body).encode() if body is not None else None
        connection.request(method, path, text, headers)
        response = connection.getresponse()
        said = response.read(MOST)
    except (http.client.HTTPException, UnicodeError) as error:
        raise OSError(f"this is no HTTP: {error}") from error
    finally:
        connection.close()
    return Answer(response.status, _object(said), _seconds(response.getheader("Retry-After")))


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _seconds(text: str | None) -> float:
    return min(float(text), 60.0) if text and text.isdecimal() else 0.0
