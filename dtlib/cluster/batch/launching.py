"""`dtlib batch launch`: the command that starts a training as `distributed.yaml` describes it.

torchrun and `accelerate launch` run once per node and start its ranks; Lightning needs one srun
task per rank. The numbers of node and rank differ from task to task, so for several nodes the
command is made in the srun task, not in the batch script.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtlib.cluster.batch.distributed import BACKENDS, FILE, Distributed, read
from dtlib.config.flags import Parser
from dtlib.errors import BadInput, counted
from dtlib.ranks.allocation import cpus_per_node
from dtlib.ranks.devices import Availability, available_here, choose_backend
from dtlib.ranks.environment import HASH_SEED, first_hosts, hash_seed, refuse_loopback
from dtlib.ranks.launcher import DEFAULT_RANKS

Env = Mapping[str, str]

OF_DTLIB = {"gpu": "cuda", "cpu": "cpu", "mps": "mps", "auto": "auto"}
SIGNALS = "--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
TASKS = ("images", "text")


@dataclass(frozen=True)
class Spread:
    """What starts how many ranks, and where.

    Attributes
    ----------
    backend, strategy
        The launcher, and the strategy for `dtlib train`.
    hosts
        The nodes of a job; outside a job, one name.
    devices
        Ranks on each node.
    device
        cuda, cpu or mps.
    """

    backend: str
    strategy: str
    hosts: tuple[str, ...]
    devices: int
    device: str

    @property
    def tasks(self) -> int:
        """srun tasks per node: one per rank under Lightning, otherwise one."""
        return self.devices if self.backend == "lightning" else 1

    @property
    def ranks(self) -> int:
        return self.devices * len(self.hosts)


def spread(settings: Distributed, env: Env = os.environ) -> Spread:
    """Decide what the file leaves open, from the job or this machine.

    Raises `BadInput` for settings that contradict each other or the job; `Unavailable` when there
    are fewer GPUs than requested.
    """
    backend, strategy = _backend(settings)
    hosts = _hosts(settings, env)
    gpus = _gpus(env)
    alone = strategy == "single"
    if alone and settings.nodes is None:
        hosts = hosts[:1]
    devices = settings.devices or (1 if alone else _devices(settings, env, gpus))
    if alone and devices * len(hosts) > 1:
        raise BadInput(
            f"strategy single is one rank, not {devices} on {counted(len(hosts), 'node')}; use ddp,"
            " or leave devices and nodes out."
        )
    here = Availability(gpus, available_here().mps, nccl=True)
    wanted, world = OF_DTLIB[settings.accelerator], devices * len(hosts)
    device, _ = choose_backend(world, wanted, local_world_size=devices, availability=here)
    if backend == "accelerate" and device != "cuda":
        backend = "torchrun"  # for CPUs, `accelerate launch` starts only one process
    return Spread(backend, strategy, hosts, devices, device)


def _backend(settings: Distributed) -> tuple[str, str]:
    backend, strategy = settings.backend, settings.strategy
    frameworks = BACKENDS[1:]
    if backend is None:
        return (strategy if strategy in frameworks else "torchrun"), strategy
    if backend == "torchrun" or strategy == backend:
        return backend, strategy
    if strategy in frameworks:
        raise BadInput(
            f"strategy {strategy} contradicts backend {backend}; set backend: {strategy}, or"
            " strategy: ddp."
        )
    if strategy != "ddp":
        raise BadInput(
            f"backend {backend} trains by ddp here, not by {strategy}; set backend: torchrun, or"
            " strategy: ddp."
        )
    return backend, backend


def _hosts(settings: Distributed, env: Env) -> tuple[str, ...]:
    there = tuple(first_hosts(env.get("SLURM_JOB_NODELIST", ""))) or ("localhost",)
    nodes = settings.nodes or len(there)
    if nodes > len(there):
        where = "the job has" if "SLURM_JOB_ID" in env else "outside a Slurm job there is"
        raise BadInput(f"nodes is {nodes}, but {where} {len(there)}; set nodes: auto.")
    return there[:nodes]


def _gpus(env: Env) -> int:
    """Return the number of GPUs that the job has on this node; outside a job, of this machine."""
    if "SLURM_JOB_ID" in env:
        given = env.get("SLURM_GPUS_ON_NODE", "0")
        return int(given) if given.isdecimal() else 0
    return available_here().cuda_devices


def _devices(settings: Distributed, env: Env, gpus: int) -> int:
    if settings.accelerator in ("auto", "gpu") and gpus:
        return gpus
    if settings.accelerator == "mps" or "SLURM_JOB_ID" in env:
        return 1
    return DEFAULT_RANKS  # with neither GPUs nor a job


def srun_options(settings: Distributed, env: Env = os.environ) -> list[str]:
    """Return srun's options for the tasks that run the command."""
    where = spread(settings, env)
    nodes = len(where.hosts)
    cpus = max(1, cpus_per_node(env))
    return [
        f"--nodes={nodes}", f"--ntasks={nodes * where.tasks}", f"--ntasks-per-node={where.tasks}",
        f"--cpus-per-task={max(1, cpus // where.tasks)}",
        *["--overcommit"] * (where.tasks > cpus),  # otherwise srun refuses tasks that share a CPU
    ]  # fmt: skip


def command(settings: Distributed, words: Sequence[str], env: Env = os.environ) -> list[str]:
    """Return the command that starts this node's ranks, or this rank.

    Parameters
    ----------
    words
        Arguments of `dtlib train`, the task first.
    env
        Environment of the srun task; outside a job, of this process.

    Raises
    ------
    BadInput
        When called for several nodes outside a step, when the step has the wrong number of tasks,
        and when the nodes would not meet at the address.
    """
    where = spread(settings, env)
    train = ["train", *words, "--strategy", where.strategy]
    if settings.accelerator != "auto":
        train += ["--device", where.device]
    _refuse_step(where, env)
    if where.strategy == "single" or (where.backend == "lightning" and not _in_step(env)):
        return [sys.executable, "-m", "dtlib", *train, "--ranks", str(where.ranks)]
    if where.backend == "lightning":
        return [sys.executable, "-m", "dtlib", *train]
    if where.backend == "accelerate":
        return [sys.executable, "-m", "accelerate.commands.launch", *_accelerate(where, env),
                "--module", "dtlib", *train]  # fmt: skip
    return [sys.executable, "-m", "torch.distributed.run", *_torchrun(where, env),
            "-m", "dtlib", *train]  # fmt: skip


def _in_step(env: Env) -> bool:
    return "SLURM_STEP_NUM_TASKS" in env


def _refuse_step(where: Spread, env: Env) -> None:
    nodes = len(where.hosts)
    if not _in_step(env):
        if nodes > 1:
            raise BadInput(
                f"{nodes} nodes need srun tasks, {where.tasks} on each, because a batch script runs"
                " on the first node only; use slurm/launch_training.sh."
            )
        return
    found = int(env["SLURM_STEP_NUM_TASKS"])
    if found != nodes * where.tasks:
        raise BadInput(
            f"backend {where.backend} needs {counted(where.tasks, 'srun task')} on each of"
            f" {counted(nodes, 'node')}, and this step has {found};"
            " `dtlib batch launch --srun` prints srun's options."
        )


def _meeting(where: Spread, env: Env) -> tuple[str, int]:
    """Return address and port of the first node; the port is below the ephemeral range."""
    address = env.get("MASTER_ADDR") or where.hosts[0]
    refuse_loopback(address, where.hosts)
    return address, 20000 + int(env["SLURM_JOB_ID"]) % 10000


def _torchrun(where: Spread, env: Env) -> list[str]:
    options = [f"--nproc-per-node={where.devices}", SIGNALS]
    if len(where.hosts) == 1:
        return [*options, "--standalone"]
    address, port = _meeting(where, env)
    return [
        *options, f"--nnodes={len(where.hosts)}", f"--node-rank={env['SLURM_NODEID']}",
        "--rdzv-conf=timeout=120", f"--master-addr={address}", f"--master-port={port}",
    ]  # fmt: skip


def _accelerate(where: Spread, env: Env) -> list[str]:
    options = [
        f"--num_machines={len(where.hosts)}", f"--num_processes={where.ranks}",
        "--mixed_precision=no", "--dynamo_backend=no",
    ]  # fmt: skip
    if where.ranks > 1:
        options.append("--multi_gpu")
    if len(where.hosts) > 1:
        address, port = _meeting(where, env)
        options += [f"--machine_rank={env['SLURM_NODEID']}", f"--main_process_ip={address}"]
        options.append(f"--main_process_port={port}")
    return options


def parser() -> Parser:
    """Return the parser of `dtlib batch launch`."""
    top = Parser(
        prog="dtlib batch launch",
        usage="dtlib batch launch [--print|--srun] [FILE.yaml] images|text [--SETTING VALUE …]",
        description="Start the training that a file describes, with its backend's launcher."
        f" Without a file: {FILE}.",
        epilog="All other settings are those of `dtlib train`.",
    )
    top.add_argument("--print", action="store_true", help="show the command, start nothing")
    top.add_argument("--srun", action="store_true", help="show srun's options for the command")
    for name, note in (
        ("accelerator", "auto, cpu, gpu, mps"), ("strategy", "a strategy of `dtlib train`"),
        ("devices", "ranks per node"), ("nodes", "number of nodes"),
        ("backend", ", ".join(BACKENDS)), ("tpu-cores", "refused: there is no TPU support"),
    ):  # fmt: skip
        top.add_argument(f"--{name}", help=f"{note} (default: the file's)")
    return top


def main(argv: Sequence[str]) -> int:
    """Print the command, or replace this process by it; raises `DtlibError` if it cannot."""
    args, words = parser().parse_known_args(list(argv))
    said = vars(args)
    show, options = said.pop("print"), said.pop("srun")
    file = Path(words.pop(0)) if words and words[0].endswith((".yaml", ".yml")) else FILE
    settings = read(file, **said)
    if not words or words[0] not in TASKS:
        raise BadInput(f"say what to train, {' or '.join(TASKS)}: `dtlib batch launch text`.")
    if options:
        print(" ".join(srun_options(settings)))
        return 0
    line = command(settings, words)
    if show:
        print(shlex.join(line))
        return 0
    sys.stdout.flush()
    os.environ[HASH_SEED] = hash_seed()
    os.execv(line[0], line)
