"""`dtlib clinic` on programs that it had not seen, and on the output of jobs as people have it.

The programs and their true answers (tests/fixtures/clinic/programs/truths.yaml) were written by
somebody who had read only the clinic's help. make.py recorded their dumps.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from processes import run

from dtlib import cli
from dtlib.errors import BadInput
from dtlib.measure.clinic import evidence, verdict

RUNS = Path(__file__).resolve().parents[1] / "fixtures" / "clinic"
TRUTHS = yaml.safe_load((RUNS / "programs" / "truths.yaml").read_text())
HANG = [name for name, truth in TRUTHS.items() if truth["fault"]]
# what no file of dtlib's had said when the programs were new, in the first sentence
SAYS = {
    "evaluate_alone": "rank 0 waits for ranks 1 and 2 in broadcast",
    "two_axes": "rank 1 waits for rank 0 in all_reduce of 64 float32",
    "skips_bad_batch": "rank 1 has called all_reduce at skips_bad_batch.py:14 9 times, and",
    "best_rank": "rank 0 names rank 1, rank 1 names rank 0.",
    "pipeline_tags": "rank 1 sends tag 3, but rank 2 expects tag 4.",
    "floor_and_ceiling": "rank 1 waits in recv from rank 0 (floor_and_ceiling.py:29), but",
    "two_writers": "Rank 1 is through with it and is waiting in barrier (two_writers.py:16);",
    "groups_of_some": "ranks 1 and 3 make their group number 1 at groups_of_some.py:13.",
    "pipe_of_data": "Rank 2 did not join all_reduce of 1 float32",
}


def examined(*paths, **settings):
    return verdict.examine(evidence.gather(paths), **settings)


def place(name, text):
    """Where a program has this text, as a sentence names it."""
    lines = (RUNS / "programs" / f"{name}.py").read_text().splitlines()
    (number,) = [n for n, found in enumerate(lines, 1) if text in found]
    return f"{name}.py:{number}"


@pytest.mark.parametrize("name", HANG)
def test_it_says_what_is_true(name):
    """The first sentence has the cause, and the list of ranks where each of them stays."""
    truth = TRUTHS[name]
    report = examined(RUNS / name, patience=2)
    first = report.findings[0]
    assert first.alarm and SAYS[name] in first.sentence
    assert first.rank in truth["fault"] or first.rank is None or first.kind == "deadlock"
    for rank, wait in truth["waits"].items():
        assert place(name, wait["at"]) in report.ranks[rank]
        assert (wait["in"] or "is running") in report.ranks[rank]


def test_the_minority_of_a_deadlock_is_to_blame():
    assert examined(RUNS / "evaluate_alone").findings[0].rank == 0


def heads_changed(name, folder, change):
    """Copy a run's dumps, with what `change` makes of each stack's first line."""
    kept = shutil.copytree(RUNS / name, folder / "dumps")
    for path in kept.glob("stack_rank_*"):
        head, _, rest = path.read_text().partition("\n")
        path.write_text(f"# {json.dumps(change(json.loads(head[2:])))}\n{rest}")
    return kept


@pytest.mark.parametrize(
    ("made", "kind", "says"),
    [
        ({0: 2, 2: 2}, "mismatch",
         "ranks 0 and 2 make their group number 2 at groups_of_some.py:13,"
         " but ranks 1 and 3 make their group number 1 at groups_of_some.py:13. Look for"),
        ({}, "hang", "make their group number 1 at groups_of_some.py:13. Compare what each"),
        (dict.fromkeys(range(4)), "hang", "Count the groups that each makes."),
    ],
)  # fmt: skip
def test_the_network_is_not_blamed_for_groups(made, kind, says, tmp_path):
    """All ranks are in the same line, where they stay as often as in two."""

    def change(told):
        count = made.get(told["rank"], told["made"])
        return {**told, "made": count, "where": {**told["where"], "line": 13}}

    (found,) = examined(heads_changed("groups_of_some", tmp_path, change), patience=2).findings
    assert found.kind == kind and says in found.sentence
    assert "must make the same groups" in found.sentence and "network" not in found.sentence


def test_a_barrier_of_a_group_waits_for_nobody_else(tmp_path):
    """Ranks 1 and 2 wait for each other in a barrier of their own, and rank 0 waits for them."""
    kept = shutil.copytree(RUNS / "evaluate_alone", tmp_path / "dumps")
    for path in kept.glob("stack_rank_[12].txt"):
        head, _, rest = path.read_text().partition("\n")
        told = json.loads(head[2:])
        assert told["where"]["members"] == [0, 1, 2]
        told["where"]["members"] = [1, 2]
        path.write_text(f"# {json.dumps(told)}\n{rest}")
    found = examined(kept, patience=2).findings
    assert found[0].kind == "hang" and found[0].sentence.startswith("Ranks 1 and 2 ")


def test_ranks_that_have_all_returned_wait_for_nobody():
    """They destroyed their group first, so that their last dumps are older than their ends."""
    report = examined(RUNS / "slow_but_well")
    assert report.findings == ()
    assert set(report.ranks.values()) == {"has returned"}


@pytest.mark.parametrize(("busy", "alarm"), [(0.5, False), (0.0, True)])
def test_a_rank_that_computes_may_take_longer_than_one_that_sleeps(busy, alarm, tmp_path):
    """An evaluation on one rank, 100 s long, in a run whose longest pause was a second."""

    def later(told):
        return {**told, "time": told["time"] + 100, "flight": told["time"] + 100, "busy": busy}

    kept = heads_changed("slow", tmp_path, later)
    (found,) = examined(kept).findings
    assert (found.rank, found.alarm) == (1, alarm)
    assert ("rank 1 uses the CPU" in found.sentence) is not alarm


@pytest.mark.parametrize(("seconds", "alarm"), [(100, False), (400, True)])
def test_a_rank_whose_records_stop_is_not_known_to_hang(seconds, alarm, tmp_path):
    """As one whose recorder gets no turn while it loads a package, and which has no dump yet."""
    kept = shutil.copytree(RUNS / "slow", tmp_path / "dumps")
    (kept / "flight_rank_1").unlink()
    path = kept / "stack_rank_0.txt"
    head, _, rest = path.read_text().partition("\n")
    told = json.loads(head[2:])
    late = {**told, "time": told["time"] + seconds, "flight": told["time"] + seconds}
    path.write_text(f"# {json.dumps(late)}\n{rest}")
    report = examined(kept)
    (found,) = report.findings
    assert found.alarm is alarm
    assert ("too busy to write one" in found.sentence) is not alarm
    assert any(f"what rank 1 did in the last {seconds} s" in one for one in report.missing)


# --- the output of jobs -------------------------------------------------------------------------

ERROR = """\
Traceback (most recent call last):
  File "/home/student/train.py", line 31, in main
    loss = step(x)
torch.OutOfMemoryError: CUDA out of memory
"""
TOLD = "Rank 0 raised torch.OutOfMemoryError: CUDA out of memory (train.py:31)."


@pytest.mark.parametrize("prefix", ["[rank0]: ", "0: "])
@pytest.mark.parametrize(
    "name", ["slurm-77.out", "slurm-1234567.out", "train-1234567.out", "train.o77"]
)
def test_the_number_of_a_job_is_no_rank(name, prefix, tmp_path):
    text = "".join(prefix + line for line in ERROR.splitlines(True))
    (tmp_path / name).write_text("starting\n" + text)
    report = examined(tmp_path / name)
    assert [one.sentence for one in report.findings] == [TOLD]
    assert list(report.ranks) == [0] and report.missing == ()


def test_a_jobs_output_without_ranks_is_refused(tmp_path):
    (tmp_path / "slurm-77.out").write_text(ERROR)
    with pytest.raises(BadInput, match="no line of it says of which rank it is"):
        examined(tmp_path / "slurm-77.out")


def test_a_rank_that_the_run_did_not_have_is_refused(tmp_path):
    kept = shutil.copytree(RUNS / "slow", tmp_path / "dumps")
    (kept / "train-77.txt").write_text(ERROR)
    with pytest.raises(BadInput, match="the run had 2 ranks, but a file is of rank 77"):
        examined(kept)
    (tmp_path / "train-1234567.txt").write_text(ERROR)
    with pytest.raises(BadInput, match="rank 1234567, which no run has"):
        examined(tmp_path / "train-1234567.txt")


def test_ranks_that_left_nothing_are_one_line(tmp_path, capsys):
    (tmp_path / "rank_77.log").write_text(ERROR)
    assert cli.main(["clinic", str(tmp_path / "rank_77.log")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "  ranks 0 to 76 left nothing" in lines and len(lines) == 6


WATCHDOG = (
    "[rank{r}]:[E1130 10:02:11.123 ProcessGroupNCCL.cpp:684] [{who}] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum={n}, OpType={op}, NumelIn={size}, NumelOut={size},"
    " Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
)


def watchdog(folder, calls, who="Rank {r}"):
    lines = [
        WATCHDOG.format(r=r, who=who.format(r=r), n=n, op=op, size=size)
        for r, (n, op, size) in calls.items()
    ]
    (folder / "slurm-77.out").write_text("".join(lines))
    report = examined(folder / "slurm-77.out")
    (found,) = report.findings
    assert found.alarm
    return report, found


@pytest.mark.parametrize("who", ["Rank {r}", "PG ID 0 PG GUID 0(default_pg) Rank {r}"])
def test_nccls_watchdog_tells_rank_operation_number_and_size(who, tmp_path):
    usual = (812, "ALLREDUCE", 1048576)
    calls = {0: usual, 1: usual, 2: (811, "BROADCAST", 64), 3: usual}
    report, found = watchdog(tmp_path, calls, who)
    assert (found.kind, found.rank) == ("mismatch", 2)
    assert found.sentence == (
        "NCCL's watchdog ended collectives after 600 s: ranks 0, 1 and 3 in ALLREDUCE 812 of"
        " 1048576 elements, but rank 2 in BROADCAST 811 of 64 elements. Rank 2 did not get as far"
        " as the others."
    )
    assert report.ranks[2] == "has timed out in BROADCAST 811 of 64 elements"


def test_a_rank_without_a_line_of_the_watchdog_is_named(tmp_path):
    calls = dict.fromkeys((0, 2, 3), (7, "ALLREDUCE", 4))
    _, found = watchdog(tmp_path, calls)
    assert (found.kind, found.rank) == ("hang", 1)
    assert "No line says where rank 1 was" in found.sentence


def test_calls_of_one_number_that_differ_are_named(tmp_path):
    calls = {0: (7, "ALLREDUCE", 4), 1: (7, "ALLREDUCE", 8), 2: (7, "ALLREDUCE", 4)}
    _, found = watchdog(tmp_path, calls)
    assert (found.kind, found.rank) == ("mismatch", 1)


def test_an_error_that_is_listed_is_an_alarm(tmp_path, capsys):
    """Rank 1 aborted before its first dump, and the others saw only their connection close."""
    for rank in (0, 2):
        text = ERROR.replace("torch.OutOfMemoryError: CUDA out of memory",
                             "RuntimeError: Connection closed by peer [127.0.0.1]:77")  # fmt: skip
        (tmp_path / f"rank_{rank}.log").write_text(text)
    assert cli.main(["clinic", str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith(
        "Ranks 0 and 2 raised RuntimeError: Connection closed by peer [127.0.0.1]:77 (train.py:31),"
        " which follows from what another rank did: look at rank 1, whose end no file shows."
    )


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_a_dump_that_is_none_is_refused(content, tmp_path):
    (tmp_path / "flight_rank_0").write_bytes(content)
    (tmp_path / "rank_1.log").write_text("step 0: checksum 1\n")
    with pytest.raises(BadInput, match="no whole flight-recorder dump"):
        examined(tmp_path)


def test_a_signal_in_the_jobs_output_is_not_raised(tmp_path):
    """The job's output is read before the stack that the rank left while it ran."""
    kept = shutil.copytree(RUNS / "slow", tmp_path / "dumps")
    summary = "  rank      : 1 (local_rank: 1)\n  exitcode  : -11 (pid: 7)\n"
    (kept / "a_job.out").write_text(summary)
    assert "was killed by SIGSEGV" in examined(kept).ranks[1]
    assert "raised" not in examined(kept).ranks[1]


CRASHED = """\
Fatal Python error: Aborted

Thread 0x00007f30eb3556c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait

Thread 0x00007f30ec66bb80 (most recent call first):
  File "/opt/site-packages/torch/distributed/distributed_c10d.py", line 3913 in all_reduce
  File "slow.py", line 7 in evaluate
"""


def test_a_rank_that_gloo_aborted_is_named(tmp_path):
    """What the recorder saw last, seconds before, is another line."""
    kept = shutil.copytree(RUNS / "slow", tmp_path / "dumps")
    (kept / "crash_rank_0.txt").write_text("")
    (kept / "crash_rank_1.txt").write_text(CRASHED)
    report = examined(kept)
    assert (report.findings[0].kind, report.findings[0].rank) == ("error", 1)
    said = "was killed by SIGABRT in all_reduce (slow.py:7)"
    assert report.findings[0].sentence == f"Rank 1 {said}." and report.ranks[1] == said
    assert report.missing == ("what rank 0 did after the last record and before rank 1 died",)


def test_an_abort_that_torchrun_reports_is_not_a_stack_that_somebody_asked_for(tmp_path):
    kept = shutil.copytree(RUNS / "slow", tmp_path / "dumps")
    summary = "  rank      : 1 (local_rank: 1)\n  exitcode  : -6 (pid: 7)\n"
    (kept / "job.out").write_text(summary)
    assert "was killed by SIGABRT" in examined(kept).findings[0].sentence


def test_files_of_ranks_that_have_not_crashed_say_nothing(tmp_path):
    (tmp_path / "crash_rank_0.txt").write_text("")
    with pytest.raises(BadInput, match="nothing about any rank"):
        examined(tmp_path)


def test_a_rank_in_pythons_own_modules_is_placed_in_the_program(tmp_path):
    """As py-spy writes it of a rank that reads from a server: without the folders above ssl.py."""
    for rank, at in enumerate(("recv_into (ssl.py:1166)", "begin (http/client.py:325)")):
        frames = [at, "read (data.py:18)", "<module> (train.py:36)"]
        text = "\n    ".join(['Thread 7 (idle): "MainThread"', *frames])
        (tmp_path / f"stack_rank_{rank}.txt").write_text(text + "\n")
    assert set(examined(tmp_path).ranks.values()) == {"is in read (data.py:18)"}


# --- live ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sources_and_tags_are_recorded_under_torchrun(tmp_path):
    """They are read from torch's own functions, whose arguments another version may rename."""
    started = []
    for name in ("best_rank", "pipeline_tags"):
        line = [
            "torchrun",
            "--nproc-per-node",
            str(TRUTHS[name]["ranks"]),
            "--rdzv-backend",
            "c10d",
        ]
        line = [sys.executable, "-m", "torch.distributed.run", *line[1:]]
        line += ["--rdzv-endpoint", "localhost:0", "-m", "dtlib", "clinic", "record", "--into"]
        line += [str(tmp_path / name), "--every", "0.5", str(RUNS / "programs" / f"{name}.py")]
        started.append(subprocess.Popen(line, stderr=subprocess.DEVNULL, env=dict(os.environ)))
    try:
        for name in ("best_rank", "pipeline_tags"):
            said, end = "", time.monotonic() + 120
            while SAYS[name] not in said and time.monotonic() < end:
                time.sleep(1)
                said = run(sys.executable, "-m", "dtlib", "clinic", tmp_path / name,
                           "--patience", "0").stdout  # fmt: skip
            assert SAYS[name] in said
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait(60)
