"""Network interfaces that variables name, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME.

gloo takes only names of interfaces, separated by commas: an unknown one ends in an error that names
no variable, or in a crash. NCCL takes prefixes of names, `=` before whole names, and `^` before
those to leave out.

https://docs.pytorch.org/docs/stable/distributed.html (choosing the network interface),
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Mapping, Sequence

from dtlib.errors import BadInput

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"


def loopback_name() -> str:
    """Return the loopback interface's name, on which ranks of one host meet."""
    return "lo" if sys.platform.startswith("linux") else "lo0"


def interfaces_here() -> list[str]:
    """Return the names of this host's network interfaces."""
    return [name for _, name in socket.if_nameindex()]


def refuse_interfaces(
    env: Mapping[str, str], backend: str, nodes: int, here: Sequence[str] | None = None
) -> None:
    """Refuse a value with which the ranks could not reach one another.

    Parameters
    ----------
    env
        The environment, in which the backend's variable may be set.
    backend
        "gloo" or "nccl"; others have no such variable.
    nodes
        How many hosts the ranks are on.
    here
        The interfaces of this host; default: as the system lists them.

    Raises
    ------
    BadInput
        With the variable, what is wrong with it, and what to set.
    """
    name = {"gloo": GLOO, "nccl": NCCL}.get(backend, "")
    value = env.get(name, "")
    if not value:
        return
    here = interfaces_here() if here is None else here
    said, remedy = f"{name}={value}", _remedy(name, nodes, here)
    if backend == "gloo":
        chosen = _named(value, said, here, remedy)
    else:
        chosen = chosen_by_nccl(value, here)
        if not chosen:
            raise BadInput(f"{said} matches none of this host's network interfaces; {remedy}.")
    if nodes > 1 and all(is_loopback(one) for one in chosen):
        raise BadInput(
            f"{said} is the loopback interface, on which a host reaches only itself, but the ranks"
            f" are on several hosts; {remedy}."
        )


def _named(value: str, said: str, here: Sequence[str], remedy: str) -> list[str]:
    """The interfaces that gloo would take."""
    if value[0] in "^=":
        raise BadInput(
            f"{said} is in NCCL's syntax, but gloo knows no {value[0]}, only names; {remedy}."
        )
    chosen = value.split(",")  # gloo takes a blank as part of a name
    unknown = [name for name in chosen if name not in here]
    if unknown:
        raise BadInput(f"{said} names no network interface of this host; {remedy}.")
    return chosen


def chosen_by_nccl(value: str, here: Sequence[str]) -> list[str]:
    """The interfaces that NCCL would choose from: by prefixes of their names, or whole names."""
    without, value = value[0] == "^", value.removeprefix("^")
    whole, value = value[:1] == "=", value.removeprefix("=")
    named = [word.partition(":")[0] for word in value.split(",") if word]

    def is_named(name: str) -> bool:
        return name in named if whole else name.startswith(tuple(named))

    return [name for name in here if is_named(name) != without]


def is_loopback(name: str) -> bool:
    """Return whether an interface reaches only its own host."""
    return re.fullmatch(r"lo\d*", name) is not None


def _remedy(name: str, nodes: int, here: Sequence[str]) -> str:
    use = [one for one in here if nodes == 1 or not is_loopback(one)]
    return f"unset it, or set it to one of {', '.join(use)}" if use else "unset it"
