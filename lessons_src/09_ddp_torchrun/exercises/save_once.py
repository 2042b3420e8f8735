"""Exercise 9.4: one of all ranks saves, and no rank continues before the file is there.

Four ranks stand for two nodes of two, each of which has a local rank 0. `torch.save` is slowed
down, so that a rank that does not wait finds no file. A full disk leaves what it leaves in truth: a
file that has been begun, and a RuntimeError.
"""

import contextlib
import os
import signal
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.rank_runs import plain_group
from dtlib.learn.reports import GONE, HANGS
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

SLOW = 0.3  # seconds that a save takes here, far more than a barrier
PATIENCE = 3.5  # seconds, more than a rank of a check waits for another
NODES = {1: 1, 3: 1, 4: 2}
OLD = "old"  # the disk is full, and a file of an earlier epoch is at `path`
EARLIER = b"an earlier epoch's"  # what is in it
# Words of the solution, and what may stand in their place.
MEET, BARRIER = "    dist.broadcast_object_list(told)", "    dist.barrier()"


def run(answer, weight, full):
    """What this rank did, in order; whether it can read the file; the ranks that wrote; and more.

    With a full disk the second says whether this rank raised an error of its own. The fourth says
    whether there is a file at `path`, and of an earlier one, whether it is still as it was. The
    last is how many different files the ranks wrote, 0 if they wrote into memory.

    If a rank failed, the others still learn whether it wrote.
    """
    rank, n, group = dist.get_rank(), dist.get_world_size(), plain_group()
    os.environ["LOCAL_RANK"] = str(rank % (n // NODES[n]))
    with (
        tempfile.TemporaryDirectory(prefix="dtlib-check-") as folder,
        noted(full) as (events, files),
    ):
        folders, everyone = [folder], [(False, False, None)] * n
        if full == OLD:
            Path(folder, "last.pt").write_bytes(EARLIER)
        dist.broadcast_object_list(folders, group=group)
        path = Path(folders[0], "last.pt")
        clash = None  # of two ranks that replace one file, the later one finds none
        try:
            with patience(full):
                answer({"weight": weight}, str(path))
            right = not full and readable(path, n)
        except Wrong:
            raise
        except FileNotFoundError as error:
            clash, right = None if full else error, bool(full)
        except Exception as error:
            if not full or any(words in str(error) for words in (*HANGS, *GONE, "Wait timeout")):
                raise
            right = True
        finally:  # rank 0 removes the folder only after all ranks have looked
            there = path.exists()
            kept = there and (full != OLD or path.read_bytes() == EARLIER)
            dist.all_gather_object(everyone, ("save" in events, kept, *files[:1]), group=group)
    wrote = [rank for rank in range(n) if everyone[rank][0]]
    if clash is not None and len(wrote) < 2:
        raise clash if rank in wrote else Wrong("not_the_writer", **told(clash))
    different = len({file for one in everyone for file in one[2:]} - {None})
    return events, right, wrote, all(one[1] for one in everyone) if full else there, different


def told(error):
    """An error in the words of a sentence; a path is in a folder that is new in every check."""
    message = str(error)
    if error.filename is not None:
        message = f"{error.strerror}, `{Path(error.filename).name}`"
    return {"rank": dist.get_rank(), "error": type(error).__name__, "message": message}


@contextlib.contextmanager
def noted(full):
    """Note the saves and barriers in this block, and the names of the files that are saved.

    A save is slow here, or fails if `full`.
    """
    events, files = [], []
    save, barrier = torch.save, dist.barrier

    def slow_save(obj, f, *args, **kwargs):
        events.append("save")
        name = getattr(f, "name", None) if hasattr(f, "write") else f
        files.append(Path(name).resolve() if isinstance(name, (str, os.PathLike)) else None)
        if full:
            no_room(f)
        if dist.get_world_size() > 1:  # alone, nobody could come too early
            time.sleep(SLOW)
        save(obj, f, *args, **kwargs)

    def noted_barrier(*args, **kwargs):
        events.append("barrier")
        return barrier(*args, **kwargs)

    torch.save, dist.barrier = slow_save, noted_barrier
    try:
        yield events, files
    finally:
        torch.save, dist.barrier = save, barrier


def no_room(f):
    """Do what `torch.save` does on a full disk: it has begun the file when its writer stops."""
    if isinstance(f, (str, os.PathLike)):
        Path(f).write_bytes(b"PK")
    else:
        f.write(b"PK")
    raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598")


@contextlib.contextmanager
def patience(full):
    """Stop an answer that looks again and again for a file that will never be there."""

    def stop(_, frame):
        if "/torch/" not in frame.f_code.co_filename:  # a collective has a time-out of its own
            raise Wrong("never_comes", rank=dist.get_rank())

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE if full else 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def readable(path, n):
    """Whether the file holds the state of one of the n ranks, and nothing else."""
    try:
        ((name, weight),) = torch.load(path, map_location="cpu", weights_only=True).items()
        return name == "weight" and weight.tolist() in [[10.0**rank] for rank in range(n)]
    except Exception:  # missing, incomplete, of another kind: torch.load raises all sorts
        return False


def writers(seen):
    """The ranks that wrote, according to any rank that returned."""
    return next((one.got[2] for one in seen if one.got), [])


def several(seen):
    wrote = writers(seen)
    who = " and ".join(f"rank {rank}" for rank in wrote)
    return len(wrote) > 1 and {"writers": len(wrote), "who": who}


def own_files(seen):
    """Several ranks wrote, and not all into one file."""
    files = next((one.got[4] for one in seen if one.got), 0)
    return files > 1 and (facts := several(seen)) and {**facts, "files": files}


def local_rank(seen, n):
    """The first rank of each node wrote."""
    firsts = list(range(0, n, n // NODES[n]))
    return writers(seen) == firsts and (facts := several(seen)) and {**facts, "nodes": NODES[n]}


def alone_in_barrier(seen):
    """A rank waits for one that has returned and called no barrier."""
    failed = [one for one in seen if one.failure]
    gone = [one.rank for one in seen if one.got and "barrier" not in one.got[0]]
    if not failed or not gone or any(one.failure.own for one in failed):
        return False
    return {"waiting": failed[0].rank, "gone": gone[0]}


def left_waiting(seen, full):
    """The writer raised an error, and the others wait for it."""
    failed = [one.rank for one in seen if one.failure and not one.failure.own]
    return full[0] and bool(failed) and {"waiting": failed[0]}


def some_raise(got, full):
    """Not all ranks raised an error."""
    quiet = without(got)
    return full[0] and len(quiet) < len(got) and {"quiet": quiet[0]}


def writer_quiet(got, full):
    """All ranks raised an error but the one that met it."""
    return full[0] and without(got) == got[0][2] and {"writer": got[0][2][0]}


def destroyed(got, full):
    """Nobody can resume: the earlier file went before the new one was whole."""
    return full[0] == OLD and not without(got) and not got[0][3]


def other_content(got, full):
    """The writer finds a file at `path`, and not the state in it."""
    writer = got[0][2][:1]
    return not full[0] and writer == without(got)[:1] and got[writer[0]][3]


def leaves_them_waiting(state, path):
    if dist.get_rank() == 0:
        torch.save(state, path)
    dist.barrier()


def without(got):
    """The ranks that found no file, or raised no error."""
    return [rank for rank, one in enumerate(got) if not one[1]]


def facts(got):
    return {"rank": (without(got) or [0])[0], "writer": (got[0][2] or [0])[0]}


def passed(seen):
    (writer, *more), n = writers(seen[-1]), len(seen[-1])
    return Passed(
        ((f"ranks of {n} that wrote", 1 + len(more), 1, ""),),
        f"Rank {writer} wrote, and all {n} found the file.",
    )


def case(n, full=False):
    words = f"{NODES[n]} node{'s' * (NODES[n] > 1)}" + ", its disk is full" * bool(full)
    words += ", and an earlier epoch's file is there" * (full == OLD)
    return n, words, lambda rank, n: (torch.tensor([10.0**rank]), full)


EXERCISE = RankAnswer(
    solution("save_once", globals()),
    run=run,
    judge=lambda got, full: got[1] and len(got[2]) == 1 and (got[3] or full != OLD),
    cases=[case(1), case(3), case(3, full=True), case(3, full=OLD), case(4)],
    # Each is recognised by what the ranks did. Of a program the check would run them all beside an
    # answer, a slow save each: those that return are in the bank.
    mistakes=[
        Mistake("left_waiting", leaves_them_waiting, when=left_waiting, hangs=True),
        Mistake("silent", when=lambda got, full: full[0] and len(without(got)) == len(got)),
        Mistake("destroyed", when=destroyed),
        Mistake("writer_quiet", when=writer_quiet),
        Mistake("some_raise", when=some_raise),
        Mistake("nobody", when=lambda got: not got[0][2]),
        Mistake("own_files", when=own_files),
        Mistake("all_write", when=lambda seen, n: len(writers(seen)) == n > 1),
        Mistake("local_rank", when=local_rank),
        Mistake("several", when=several),
        Mistake("alone_in_barrier", {MEET: f"    {BARRIER}"}, when=alone_in_barrier, hangs=True),
        Mistake("other_content", when=other_content),
        Mistake("elsewhere", when=lambda got: got[0][2][:1] == without(got)[:1]),
        Mistake("barrier_before", when=lambda got: "barrier" in got[without(got)[0]][0]),
        Mistake("no_barrier", when=lambda got: bool(without(got))),
    ],
    other="no_barrier",
    facts=facts,
    passed=passed,
)
