"""What `test_ranks_on_nodes.py` runs in a batch script: launches over two nodes."""

import json
import os
import signal
import socket
import sys
import threading
import time
from typing import Any

import dtlib
from dtlib.ranks.launcher import progress


def meet(number: int) -> tuple[str, int, int]:
    import torch
    import torch.distributed as dist

    mine = torch.tensor(10 ** dist.get_rank())
    dist.all_reduce(mine)
    progress(1, 1)
    return socket.gethostname(), mine.item(), number


def raise_on_the_last() -> None:
    import torch.distributed as dist

    if dist.get_rank() == dist.get_world_size() - 1:
        raise ValueError("too big")
    dist.barrier()


def die_on_the_last() -> None:
    import torch.distributed as dist

    if dist.get_rank() == dist.get_world_size() - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def wait_alone() -> None:
    import torch
    import torch.distributed as dist

    if dist.get_rank() == 0:
        dist.recv(torch.ones(2), 3)


def until_stopped() -> bool:
    from dtlib.ranks import dist

    progress(0, 1)
    while not dist.stop_requested():
        time.sleep(0.05)
    return True


def for_ever() -> None:
    progress(0, 1)
    time.sleep(600)


def tell(name: str, **found: Any) -> None:
    print(json.dumps({"name": name, **found}), flush=True)


def signalled(name: int, fn: Any) -> Any:
    """Launch over both nodes, and send this process a signal when the ranks are in `fn`."""

    def send(*_: object) -> None:
        threading.Thread(target=os.kill, args=(os.getpid(), name)).start()

    return dtlib.launch(fn, on_progress=send)


def main() -> None:
    tell("meet", results=dtlib.launch(meet, 7), here=dtlib.launch(meet, 7, ranks=3))
    for fn, ranks in ((raise_on_the_last, 4), (die_on_the_last, 2), (wait_alone, 4)):
        try:
            dtlib.launch(fn, ranks=ranks, timeout=3 if fn is wait_alone else 60)
        except dtlib.RankFailed as error:
            tell(fn.__name__, sentence=error.sentence, host=error.host, reason=error.reason)
    tell("until_stopped", results=signalled(signal.SIGUSR1, until_stopped))
    try:
        signalled(signal.SIGINT, for_ever)
    except KeyboardInterrupt:
        tell("for_ever", interrupted=True)


if __name__ == "__main__":
    sys.exit(main())
