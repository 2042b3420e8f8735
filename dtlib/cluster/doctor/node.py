"""What `dtlib doctor --nodes` asks on each node of an allocation; srun starts it once per node.

The first node listens at the rendezvous address. Every node, the first one too, connects to it and
asks it for the time. The answer is the last line printed, as JSON; nothing here waits forever.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

LIMIT = 45  # seconds that all of this may take on a node
REACH = 15.0  # seconds in which a node must reach the rendezvous address; srun may start nodes late
SEE = 5.0  # seconds in which another node's file must appear: NFS caches folders for a while
QUESTIONS = 5  # how often a node asks for the time; the quickest answer counts


def agent() -> None:
    """Print what this node finds."""
    signal.alarm(LIMIT)
    settings = json.loads(sys.argv[1])
    answer = {"node": os.environ.get("SLURMD_NODENAME", ""), **facts()}
    answer["folder"] = sees(Path(settings["folder"]), settings["token"], answer["node"])
    if settings["address"]:
        first = os.environ.get("SLURM_NODEID", "0") == "0"
        answer |= meet(settings["address"], settings["port"], settings["nodes"] if first else 0)
    print(json.dumps(answer), flush=True)


def facts() -> dict[str, Any]:
    """What must be the same on all nodes, and the host's name."""
    from dtlib import __version__
    from dtlib.ranks.interfaces import interfaces_here
    from dtlib.training.record import commit

    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = "none"
    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "dtlib": __version__,
        "torch": torch,
        "commit": commit(),
        "interfaces": interfaces_here(),
    }


def sees(folder: Path, token: str, node: str) -> str:
    """Look for the starting process's file and leave one for it; return "" or what went wrong."""
    end = time.monotonic() + SEE
    while True:
        try:
            if (folder / "token").read_text() != token:
                return "a different folder has this path"
            (folder / f"seen-{node}").touch()
            return ""
        except OSError as error:
            if time.monotonic() > end:
                return str(error.strerror)
            time.sleep(0.2)


def meet(address: str, port: int, serve_for: int) -> dict[str, Any]:
    """Reach the rendezvous address, and compare this node's clock with that of the first one.

    Parameters
    ----------
    address, port
        Where the first node listens.
    serve_for
        How many nodes this one answers, itself included: all on the first node, 0 on the others.

    Returns
    -------
    dict
        `offset_s`, how far this clock is ahead, and `within_s`, the uncertainty of that; or
        `error`, one sentence.
    """
    try:
        number = socket.gethostbyname(address)
    except OSError as error:
        return {"error": f"{address} has no address here ({error.strerror})"}
    if number.startswith("127.") and not serve_for:
        return {"error": f"{address} means {number} here, which is this node itself"}
    with contextlib.ExitStack() as stack:
        if serve_for:
            try:
                listener = stack.enter_context(socket.create_server(("", port), backlog=1024))
            except OSError as error:
                return {"error": f"port {port} cannot be opened ({error.strerror})"}
            server = threading.Thread(target=serve, args=(listener, serve_for), daemon=True)
            server.start()
        found = ask((address, port))
        if serve_for:
            server.join(REACH)
        return found


def serve(listener: socket.socket, clients: int, clock: Callable[[], float] = time.time) -> None:
    """Tell the time to this number of clients, for at most `REACH` seconds each."""
    listener.settimeout(REACH)
    with contextlib.suppress(OSError):
        for _ in range(clients):
            connected, _ = listener.accept()
            connected.settimeout(REACH)
            with connected, contextlib.suppress(OSError):
                while connected.recv(1):
                    connected.sendall(f"{clock()!r}\n".encode())


def ask(address: tuple[str, int], clock: Callable[[], float] = time.time) -> dict[str, Any]:
    """Ask for the time (Cristian 1989): the answer was given between question and arrival.

    So the offset is taken at the middle, and is off by at most half the round-trip time.
    """
    end, error = time.monotonic() + REACH, OSError()
    while time.monotonic() < end:
        try:
            with socket.create_connection(address, timeout=REACH) as connected:
                lines = connected.makefile()
                offsets = [_ask_once(connected, lines, clock) for _ in range(QUESTIONS)]
            within, offset = min(offsets)
            return {"offset_s": offset, "within_s": within}
        except (OSError, ValueError) as raised:  # no node listens yet, or another program does
            error = raised if isinstance(raised, OSError) else OSError(str(raised))
            time.sleep(0.2)
    where = f"{address[0]} port {address[1]}"
    return {"error": f"{where} was not reached within {REACH:g} s ({error.strerror or error})"}


def _ask_once(connected: socket.socket, lines: Any, clock: Callable[[], float]) -> tuple:
    before = clock()
    connected.sendall(b"?")
    theirs = float(lines.readline())
    after = clock()
    return (after - before) / 2, (before + after) / 2 - theirs


if __name__ == "__main__":
    agent()
