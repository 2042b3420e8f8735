"""What `dtlib clinic` says by counting: who has sent, called or made fewer than the others."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dtlib.measure.clinic import deadlocks, evidence, record, verdict
from dtlib.measure.clinic.dumps import Call, Dump
from dtlib.measure.clinic.waits import Wait
from dtlib.ranks.where import Where

RUNS = Path(__file__).resolve().parents[1] / "fixtures" / "clinic"


def first(found):
    return verdict.examine(found, patience=2).findings[0]


def messages(found, number, name, peer, ended, begin):
    """Add messages to a rank's record, as NCCL's has them; the last one may not have ended."""
    rank = found.ranks[number]
    added = [
        Call("0", n, name, "512 float32", end, 1.0 + n, Where(), peer)
        for n, end in enumerate(ended, begin)
    ]
    rank.dump = Dump((*added, *rank.dump.calls), rank.dump.groups)


@pytest.mark.parametrize("begin", [None, 1, 3])
def test_a_rank_whose_peer_has_gone_on_is_told(begin):
    """gloo records no messages; those of a record that was cut off are not counted."""
    found = evidence.gather([RUNS / "floor_and_ceiling"])
    recorded = begin == 1
    if begin:
        messages(found, 0, "send", 1, [True] * 4, begin)
        messages(found, 1, "recv", 0, [True] * 4 + [False], begin)
    one = first(found)
    assert (one.kind, one.rank, one.line) == ("deadlock", 0, "floor_and_ceiling.py:34")
    sent = "has sent it 4 and is in" if recorded else "is in"
    assert f"but rank 0 {sent} broadcast of 1 float32 (floor_and_ceiling.py:34)" in one.sentence
    assert ("for message 5, but" in one.sentence) is recorded
    assert "rank 0 waits for rank 2 in broadcast" in one.sentence  # its source, not rank 1
    assert "for another to go first" not in one.sentence


def test_calls_are_not_counted_in_a_record_that_was_cut_off():
    """Its oldest calls have been overwritten, so that the counts would be too small."""
    found = evidence.gather([RUNS / "skips_bad_batch"])
    said = "and ranks 0 and 2 10 times: rank 1 may have left one out"
    assert said in first(found).sentence
    for rank in found.ranks.values():
        rank.dump = Dump(rank.dump.calls[2:], rank.dump.groups)
    one = first(found)
    assert one.rank == 1 and "but rank 1 calls all_gather" in one.sentence
    assert "may have left one out" not in one.sentence


def test_who_names_another_rank_is_not_told_apart_by_those_that_are_left():
    """Rank 1 alone could tell which of two destinations is the odd one, and it is through."""
    one = first(evidence.gather([RUNS / "two_writers"]))
    assert one.rank is None
    assert "rank 0 names rank 0, rank 2 names rank 2" in one.sentence
    assert one.sentence.endswith("Print that: it tells who of ranks 0 and 2 is the odd one.")


@pytest.mark.parametrize(("backend", "advised"), [("gloo", False), ("nccl", True), ("", True)])
def test_nccl_is_looked_at_only_where_it_may_be_in_use(backend, advised):
    found = evidence.gather([RUNS / "nccl" / "everybody" / f"flight_rank_{r}" for r in (0, 1)])
    for rank in found.ranks.values():
        rank.dump = Dump(tuple(replace(c, backend=backend) for c in rank.dump.calls), {})
    said = first(found).sentence
    assert "look at the network" in said and ("NCCL_DEBUG" in said) is advised


def test_the_network_is_not_blamed_for_a_barrier_that_no_record_numbers():
    found = evidence.gather([RUNS / "evaluate_alone"])
    for rank in found.ranks.values():
        rank.dump, rank.where, rank.since = Dump((), {}), found.ranks[1].where, 1.0
    said = first(found).sentence
    assert said.startswith("Ranks 0, 1 and 2 wait in monitored_barrier")
    assert "must call it equally often" in said and "network" not in said


@pytest.mark.parametrize(("names", "told"), [(("send", "recv"), True), (("recv", "recv"), False)])
def test_tags_are_compared_between_the_two_ends_of_one_message(names, told):
    where = Where(file="train.py", line=7)
    waiting = [
        Wait({rank: Call("0", 1, name, "4 float32", False, 1.0, where, 1 - rank, 10 + rank)},
             (1 - rank,), (), 9.0, 10.0)
        for rank, name in enumerate(names)
    ]  # fmt: skip
    assert ("The tags differ" in deadlocks.deadlock(waiting, evidence.Evidence()).sentence) is told


def test_the_work_of_a_child_counts_and_a_childs_wait_does_not():
    def after(program):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            before, end = record.children_seconds(), time.monotonic() + 20
            while record.children_seconds() < before + 0.1 and time.monotonic() < end - 19.5 * idle:
                time.sleep(0.05)
            used = record.children_seconds() - before
            child.kill()
        return used

    idle = False
    assert after("print(flush=True)\nwhile True: pass") >= 0.1
    idle = True
    assert after("import time\nprint(flush=True)\ntime.sleep(60)") < 0.05
