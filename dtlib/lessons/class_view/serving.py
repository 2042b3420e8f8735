"""Serve a class until Ctrl-C: the socket, what is printed at the start, uvicorn."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from dtlib.errors import BadInput, Unavailable, in_words
from dtlib.lessons.class_view.overview import catalogue
from dtlib.lessons.class_view.store import Store

if TYPE_CHECKING:
    from dtlib.lessons.class_view.app import ClassView

EVERYWHERE = "0.0.0.0"


def serve(folder: Path, address: str | None, port: int, most: int) -> None:
    """Serve the class of a folder, a new one or the one that is there.

    Parameters
    ----------
    folder
        Where the class is kept.
    address
        The address to listen on; default: this machine's in the local network.
    port
        0 for any that is free.
    most
        How many students may join.

    Raises
    ------
    BadInput
        When the address or the folder cannot be used.
    Unavailable
        Without starlette and uvicorn.
    """
    try:
        from dtlib.lessons.class_view.app import ClassView
        from dtlib.lessons.class_view.idle import server
    except ImportError as error:
        raise Unavailable(
            f"the class view needs starlette and uvicorn ({error}): pip install 'dtlib[workshop]'."
        ) from None
    known = catalogue()
    with contextlib.closing(listening(address or own_address(), port)) as listener:
        store = Store(folder, new=True)
        host, port = listener.getsockname()
        url = f"http://{own_address() if host == EVERYWHERE else host}:{port}"
        view = ClassView(store, known, most, f'learn.join("{url}", "{store.code}")')
        print(greeting(view, url, host), flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server(view).run(sockets=[listener])
        store.close()
    print(f"Stopped. The class is kept in {folder}: the same command continues it.")


def greeting(view: ClassView, url: str, host: str) -> str:
    """Return what is printed at the start: for the board, and for the instructor alone."""
    where = f"on {url} and nowhere else"
    if host == EVERYWHERE:
        where = f"on every address of this machine, such as {url}"
    elif host.startswith("127."):
        where += ", which only this machine can reach"
    count, store = len(view.store.students()), view.store
    return "\n".join(
        [
            f"The class view listens {where}.",
            f"{count} of at most {view.most} students have joined; kept in {store.file}.",
            "",
            "For the board:",
            f"  address  {url}",
            f"  code     {store.code}",
            "  in a notebook, students type",
            "    from dtlib import learn",
            f"    {view.line}",
            "",
            "For you alone (the part after # is your key):",
            f"  {url}/#{store.key}",
            "",
            "Ctrl-C ends it.",
        ]
    )


def own_address() -> str:
    """Return this machine's address in the local network, or 127.0.0.1 without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # For UDP this only asks which address would be used: nothing is sent.
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def listening(address: str, port: int) -> socket.socket:
    """Return a socket that listens on an address, or raise `BadInput`."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
        listener.listen(128)
    except (OSError, OverflowError, UnicodeError) as error:
        listener.close()
        raise BadInput(
            f"the class view cannot listen on {address}, port {port} ({in_words(error)}): choose"
            " another --port, or an --address of this machine."
        ) from None
    return listener
