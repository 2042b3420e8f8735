"""`dtlib clinic`: the right rank, collective and line, from files that real runs left.

The dumps lie in tests/fixtures/clinic, whose make.py recorded them: programs under torchrun on two
to four ranks. The six of LATER were written after the tool was finished.
"""

import json
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import run

from dtlib import cli
from dtlib.errors import BadInput
from dtlib.measure.clinic import evidence, verdict

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "tests" / "fixtures" / "clinic"
FOUR = "all_reduce of 4 float32"


def examined(*paths, ranks=None, patience=None):
    return verdict.examine(evidence.gather(paths, ranks), patience)


def line(name, text):
    """The one line of a program that is this text, as a sentence names it."""
    lines = (RUNS / "programs" / f"{name}.py").read_text().splitlines()
    (number,) = [n for n, found in enumerate(lines, 1) if text in found]
    return f"{name}.py:{number}"


# what is found, the rank to look at, what the others wait in and where, and the rank's own line
FIRST = {
    "order": ("deadlock", 1, "all_reduce of 4 float32", 17, 14),
    "mismatch": ("mismatch", 2, "all_reduce of 4 float32", 13, 11),
    "uneven": ("mismatch", 1, "all_reduce of 12 float32", 12, 14),
    "left_early": ("hang", 1, "all_reduce of 12 float32", 12, 12),
    "branch": ("mismatch", 0, "all_reduce of 4 float32", 11, 13),
    "loop": ("hang", 2, "all_reduce of 4 float32", 9, 11),
    "messages": ("deadlock", 1, "recv of 4 float32", 9, 9),
    "crash": ("error", 1, "", 0, 11),
}
LATER = {
    "evaluation": ("mismatch", 3, "all_reduce of 1 float32", 11, 9),
    "unused": ("error", 0, "", 0, 19),
    "pairs": ("hang", 3, "all_reduce of 16 float32", 16, 15),
    "ring": ("deadlock", 2, "recv of 32 float32", 10, 10),
    "skipped_step": ("mismatch", 1, "all_reduce of 8 float32", 12, 14),
    "locked": ("hang", 0, "barrier", 19, 12),
}


@pytest.mark.parametrize("name", [*FIRST, *LATER])
def test_it_names_rank_collective_and_line(name):
    kind, rank, call, waits_at, culprit_at = {**FIRST, **LATER}[name]
    found = examined(RUNS / name, patience=2).findings[0]
    assert (found.kind, found.rank) == (kind, rank), found.sentence
    assert found.collective == (f"{call} ({name}.py:{waits_at})" if call else "")
    assert found.line == (f"{name}.py:{culprit_at}" if culprit_at else "")
    assert found.alarm


def test_a_call_that_was_left_out_is_named():
    words = "Rank 3 goes on as if it had left out all_reduce of 1 float32 (evaluation.py:11)."
    assert examined(RUNS / "evaluation").findings[0].sentence.endswith(words)


def test_a_rank_that_has_returned_cannot_have_joined_later(tmp_path):
    """Its dump is older than that of the rank that failed, whose call gloo may call retired."""
    kept = shutil.copytree(RUNS / "left_early", tmp_path / "dumps")
    dump = pickle.loads((kept / "flight_rank_0").read_bytes())
    for entry in dump["entries"]:
        entry["retired"] = True
    (kept / "flight_rank_0").write_bytes(pickle.dumps(dump))
    stack = kept / "stack_rank_1.txt"
    head, _, rest = stack.read_text().partition("\n")
    told = json.loads(head[2:])
    stack.write_text(f"# {json.dumps({**told, 'time': told['time'] - 100})}\n{rest}")
    assert examined(kept).findings[0].rank == 1


def test_a_healthy_slow_run_gives_no_alarm():
    """Rank 1 is late in every step, so that rank 0 waits for it whenever one looks."""
    found = examined(RUNS / "slow").findings
    assert [one.kind for one in found] in ([], ["slow"])
    assert all(one.rank == 1 for one in found)


@pytest.mark.parametrize("name", ["loop", "mismatch", "pairs"])
def test_a_missing_dump_is_named(name, tmp_path):
    """Of the rank that everybody waits for nothing is left."""
    rank = {**FIRST, **LATER}[name][1]
    kept = shutil.copytree(RUNS / name, tmp_path / "dumps")
    for path in kept.glob(f"*_rank_{rank}*"):
        path.unlink()
    report = examined(kept, patience=2)
    assert report.findings[0].rank == rank
    assert f"rank {rank} left no dump" in report.findings[0].sentence
    assert f"no flight-recorder dump of rank {rank}" in report.missing
    assert f"no stack of rank {rank}" in report.missing
    assert not any(one.alarm for one in examined(kept, patience=1000).findings)


def test_dumps_alone_name_the_collective_and_the_last_line_of_the_absent_rank(tmp_path):
    """As torch writes them on NCCL: no stack says where the rank is now."""
    for path in (RUNS / "loop").glob("flight_*"):
        shutil.copy(path, tmp_path)
    found = examined(tmp_path, patience=0)
    assert (found.findings[0].rank, found.findings[0].line) == (2, "loop.py:9")
    assert found.missing == ()
    assert "the line that it is at now is unknown" in found.ranks[2]


def test_json_dumps_say_what_they_lack(tmp_path):
    for path in (RUNS / "mismatch").glob("flight_*"):
        dump = pickle.loads(path.read_bytes())
        for entry in dump["entries"]:
            del entry["frames"]
        (tmp_path / f"{path.name}.json").write_text(json.dumps(dump))
    report = examined(tmp_path)
    assert (report.findings[0].kind, report.findings[0].rank) == ("mismatch", 2)
    assert report.findings[0].collective == FOUR
    assert "JSON" in report.missing[0]


def test_stacks_by_py_spy_are_read():
    """By `py-spy dump` while messages.py hung under plain torchrun: no peer is in it, no time."""
    report = examined(RUNS / "spied")
    assert report.ranks == dict.fromkeys((0, 1), "is waiting in recv (messages.py:9)")
    assert [one.kind for one in report.findings] == ["slow"]
    (found,) = examined(RUNS / "spied", patience=0).findings
    assert (found.kind, found.line) == ("deadlock", "messages.py:9")
    assert found.sentence.startswith("Every rank waits for a message, and none sends one: rank 0")


def test_stacks_alone_are_a_hang_for_who_knows_that_it_hangs(tmp_path):
    """Rank 1 of loop.py is late or lost: stacks don't tell which, and `--patience 0` does."""
    for rank, at in enumerate(("all_reduce (torch/distributed/distributed_c10d.py:9)", "")):
        frames = [at] * bool(at) + [f"<module> (loop.py:{5 + rank})"]
        text = "\n    ".join(['Thread 7 (idle): "MainThread"', *frames])
        (tmp_path / f"stack_rank_{rank}.txt").write_text(text + "\n")
    (found,) = examined(tmp_path).findings
    assert (found.kind, found.rank) == ("slow", 1)
    (found,) = examined(tmp_path, patience=0).findings
    assert (found.kind, found.rank, found.line) == ("hang", 1, "loop.py:6")


def test_a_rank_that_was_asked_for_its_stack_is_not_to_blame(tmp_path):
    """`kill -ABRT` under PYTHONFAULTHANDLER=1 writes the stack, and ends the rank."""
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "stderr.log").write_text(
        "Fatal Python error: Aborted\n\nCurrent thread 0x00007f0fbe8aab80 (most recent call first)"
        ':\n  File "/usr/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line'
        ' 3433 in recv\n  File "/tmp/clinic/messages.py", line 9 in <module>\n\n'
        "Extension modules: torch._C (total: 21)\n"
    )
    summary = "  rank      : 0 (local_rank: 0)\n  exitcode  : -6 (pid: 7)  (SIGABRT)\n"
    (tmp_path / "job.out").write_text(summary)
    report = examined(tmp_path)
    assert not any(one.alarm for one in report.findings)
    assert report.ranks == {0: "is waiting in recv (messages.py:9)"}


# --- logs and checksums -------------------------------------------------------------------------

OUTPUT = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/student/train.py", line 30, in <module>
[rank0]:     dist.all_reduce(x)
[rank0]:   File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", \
line 3906, in all_reduce
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection \
closed by peer [127.0.0.1]:5542
[rank2]: Traceback (most recent call last):
[rank2]:   File "/home/student/train.py", line 12, in <module>
[rank2]:     labels = read(batch)
[rank2]:   File "/home/student/data.py", line 7, in read
[rank2]:     raise ValueError("batch 7 has a label of 1001")
[rank2]: ValueError: batch 7 has a label of 1001
"""


def test_the_first_error_of_a_job_is_told_from_its_consequences(tmp_path):
    (tmp_path / "job.out").write_text(OUTPUT)
    report = examined(tmp_path / "job.out")
    assert [one.sentence for one in report.findings] == [
        "Rank 2 raised ValueError: batch 7 has a label of 1001 (data.py:7)."
    ]
    assert report.missing == ("no log of rank 1",)


def test_torchruns_folder_of_logs_and_its_summary(tmp_path):
    folder = tmp_path / "none_x" / "attempt_0"
    for rank in (0, 1):
        (folder / str(rank)).mkdir(parents=True)
        (folder / str(rank) / "stderr.log").write_text("starting\n")
    summary = "  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 7)\n"
    (tmp_path / "job.out").write_text(summary)
    (found,) = examined(tmp_path).findings
    assert found.sentence == "Rank 1 was killed by SIGKILL."


@pytest.mark.parametrize("form", ["step {s}: checksum {c}", '{{"step": {s}, "checksum": {c}}}'])
def test_checksums_say_whose_differ_and_from_which_step_on(form, tmp_path):
    for rank in range(4):
        values = [1.5, 2.5, 3.5 + (rank == 2), 4.5 + rank]
        rows = [form.format(s=step, c=value) for step, value in enumerate(values)]
        (tmp_path / f"rank_{rank}.log").write_text("\n".join(rows))
    (found,) = examined(tmp_path).findings
    assert (found.kind, found.rank) == ("difference", 2)
    assert found.sentence == (
        "The checksum of rank 2 differs first in step 2: rank 0 has 3.5, rank 1 has 3.5,"
        " rank 2 has 4.5, rank 3 has 3.5."
    )


def test_of_two_ranks_neither_is_blamed(tmp_path):
    for rank in range(2):
        (tmp_path / f"rank_{rank}.log").write_text(f"step 0: checksum {rank}\n")
    (found,) = examined(tmp_path).findings
    assert (found.rank, found.sentence) == (
        None, "The checksum of ranks 0 and 1 differs in step 0, the first recorded: rank 0 has 0,"
        " rank 1 has 1."
    )  # fmt: skip


# --- bad input ----------------------------------------------------------------------------------


class Hostile:
    """A pickle that would run a command when it is read."""

    def __reduce__(self):
        return print, ("this ran",)


def bad_files(folder):
    whole = (RUNS / "loop" / "flight_rank_0").read_bytes()
    (folder / "flight_rank_0").write_bytes(whole[: len(whole) // 2])
    (folder / "flight_rank_1").write_bytes(pickle.dumps(Hostile()))
    (folder / "flight_rank_2").write_bytes(pickle.dumps({"entries": [{"profiling_name": 3}]}))
    (folder / "flight").write_bytes(whole)
    (folder / "notes.txt").write_text("buy milk\n")
    (folder / "picture.png").write_bytes(b"\x89PNG\0\0")
    (folder / "stack_rank_3.txt").write_text('# {"rank": 3}\n')
    (folder / "empty").mkdir()
    (folder / "twice").mkdir()
    for name in ("flight_rank_0", "old_flight_rank_0"):
        (folder / "twice" / name).write_bytes(whole)
    return folder


@pytest.mark.parametrize(("words", "says"), [
    (["flight_rank_0"], "is no whole flight-recorder dump"),
    (["flight_rank_1"], "it would run builtins.print"),
    (["flight_rank_2"], "leave it out, and its rank counts as missing"),
    (["flight"], "has no rank in its name"),
    (["notes.txt"], "holds no flight record"),
    (["picture.png"], "holds no flight record"),
    (["stack_rank_3.txt"], "begins with a damaged line"),
    (["empty"], "is empty"),
    (["twice"], "are both a dump of rank 0"),
    (["nothing"], "there is no file nothing"),
    (["--ranks", "0", "twice"], "--ranks is '0'"),
    (["--patience", "soon", "twice"], "'soon' is no number of seconds"),
    (["--json"], "give files or folders"),
    (["record", "nothing.py"], "neither torchrun nor srun"),
])  # fmt: skip
def test_bad_input_is_refused_in_one_sentence(words, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(bad_files(tmp_path))
    assert cli.main(["clinic", *words]) == 2
    out, err = capsys.readouterr()
    assert says in err and len(err.strip().splitlines()) == 1
    assert out == ""


def test_more_ranks_than_were_said():
    with pytest.raises(BadInput, match="ranks is 2, but a file is of rank 2"):
        examined(RUNS / "loop", ranks=2)


# --- as a user calls it -------------------------------------------------------------------------


def test_the_command_exits_with_1_after_an_alarm(capsys):
    assert cli.main(["clinic", str(RUNS / "order")]) == 1
    assert capsys.readouterr().out.startswith("Deadlock: rank 0 waits for rank 1 in all_reduce")
    assert cli.main(["clinic", str(RUNS / "order"), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["alarm"] and found["findings"][0]["line"] == "order.py:14"


@pytest.mark.slow
def test_a_hanging_program_is_recorded_under_torchrun(tmp_path):
    """Nothing of it is dtlib's but the words in front of the script, which keeps its arguments."""
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, time\nimport torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\nif dist.get_rank() == int(sys.argv[1]):\n"
        "    time.sleep(3600)\ndist.all_reduce(torch.ones(4))\n"
    )
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    line += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "dtlib", "clinic"]
    line += ["record", "--every", "0.2", str(script), "1"]
    started = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            time.sleep(0.2)
            if len(list((tmp_path / "dumps").glob("flight_*"))) == 2:
                break
        time.sleep(2)
        done = run(
            sys.executable, "-m", "dtlib", "clinic", "dumps", "--patience", "0", cwd=tmp_path
        )
    finally:
        started.terminate()
        started.wait(60)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith(
        "Rank 1 did not join all_reduce of 4 float32 (train.py:6): rank 0 waits there"
    )
    assert "`time.sleep(3600)` (train.py:5)" in done.stdout
