"""On a node of a Slurm allocation: the agent that becomes torchrun, and torchrun's ranks.

srun starts one agent per node. The agent tests whether it can reach the launching process, while it
can still report an error, and then becomes torchrun. Each rank connects back twice, for messages
and for its output, and then does its job like a rank on a single machine (`worker.py`).
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from typing import Any, NoReturn

SETTINGS = "DTLIB_STEP"  # variable with what an agent must know; other users cannot see it
GREETING = 512  # bytes at the start of a connection: who it is, padded
REACH = 15.0  # seconds in which the launching process must be reached
# Variables of a node's own that those of the notebook's node must not replace.
_OWN = ("RANK", "LOCAL_", "WORLD_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_", "SLURM",
        "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "HOSTNAME",
        "TMPDIR")  # fmt: skip


def agent() -> NoReturn:
    """Test whether the meeting places can be reached, and become this node's torchrun."""
    settings = json.loads(os.environ[SETTINGS])
    _reach(settings)
    if int(os.environ["SLURM_NODEID"]):
        _refuse_own(settings["master"])
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [settings["root"], os.environ.get("PYTHONPATH")])
    )
    from dtlib.ranks.environment import HASH_SEED, hash_seed

    os.environ[HASH_SEED] = hash_seed()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    command = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={settings['nodes']}"]
    ranks = settings["counts"][os.environ["SLURMD_NODENAME"]]
    command += [f"--nproc-per-node={ranks}", "--max-restarts=0"]
    command += [f"--node-rank={os.environ['SLURM_NODEID']}"]
    command += [f"--master-addr={settings['master']}", f"--master-port={settings['master_port']}"]
    os.execv(sys.executable, [*command, "-m", "dtlib.ranks.node"])


def _reach(settings: dict[str, Any]) -> None:
    address, port = settings["address"], settings["port"]
    end = time.monotonic() + REACH
    while True:
        try:
            _connect(settings, "agent", -1, os.environ["SLURMD_NODENAME"]).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                _leave(
                    f"{socket.gethostname()} did not reach the launching process at {address} "
                    f"port {port} within {REACH:g} s ({error}); set MASTER_ADDR to a name or "
                    "address of the first node that all nodes can reach."
                )
            time.sleep(0.5)


def _refuse_own(master: str) -> None:
    """On every node but the first, refuse a name of the first node that means this node itself."""
    own = socket.gethostbyname(master)
    if own.startswith("127."):
        _leave(
            f"on {socket.gethostname()} the first node's name {master} means {own}, which is that "
            "node itself; set MASTER_ADDR to an address of the first node that all nodes can reach."
        )


def _leave(sentence: str) -> NoReturn:
    print(f"dtlib: {sentence}", file=sys.stderr, flush=True)
    sys.exit(2)


def rank() -> None:
    """Be one rank: connect, send all output through the connection, and do the job that arrives."""
    settings = json.loads(os.environ.pop(SETTINGS))
    own, host = int(os.environ["RANK"]), socket.gethostname().partition(".")[0]
    line, output = (_connect(settings, kind, own, host) for kind in ("line", "output"))
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    output.close()

    from dtlib.ranks import dist, worker

    # torchrun ends a node's other ranks with SIGTERM when one dies. The launching process ends them
    # too, but first asks them what they were waiting for.
    dist.install_stop_handlers()
    worker.main(line.detach(), prepare=_keep_own)


def _connect(settings: dict[str, Any], kind: str, rank: int, host: str) -> socket.socket:
    connected = socket.create_connection((settings["address"], settings["port"]), timeout=REACH)
    hello = {"token": settings["token"], "rank": rank, "kind": kind, "host": host}
    connected.sendall(json.dumps(hello).encode().ljust(GREETING))
    connected.settimeout(None)
    return connected


def _keep_own(job: dict[str, Any]) -> None:
    """Give the job this node's and torchrun's variables, and torchrun's place in the world."""
    from dtlib.ranks.environment import environment_world

    own = {name: value for name, value in os.environ.items() if name.startswith(_OWN)}
    job["env"] = {k: v for k, v in job["env"].items() if not k.startswith(_OWN)} | own
    job["place"] = environment_world(job["env"])


if __name__ == "__main__":
    rank()
