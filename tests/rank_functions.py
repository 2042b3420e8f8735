"""What the launcher's tests run on ranks: a module of its own, so that a rank loads it quickly."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from processes import wait_until_they_wait

from dtlib.ranks.dist import stop_requested, world
from dtlib.ranks.launcher import progress


def add_up(x: float) -> list[float]:
    """A sum over ranks that tells which rank is missing: rank r gives x·10**r."""
    tensor = torch.tensor([x * 10 ** dist.get_rank()])
    dist.all_reduce(tensor)
    return tensor.tolist()


def environment(*names: str) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in names}


def place() -> tuple[int, int, int, str, str | None, int, str]:
    w, threads = world(), torch.get_num_threads()
    return w.rank, w.local_rank, w.world_size, str(w.device), w.backend, threads, str(Path.cwd())


def fail_on_rank_1(how: str, sick: int = 1) -> None:
    """One rank fails in some way; the others wait for it."""
    if dist.get_rank() == sick:
        until_others_wait()
        _fail(how)
    tell_that_it_waits()
    dist.all_reduce(torch.ones(4))


def tell_that_it_waits() -> None:
    """Say that the next that this rank does is to wait for others."""
    # torch tells nobody who is in its collectives; the store is what all ranks have
    dist.distributed_c10d._get_default_store().set(f"waits {dist.get_rank()}", str(os.getpid()))


def until_others_wait() -> None:
    """Return when the others are in their collective, on a busy machine too."""
    store, size = dist.distributed_c10d._get_default_store(), dist.get_world_size()
    others = [rank for rank in range(size) if rank != dist.get_rank()]
    wait_until_they_wait([int(store.get(f"waits {rank}")) for rank in others], 0.3)


def _fail(how: str) -> None:
    if how == "raise":
        raise ValueError("the seventh batch is empty")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "os_exit":
        os._exit(3)
    if how == "sys_exit":
        sys.exit(4)
    if how == "sleep":
        time.sleep(600)
    if how == "loop":
        while True:
            pass
    if how == "ask":
        while True:
            dist.get_rank()
    if how == "hold_the_gil":  # not even the watching thread runs
        import ctypes

        ctypes.PyDLL(None).sleep(600)


def raise_late_everywhere() -> None:
    """Rank 2 raises; the others then fail only because it goes away."""
    if dist.get_rank() == 2:
        until_others_wait()
        os.kill(os.getpid(), signal.SIGKILL)
    tell_that_it_waits()
    dist.recv(torch.ones(2), 2)


def all_send() -> None:
    """Everyone sends to the right and nobody receives."""
    size = dist.get_world_size()
    dist.send(torch.ones(5), (dist.get_rank() + 1) % size)


def mismatch() -> None:
    dist.all_reduce(torch.ones(4 + dist.get_rank()))


def mismatch_after_ddp() -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(2))
    else:
        dist.broadcast(torch.ones(2), 0)
    assert model is not None


def wait_for_async() -> None:
    if dist.get_rank() == 0:
        work = dist.all_reduce(torch.ones(6), async_op=True)
        work.wait()
    time.sleep(600)


def ddp_waits() -> None:
    """Rank 1 never comes to the backward pass: DDP's all-reduce is in C++, no frame shows it."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    if dist.get_rank() == 1:
        time.sleep(600)
    model(torch.ones(1, 3)).sum().backward()


class SlowToSend:
    """A result that its rank takes a while to pack."""

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        time.sleep(0.8)
        return str, ("sent",)


def return_slowly() -> object:
    """Rank 0 returns in time, and its result is on its way when time is up."""
    time.sleep(0.6 if dist.get_rank() == 0 else 0)
    return SlowToSend() if dist.get_rank() == 0 else "sent"


class SlowToLeave:
    """As a context that tidies up: an error on its way out takes a while."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        time.sleep(0.6)


def wait_alone(how: str, late: float = 0.0) -> None:
    """Rank 0 waits for the others, which return; it comes `late` seconds after them, or before."""
    rank = dist.get_rank()
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    x = torch.ones(5)
    time.sleep(max(0.0, late if rank == 0 else -late))
    if rank > 0:
        return
    if how == "all_reduce":
        dist.all_reduce(x)
    elif how == "recv":
        dist.recv(x, 1)
    elif how == "barrier":
        dist.barrier()
    elif how == "backward":
        ddp(torch.ones(1, 3)).sum().backward()
    elif how == "async":
        handle = dist.all_reduce(x, async_op=True)
        handle.wait()
    elif how == "message":
        work = dist.irecv(x, 1)
        work.wait()
    elif how == "slow to leave":
        with SlowToLeave():
            dist.send(x, 1)
    elif how == "caught":
        try:
            dist.gather(x, dst=1)
        except RuntimeError:
            time.sleep(601)


def wait_in_buckets() -> None:
    """Three buckets of different sizes, the last layer's first; rank 1 leaves after three steps."""
    sizes = ((10, 300), (300, 200), (200, 100))
    layers = [torch.nn.Linear(*size, bias=False) for size in sizes]
    ddp = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers), bucket_cap_mb=0.01
    )
    for step in range(4):
        if step < 3 or dist.get_rank() == 0:
            ddp(torch.ones(1, 10)).sum().backward()


def chain_behind_a_loop() -> None:
    """Rank 1 is in a loop of its own, rank 0 waits for it, and rank 2, late, for rank 0."""
    rank = dist.get_rank()
    time.sleep(0.3 if rank == 2 else 0)
    while rank == 1:
        pass
    dist.recv(torch.ones(5), (rank + 1) % 3)


def leave_the_group() -> None:
    """Rank 1 ends the group and returns; rank 0 waits for it, rank 2 for nobody."""
    if dist.get_rank() == 1:
        time.sleep(0.3)
        return dist.destroy_process_group()
    if dist.get_rank() == 2:
        time.sleep(600)
    dist.recv(torch.ones(5), 1)


def two_wait_for_one(late: float) -> None:
    """Rank 1 is in a loop of its own; rank 2 comes to the collective later than rank 0."""
    if dist.get_rank() == 2:
        time.sleep(late)
    while dist.get_rank() == 1:
        pass
    dist.all_reduce(torch.ones(5))


def return_at_once_but_one() -> str:
    if dist.get_rank() == 1:
        time.sleep(600)
    return "done"


def leave_a_child() -> int:
    """Start a process that outlives its rank, unless the launcher ends it."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    dist.barrier()
    return child.pid


class Numbers(torch.utils.data.Dataset[torch.Tensor]):
    """A slow disk: a worker that hangs in it does not notice that its rank is gone."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(600 if index > 1 else 0)
        return torch.ones(1)


def with_loader_workers(how: str) -> list[int]:
    """Start two workers on each rank and say their process ids; then rank 1 fails in some way."""
    batches = iter(torch.utils.data.DataLoader(Numbers(), num_workers=2))
    next(batches)
    pids = [worker.pid for worker in batches._workers]  # type: ignore[attr-defined]
    print("workers", *pids, flush=True)
    if how != "return":
        fail_on_rank_1(how)
    return pids


def pid() -> int:
    return os.getpid()


def write(lines: int) -> None:
    for i in range(lines):
        print(f"line {i}")
    sys.stderr.write("to stderr\n")
    os.write(1, b"from below Python\n")


def steps(count: int) -> None:
    for i in range(1, count + 1):
        progress(i, count, loss=1 / i)
        time.sleep(0.01)


def until_stopped() -> int:
    """Step until any rank is asked to stop; all agree on the step."""
    for step in range(3000):
        flag = torch.tensor([float(stop_requested())])
        dist.all_reduce(flag)
        if flag.item():
            return step
        if step == 0:
            print("stepping", flush=True)
        time.sleep(0.02)
    return -1


def uneven_batches(join: str) -> float:
    """Rank 0 has three batches, rank 1 has two (torch issue 38174); inputs are 1, 2, 3."""
    from torch.distributed.algorithms.join import Join

    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    keep = join != "by the ranks still there"
    with Join([model], enable=join != "no", divide_by_initial_world_size=keep):
        for i in range(3 - dist.get_rank()):
            model.zero_grad()
            model(torch.full((1, 1), float(i + 1))).sum().backward()
    gradient = model.module.weight.grad
    assert gradient is not None
    return gradient.item()


def flood(end: str) -> None:
    while True:
        print("and again", end=end)


def pretend_one_gpu() -> float:
    """Let this process believe that it sees the only GPU of a laptop."""
    from dtlib.ranks import devices

    devices.available_here = lambda: devices.Availability(1, nccl=True)
    return 1.0
