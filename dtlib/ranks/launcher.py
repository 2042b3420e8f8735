"""Start a function on every rank, from anywhere, and end every rank whatever happens.

    results = launch(fn, data, ranks=4)

How it works, and where to read on (`dtlib/ranks/__init__.py` lists the modules):

1. `launch` refuses what would fail later, and packs the function with cloudpickle.
2. `pool` hands it warm processes: forks of a server that has torch loaded, or spare workers;
   `slurm` hands it processes on all nodes, inside a Slurm allocation of several.
3. `worker`, in each of them, joins the process group, calls the function, reports.
4. `group` listens to all of them: output, progress, results, deaths; it ends them all.
5. `outcome` finds the rank that failed first, and the sentence.

Under torchrun or srun the ranks already exist: the function is called in place.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dtlib.errors import BadInput
from dtlib.ranks import allocation, dist, parcel, refuse, slurm, timeouts
from dtlib.ranks.aliases import aliases
from dtlib.ranks.group import Group
from dtlib.ranks.outcome import Outcome, RankFailed, blame
from dtlib.ranks.pool import Process, pool, start_method
from dtlib.ranks.processes import handled
from dtlib.ranks.show import OnProgress, View, progress_words, view_for

__all__ = [
    "Outcome", "RankFailed", "View", "blame", "default_ranks", "launch", "progress",
    "progress_words", "run_ranks", "start_method", "warm", "world_that_is_there",
]  # fmt: skip

DEFAULT_RANKS = 2
_told: set[tuple[int, str]] = set()  # the launches whose device has been explained


def launch(
    fn: Callable[..., Any],
    *args: Any,
    ranks: int | None = None,
    timeout: float = timeouts.RUN,
    limit: float | None = None,
    device: str = "auto",
    debug: bool = False,
    threads: int = 1,
    show: bool = True,
    port: int | None = None,
    on_progress: OnProgress | None = None,
    env: Mapping[str, str] | None = None,
    **kwargs: Any,
) -> list[Any]:
    """Call `fn(*args, **kwargs)` on every rank, inside a ready process group.

    In a notebook or a script it starts real processes on this machine; `fn` may be defined in a
    cell, and a script needs no `if __name__ == "__main__"`. Inside a Slurm allocation of several
    nodes it starts them on all nodes, unless `ranks` is too small. Under torchrun or srun it joins
    the existing world and calls `fn` in place.

    Parameters
    ----------
    fn
        Called once on each rank; finds the group through `torch.distributed` or
        `dtlib.ranks.dist`. If it has a keyword with one of the names below, pass that one with
        `functools.partial`.
    ranks
        How many; default: as many as the existing world or allocation has, otherwise 2.
    timeout
        Seconds that a collective waits for the other ranks, and that the others may still take
        after the first rank has returned.
    limit
        Seconds that the whole launch may take; default: no limit.
    device
        "auto", "cpu", "cuda" or "mps": see `dist.choose_backend`.
    debug
        Let torch compare every collective between the ranks (its DETAIL level), so that a
        mismatch is an error instead of a crash or a hang. Not for `DistributedDataParallel`:
        at this level torch 2.14 crashes when it wraps a model, and the error says so.
    threads
        CPU threads of each rank.
    show
        Print each rank's output as it arrives, and the progress.
    port
        Port of the ranks' meeting place; default: any free one.
    on_progress
        Called with (done, total, numbers) instead of showing the progress.
    env
        Environment variables for the ranks, in addition to those of this process.

    Returns
    -------
    list
        The results by rank, on every rank. GPU tensors come back as CPU tensors.

    Raises
    ------
    RankFailed
        When a rank raised, died, exited, or did not join a collective; all ranks are ended.
    BadInput
        When `ranks` is not positive or contradicts the existing world, or the port is taken.
    """
    place = world_that_is_there(ranks)
    if place is not None:
        return _in_place(place, functools.partial(fn, *args, **kwargs), device, timeout, threads)
    outcomes = run_ranks(
        fn, args, kwargs, ranks=ranks, timeout=timeout, limit=limit, device=device, debug=debug,
        threads=threads, show=show, port=port, on_progress=on_progress, env=env,
        nodes=allocation.spread(ranks),
    )  # fmt: skip
    failure = blame(outcomes, timeout)
    if failure is None:
        return [outcome.value for outcome in outcomes]
    own = outcomes[failure.rank].raised
    # An error that dtlib explains is raised again as it was on the rank.
    raise failure if own is None else pickle.loads(own)


def run_ranks(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    ranks: int | None = None,
    timeout: float = timeouts.RUN,
    limit: float | None = None,
    device: str = "auto",
    debug: bool = False,
    threads: int = 1,
    show: bool = False,
    port: int | None = None,
    on_progress: OnProgress | None = None,
    env: Mapping[str, str] | None = None,
    view: View | None = None,
    nodes: allocation.Spread | None = None,
) -> list[Outcome]:
    """Do what `launch` does in processes of this machine, and return how each rank ended.

    A rank's failure is an `Outcome`, not an exception, as checks of a student's function need. The
    parameters are those of `launch`; `view` shows output and progress as they arrive, and `nodes`
    are the Slurm nodes that the ranks spread over (default: this machine).

    Raises `BadInput` when `ranks` is not positive, the port is taken, or the function cannot be
    sent.
    """
    if nodes is not None:
        ranks = nodes.ranks
    ranks = DEFAULT_RANKS if ranks is None else ranks
    most = ranks if nodes is None else nodes.most  # on one machine
    refuse.refuse_early(most, timeout, limit, threads, device if nodes is None else "cpu", port)
    job = _job(fn, args, dict(kwargs or {}), env)
    job.update(ranks=ranks, timeout=timeout, device=device, debug=debug, threads=threads, port=port)
    job["tell"] = show and (ranks, device) not in _told  # why no GPU: once, not in every cell
    if show:
        _told.add((ranks, device))
    view = view or view_for(show, on_progress, ranks)
    try:
        with slurm.processes(nodes) if nodes else _here(ranks) as processes:
            jobs = [{**job, "rank": rank} for rank in range(ranks)]
            return _run(Group(processes, jobs, view, timeout, limit))
    finally:
        view.close()


@contextlib.contextmanager
def _here(ranks: int) -> Iterator[list[Process]]:
    """Yield warm processes of this machine."""
    try:
        yield pool().take(ranks)
    finally:
        if start_method() == "spawn":
            warm(ranks)


def _run(group: Group) -> list[Outcome]:
    """Run a launch. SIGTERM and SIGUSR1 ask the ranks to stop; a second one ends them at once.

    So does the first signal after some seconds if no rank ever asks whether to stop. An interrupt
    prints where each rank was, and ends them.
    """

    def handler(*_: object) -> None:
        if group.stop_requested:
            raise KeyboardInterrupt
        group.stop_requested = True

    group.stop_requested = dist.stop_requested()  # a signal came before the launch
    outer = signal.getsignal(signal.SIGTERM)
    try:
        with handled(handler, signal.SIGTERM, signal.SIGUSR1):
            outcomes = group.run()
    except KeyboardInterrupt as interrupt:
        # IPython's hook: a notebook shows the sentence, not where this process was waiting.
        interrupt._render_traceback_ = lambda: ["KeyboardInterrupt"]  # type: ignore[attr-defined]
        places = "; ".join(f"rank {rank} was {place}" for rank, place in group.places.items())
        print(f"Interrupted: {places or 'no rank was running'}.", file=sys.stderr, flush=True)
        raise
    if group.stop_requested and callable(outer) and all(one.status == "ok" for one in outcomes):
        outer(signal.SIGTERM, None)  # too late for this launch, but the caller may have more to do
    return outcomes


Place = dist.EnvWorld | dist.World


def default_ranks() -> int:
    """Return the default number of ranks of a launch: the allocation's, otherwise 2."""
    nodes = allocation.spread(None)
    return nodes.ranks if nodes else DEFAULT_RANKS


def warm(ranks: int = 4) -> None:
    """Load torch in the background, so that the next launch of up to `ranks` ranks starts fast."""
    pool().warm(ranks)


def progress(done: int, total: int, **numbers: Any) -> None:
    """Report rank 0's progress, and some numbers, to the parent; otherwise a no-op."""
    worker = sys.modules.get("dtlib.ranks.worker")
    if worker is not None and dist.is_main():
        worker.send_progress(done, total, numbers)


def world_that_is_there(ranks: int | None = None) -> Place | None:
    """Return the world that this process is already in, if any.

    Raises `BadInput` when `ranks` contradicts that world.
    """
    place = dist.world() if dist.in_world() else dist.environment_world()
    if place is not None and ranks is not None and ranks != place.world_size:
        raise BadInput(
            f"ranks={ranks} contradicts the world of {place.world_size} that this process is in; "
            "leave ranks out, or start the program without torchrun, srun or a process group."
        )
    return place


def _in_place(
    place: dist.EnvWorld | dist.World, call: Any, device: str, timeout: float, threads: int
) -> list[Any]:
    """Call the function on this rank, and hand every rank all results."""
    import torch.distributed

    if isinstance(place, dist.EnvWorld):
        # torchrun sets one thread only if it starts several ranks; sums depend on the threads
        torch.set_num_threads(threads)
        dist.join(place, device, timeout)
        dist.install_stop_handlers()
        _compare_hash_seeds()
    result = parcel.pack_result(call())
    results = dist.gather_objects(result)
    return [parcel.unpack_result(result, rank) for rank, result in enumerate(results)]


def _compare_hash_seeds() -> None:
    """Warn on rank 0 if ranks that another program started order sets differently."""
    if len(set(dist.gather_objects(hash("a name")))) > 1 and dist.is_main():
        print(
            "The ranks order sets differently, so anything created in a set's order, such as a "
            "model's buffers, does not match between them; set PYTHONHASHSEED=0 and start again.",
            file=sys.stderr, flush=True,
        )  # fmt: skip


def _job(fn: Any, args: Any, kwargs: Any, env: Mapping[str, str] | None) -> dict[str, Any]:
    """Pack what a rank needs to be like this process: function, environment, folder, path."""
    try:
        payload = parcel.dumps((fn, args, kwargs))
    except Exception as error:
        name = getattr(fn, "__name__", type(fn).__name__)
        raise BadInput(
            f"{name} or its arguments cannot be sent to the ranks ({error}); create what cannot "
            "be sent (open files, locks, generators) inside the function."
        ) from error
    cwd = refuse.working_folder()
    cells = {
        name: entry for name, entry in linecache.cache.items() if len(entry) > 1 and not entry[1]
    }
    return {
        "payload": payload,
        "env": {**os.environ, **(env or {})},
        "cwd": cwd,
        "path": [entry or cwd for entry in sys.path],
        "aliases": aliases(),
        "argv": sys.argv,
        "sources": cells,
    }
