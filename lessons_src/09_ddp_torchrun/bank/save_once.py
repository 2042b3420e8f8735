"""More answers to `save_once`, for the tests alone."""

import time
from pathlib import Path

import torch
import torch.distributed as dist

from ..exercises.save_once import BARRIER, MEET

# Words of the solution.
SAVE, START = 'torch.save(state, f"{path}.tmp")', "    told = [None]"
REPLACE = 'Path(f"{path}.tmp").replace(path)'
RANK, RAISE = "dist.get_rank() ==", "if told[0] is not None"


def all_write_and_one_waits(state, path):
    torch.save(state, path)
    if dist.get_rank() == 0:
        dist.barrier()


def each_its_own(state, path):
    ok = [True]
    try:
        torch.save(state, f"{path}.tmp{dist.get_rank()}")
    except Exception:
        ok = [False]
    if dist.get_rank() == 0 and ok[0]:
        Path(f"{path}.tmp0").replace(path)
    dist.broadcast_object_list(ok)
    if not ok[0]:
        raise RuntimeError("not saved")


def two_replace_it(state, path):
    rank, told = dist.get_rank(), [None]
    if rank < 2:
        try:
            with Path(f"{path}.{rank}").open("wb") as file:
                torch.save(state, file)
            Path(f"{path}.{rank}").replace(path)
        except Exception as error:
            told = [error]
    dist.broadcast_object_list(told)
    if told[0] is not None:
        raise told[0]


def looks_for_the_file(state, path):
    if dist.get_rank() == 0:
        torch.save(state, path + ".tmp")
        Path(path + ".tmp").replace(path)
    while not Path(path).exists():
        time.sleep(0.01)


def trusts_any_file(state, path):
    problem = None
    if dist.get_rank() == 0:
        try:
            torch.save(state, path)
        except Exception as error:
            problem = error
    dist.barrier()
    if problem or not Path(path).exists():
        raise OSError("no checkpoint")


def moves_it_all_the_same(state, path):
    told = [None]
    if dist.get_rank() == 0:
        try:
            torch.save(state, f"{path}.tmp")
        except Exception as error:
            told = [error]
        finally:
            Path(f"{path}.tmp").replace(path)
    dist.broadcast_object_list(told)
    if told[0] is not None:
        raise told[0]


def replaces_on_all(state, path):
    if dist.get_rank() == 0:
        torch.save(state, f"{path}.tmp")
    dist.barrier()
    Path(f"{path}.tmp").replace(path)
    dist.barrier()


# Right.
def renames(state, path):
    told = None
    if dist.get_rank() == 0:
        try:
            torch.save(state, path + ".tmp")
            Path(path + ".tmp").replace(path)
        except Exception as error:
            told = error
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, told)
    if any(everyone):
        raise RuntimeError("rank 0 could not save") from told


def the_last_one(state, path):
    failed, problem = torch.zeros(1), None
    if dist.get_rank() == dist.get_world_size() - 1:
        try:
            torch.save(state, path + ".tmp")
            Path(path + ".tmp").replace(path)
        except Exception as error:
            failed += 1
            problem = error
    dist.all_reduce(failed)
    if failed:
        raise problem or RuntimeError("the last rank could not save")


def others_go_first(state, path):
    if dist.get_rank() != 0:
        saved = torch.zeros(1)
        dist.broadcast(saved, 0)
        if not saved:
            raise OSError("no checkpoint")
        return
    saved = torch.zeros(1)
    try:
        torch.save(state, path + ".tmp")
        Path(path + ".tmp").replace(path)
        saved += 1
    finally:
        dist.broadcast(saved, 0)


STRAIGHT = {SAVE: "torch.save(state, path)", REPLACE: "pass"}
ALSO_WRONG = [
    ("destroyed", STRAIGHT),
    ("destroyed", {SAVE: f"Path(path).unlink(missing_ok=True); {SAVE}"}),
    ("other_content", {SAVE: SAVE.replace("state", "list(state.values())")}),
    ("other_content", {SAVE: SAVE.replace("state", '{"weight": torch.zeros(1)}')}),
    ("silent", {RAISE: "if False"}),
    ("some_raise", {RAISE: f"{RAISE} and dist.get_rank() == 0"}),
    ("some_raise", trusts_any_file),
    ("writer_quiet", {RAISE: f"{RAISE} and dist.get_rank() != 0"}),
    ("nobody", {SAVE: "pass", REPLACE: "pass"}),
    ("all_write", {f"{RANK} 0": "True"}),
    ("own_files", each_its_own),
    ("own_files", two_replace_it),
    (
        "own_files",
        {SAVE: SAVE.replace(".tmp", ".{dist.get_rank()}"), f"{RANK} 0": "True", ".tmp": ".0"},
    ),
    ("local_rank", {RANK: 'int(__import__("os").environ["LOCAL_RANK"]) =='}),
    ("several", {RANK: "dist.get_rank() // 2 =="}),
    ("elsewhere", {REPLACE: "pass"}),
    ("destroyed", moves_it_all_the_same),
    ("not_the_writer", replaces_on_all),
    ("barrier_before", {MEET: "", START: f"{BARRIER}\n{START}"}),
    ("no_barrier", {MEET: ""}),
]
HANG = [("left_waiting", {"except Exception": "except OSError"}),
        ("all_write", all_write_and_one_waits), ("never_comes", looks_for_the_file)]  # fmt: skip
OTHERS_RAISE = {"raise told[0]": "raise FileNotFoundError(path)"}
ALSO_RIGHT = [renames, the_last_one, others_go_first, OTHERS_RAISE]
