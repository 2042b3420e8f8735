"""In the parent: refuse before anything starts what would fail later."""

from __future__ import annotations

import errno
import os
import socket
import sys
from pathlib import Path

from dtlib.errors import BadInput

# More processes than this stall a machine for minutes: they all talk to one another.
MOST_RANKS = max(64, os.cpu_count() or 1)
MOST_SECONDS = 1e9  # gloo overflows on more


def refuse_early(
    ranks: int, timeout: float, limit: float | None, threads: int, device: str, port: int | None
) -> None:
    """Refuse arguments that `launch` cannot use.

    Raises `BadInput` with the number in the sentence.
    """
    _refuse_numbers(ranks, timeout, limit, threads)
    _refuse_cuda_in_use(device)
    if port is not None:
        _refuse_taken_port(port)


def _refuse_numbers(ranks: int, timeout: float, limit: float | None, threads: int) -> None:
    """Refuse values that are not numbers or are out of range."""
    if not _is_number(ranks, int) or ranks < 1:
        raise BadInput(f"ranks={ranks!r} is not a number of ranks; use 1 or more.")
    if ranks > MOST_RANKS:
        raise BadInput(
            f"ranks={ranks} is more processes than one machine should start; use at most "
            f"{MOST_RANKS} here, or torchrun over several machines."
        )
    if not _is_number(threads, int) or threads < 1:
        raise BadInput(f"threads={threads!r} is not a number of threads; use 1 or more.")
    for name, seconds in (("timeout", timeout), ("limit", limit)):
        if name == "limit" and seconds is None:
            continue
        if not _is_number(seconds, int, float) or not 0 < float(seconds or 0) <= MOST_SECONDS:
            raise BadInput(
                f"{name}={seconds!r} is not a time; use seconds above 0 and up to "
                f"{MOST_SECONDS:.0f}."
            )


def _refuse_cuda_in_use(device: str) -> None:
    """Refuse to start ranks that may use a GPU from a process that already does."""
    torch = sys.modules.get("torch")
    if device != "cpu" and torch is not None and torch.cuda.is_initialized():
        raise BadInput(
            "CUDA is already initialised in this process, which therefore holds GPU memory (in "
            "exclusive mode the whole GPU) that a rank needs; restart the kernel and launch before "
            'anything else uses CUDA, or pass device="cpu".'
        )


def _refuse_taken_port(port: int) -> None:
    """Refuse a port on which the ranks could not meet."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            why = (
                f"taken by another program (`lsof -i :{port}` names it)"
                if taken
                else f"not usable: {error}"
            )
            raise BadInput(f"Port {port} is {why}; choose another or leave the port out.") from None


def working_folder() -> str:
    """Return this process's working folder, or refuse if it has been removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise BadInput(
            "The working folder of this process has been removed; change to another "
            "(os.chdir) and launch again."
        ) from None


def _is_number(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
