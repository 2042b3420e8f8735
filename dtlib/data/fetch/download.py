"""Get one file from the network, or from a file that was copied here, and hash it on the way."""

from __future__ import annotations

import functools
import hashlib
import http.client
import os
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dtlib import __version__
from dtlib.data.fetch.progress import Progress, amount
from dtlib.data.fetch.sources import File
from dtlib.errors import BadInput, Unavailable, in_words
from dtlib.ranks.waiting import answers_within

BLOCK = 1 << 20
CONNECT = 1.5  # seconds to find the host and reach it; without internet, name servers take longer
STALL = 15.0  # seconds without a byte
TRIES = 3  # attempts in a row that bring nothing new
MOST_TRIES = 50  # in all
PAUSE = 1.0  # seconds before the second try; twice as long before the third
BUSY = (408, 429, 500, 502, 503, 504)  # answers that may soon be different
WEB_PAGE = (b"<!doctype html", b"<html")


class Refused(Exception):
    """This address does not provide the file, now or later; another one may."""


class Broken(Exception):
    """The connection ended too early; the part that arrived is kept."""


class Receiver:
    """Appends to a file and hashes all of its content.

    The existing content of `part` is the beginning of the file; `show` displays the progress.
    """

    def __init__(self, file: File, part: Path, show: Progress) -> None:
        self.file, self.part, self.show = file, part, show
        self.head, self.size, self.digest = b"", 0, hashlib.sha256()
        if part.exists():
            with part.open("rb") as content:
                for block in _blocks(content.read):
                    self._count(block)

    def restart(self) -> None:
        """Discard what has arrived."""
        self.head, self.size, self.digest = b"", 0, hashlib.sha256()
        self.part.unlink(missing_ok=True)

    def take(self, read: Callable[[int], bytes]) -> int:
        """Append everything that `read` gives, synced to the disk; return how much that was."""
        before = self.size
        with self.part.open("ab") as out:
            for block in _blocks(read):
                out.write(block)
                self._count(block)
                self.show.update(self.size)
                if self.size > self.file.most:
                    break
            out.flush()
            os.fsync(out.fileno())
        return self.size - before

    def right(self) -> bool:
        """Return whether the file is the right one."""
        return self.digest.hexdigest() == self.file.sha256

    def complaint(self, origin: str, remedy: str = "") -> BadInput:
        """Return an error that says what arrived instead, and then the remedy."""
        wanted = f"{self.file.name} ({amount(self.file.size)})"
        if self.size > self.file.most:
            return BadInput(
                f"{origin} is not {wanted}: it is longer, {self.size:,} bytes or more instead of "
                f"{self.file.size:,}; expected sha256 {self.file.sha256}{remedy}."
            )
        if self.head.lstrip().lower().startswith(WEB_PAGE):
            why = "it is a web page, such as a login or an error"
        elif self.file.exact and self.size < self.file.size:
            why = f"it has {self.size:,} of {self.file.size:,} bytes: cut off, or another file"
        else:
            why = "it is another file or another version"
        return BadInput(
            f"{origin} is not {wanted}: {why}; its sha256 is {self.digest.hexdigest()}, expected "
            f"{self.file.sha256}{remedy}."
        )

    def _count(self, block: bytes) -> None:
        self.head = self.head or block[:256]
        self.size += len(block)
        self.digest.update(block)


def carry(origin: Path, file: File, part: Path, show: Progress, by_hand: str) -> None:
    """Copy a file that somebody brought here.

    `by_hand` is as for `download`. Raises `BadInput` if it is not the right one; the copy is then
    discarded.
    """
    part.unlink(missing_ok=True)
    receiver = Receiver(file, part, show)
    try:
        content = origin.open("rb")
    except OSError as error:
        raise BadInput(f"{origin} cannot be read: {in_words(error)}.") from error
    with content:
        receiver.take(content.read)
    if not receiver.right():
        raise receiver.complaint(str(origin), f": {by_hand}")


def download(file: File, part: Path, show: Progress, by_hand: str) -> None:
    """Download a file from the first address that has it, resuming an earlier attempt.

    If the connection breaks, `part` is kept for a later attempt. `by_hand` is the end of a sentence
    that says how to get the file without a network. Raises `Unavailable` if there is no network, no
    address has the file, or the connection broke too often; `BadInput` if something else arrived,
    which is then discarded.
    """
    receiver = Receiver(file, part, show)
    if receiver.right():  # an earlier run ended just after the last byte
        return
    said, wrong = [], None
    for url, no_way in zip(file.urls, _ways(file.urls), strict=True):
        if no_way:
            said.append(no_way)
            continue
        try:
            _persist(url, receiver)
        except Refused as error:
            said.append(str(error))
            continue
        except Broken as error:
            kept = f"{amount(receiver.size)} of {amount(file.size)} are kept"
            again = f"run this again to resume, or {by_hand}"
            raise Unavailable(f"{error} ({kept}): {again}.") from None
        if receiver.right():
            return
        wrong = receiver.complaint(url)
        receiver.restart()
    if wrong:
        raise wrong
    raise Unavailable(f"{file.name} cannot be downloaded here ({'; '.join(said)}): {by_hand}.")


def _persist(url: str, receiver: Receiver) -> None:
    """Ask again when the connection breaks, until the file is complete or nothing new arrives."""
    failures, afresh = 0, False
    for _ in range(MOST_TRIES):
        before = receiver.size
        try:
            _ask(url, receiver)
        except Broken as error:
            said = str(error)
        else:
            if receiver.right() or not before or afresh:
                return
            # The part that an earlier attempt left was not the beginning of this file.
            afresh = True
            receiver.restart()
            continue
        failures = 1 if receiver.size > before else failures + 1
        if failures >= TRIES:
            break
        receiver.show.note(f"{receiver.file.name}: {said}; trying again")
        time.sleep(PAUSE * failures)
    raise Broken(f"{said}, again and again")


def _ask(url: str, receiver: Receiver) -> None:
    """Send one request and take what the server sends."""
    file, have = receiver.file, receiver.size
    if file.exact and have >= file.size:
        return
    headers = {"User-Agent": f"dtlib/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=STALL)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:  # there is no such range: our part is too long
            receiver.restart()
            raise Broken(f"{_host(url)} has no more than is already here") from None
        said = f"{_host(url)} answered {error.code} {error.reason}"
        raise (Broken if error.code in BUSY else Refused)(said) from None
    except (OSError, http.client.HTTPException) as error:
        raise Broken(f"{_host(url)}: {_reason(error)}") from None
    with answer:
        if have and not _goes_on(answer, have):
            if _is_page(answer):  # a network that asks for a login answers every request with it
                raise Refused(f"{_host(url)} sent a web page instead of the file")
            receiver.restart()  # the server sends the whole file again
        _take(url, answer, receiver)


def _take(url: str, answer: http.client.HTTPResponse, receiver: Receiver) -> None:
    told = answer.headers.get("Content-Length", "")

    def read(size: int) -> bytes:
        try:
            return answer.read1(size)
        except (OSError, http.client.HTTPException) as error:
            raise Broken(f"{_host(url)}: {_reason(error)}") from None

    came, file = receiver.take(read), receiver.file
    if (file.exact and receiver.size == file.size) or receiver.size > file.most or _is_page(answer):
        return  # as much as there can be; the hash decides
    short = came < int(told) if told.isdigit() else file.exact
    if short:
        raise Broken(f"{_host(url)} ended the connection early")


def _is_page(answer: http.client.HTTPResponse) -> bool:
    return answer.headers.get_content_type() == "text/html"


def _goes_on(answer: http.client.HTTPResponse, have: int) -> bool:
    """Return whether the answer begins where our part ends."""
    span = answer.headers.get("Content-Range", "")
    return answer.status == 206 and span.startswith(f"bytes {have}-")


def _ways(urls: Sequence[str]) -> list[str]:
    """Say for each address, within seconds, why it cannot be reached; "" if it can.

    Looking up a name has no time-out of its own, and takes long without a network.
    """

    def connect(host: str, port: int) -> None:
        socket.create_connection((host, port), timeout=CONNECT).close()

    hosts = [_first_host(url) for url in urls]
    answers = answers_within(CONNECT, [functools.partial(connect, *host) for host in hosts])
    said = []
    for (host, _), answer in zip(hosts, answers, strict=True):
        if answer is not None and not isinstance(answer, OSError):
            raise answer
        said.append(f"cannot reach {host}: {_reason(answer)}" if answer else "")
    return said


def _first_host(url: str) -> tuple[str, int]:
    """Return the host and port to connect to: the proxy's, if there is one."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.netloc):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


def _blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    return iter(lambda: read(BLOCK), b"")


def _host(url: str) -> str:
    return urllib.parse.urlsplit(url).hostname or url


def _reason(error: BaseException) -> str:
    """What went wrong, in a few words."""
    inner = getattr(error, "reason", error)
    if isinstance(inner, TimeoutError):
        return "no answer"
    if isinstance(inner, socket.gaierror):
        return "its name cannot be resolved"
    text = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return " ".join(str(text).split()).lower()
