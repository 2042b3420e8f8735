"""`dtlib clinic` on what several nodes left: torchrun names a node's logs after the local rank.

The lines are those of two torchruns with `--nnodes 2 --nproc-per-node 2 --redirects 3`, shortened.
"""

import pytest

from dtlib.errors import BadInput
from dtlib.measure.clinic import evidence, verdict

GONE = "RuntimeError: Connection closed by peer [127.0.0.1]:12180"
RAISED = "ValueError: batch 2 has a label of 1001"
RANK_2 = "Rank 2 raised ValueError: batch 2 has a label of 1001 (train.py:7)."
SUMMARY = """\
[default0]:step 0: checksum 7
Root Cause (first observed failure):
[0]:
  rank      : 2 (local_rank: 0)
  exitcode  : 1 (pid: 2209)
"""


def traceback(rank, line, error):
    lines = ["Traceback (most recent call last):"]
    lines += [f'  File "/tmp/tn/train.py", line {line}, in <module>', "    run()", error]
    return "".join(f"[rank{rank}]: {text}\n" for text in lines)


def node(folder, run, logs, attempt=0):
    """Write a node's logs, stdout and stderr by local rank, as torchrun does."""
    for local, (out, err) in enumerate(logs):
        inside = folder / run / f"attempt_{attempt}" / str(local)
        inside.mkdir(parents=True)
        (inside / "stdout.log").write_text(out)
        (inside / "stderr.log").write_text(err)


def checksums(*values):
    return "".join(f"step {step}: checksum {value}\n" for step, value in enumerate(values))


def examined(*paths, ranks=None):
    return verdict.examine(evidence.gather(paths, ranks))


def healthy(folder, first, second):
    node(folder / first, "none_2eyx8_z3", [(checksums(1.5, 1.5), "")] * 2)
    node(folder / second, "none_thh0ty7q", [(checksums(1.5, 1.5), ""), (checksums(1.5, 2.5), "")])


def test_torchs_own_lines_name_the_global_ranks_of_a_node(tmp_path):
    """In any folders: of one log with [rank2]: follows which ranks the whole node has."""
    node(tmp_path, "none_x", [(checksums(1, 1), traceback(rank, 9, GONE)) for rank in (0, 1)])
    node(tmp_path, "none_a", [(checksums(1, 1), traceback(2, 7, RAISED)), (checksums(1, 2), "")])
    report = examined(tmp_path)
    assert [one.sentence for one in report.findings] == [
        RANK_2,
        "The checksum of rank 3 differs first in step 1: rank 0 has 1, rank 1 has 1, rank 2 has 1,"
        " rank 3 has 2.",
    ]
    assert report.missing == ()
    assert examined(tmp_path / "none_a").missing == ("no log of ranks 0 and 1",)


@pytest.mark.parametrize("names", [("node0", "node1"), ("my_node-0", "my_node-1"), ("0", "1")])
def test_the_folder_of_a_node_tells_its_number(names, tmp_path):
    healthy(tmp_path / "logs", *names)
    (found,) = examined(tmp_path).findings
    assert (found.kind, found.rank) == ("difference", 3)


def test_a_lost_node_leaves_a_gap_if_the_number_of_ranks_is_given(tmp_path):
    healthy(tmp_path, "node0", "node2")
    with pytest.raises(BadInput, match="nothing in them names the global rank"):
        examined(tmp_path)
    report = examined(tmp_path, ranks=6)
    assert report.missing == ("no log of ranks 2 and 3",)
    assert [one.rank for one in report.findings] == [5]


@pytest.mark.parametrize("names", [("nid0042", "nid0043"), ("node17", "node18"), ("", "")])
def test_two_nodes_are_not_taken_for_one(names, tmp_path):
    healthy(tmp_path, *names)
    with pytest.raises(BadInput, match=r"put each node's logs into a folder .* node1"):
        examined(tmp_path)


def test_two_runs_of_the_same_ranks_are_refused(tmp_path):
    for run in ("none_x", "none_y"):
        node(tmp_path, run, [("", traceback(rank, 9, GONE)) for rank in (0, 1)])
    with pytest.raises(BadInput, match=r"none_x.* and .*none_y.*keep one run"):
        examined(tmp_path)


def test_of_a_restarted_job_the_last_attempt_is_read(tmp_path):
    node(tmp_path, "none_x", [("", traceback(0, 7, RAISED)), ("", "")])
    node(tmp_path, "none_x", [(checksums(1), ""), (checksums(1), "")], attempt=1)
    report = examined(tmp_path)
    assert report.findings == ()
    assert [*report.missing] == [f"what {tmp_path}/none_x/attempt_0 holds of an earlier attempt"]


def test_files_that_a_program_named_after_the_local_rank(tmp_path):
    """The same name in two folders: torch's lines tell whose it is, and without them it's asked."""
    for name, rank in (("node0", 0), ("node1", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rank_0.log").write_text(traceback(rank, 7, RAISED) if rank else "")
    assert examined(tmp_path).findings[0].sentence == RANK_2
    (tmp_path / "node1" / "rank_0.log").write_text(checksums(1))
    with pytest.raises(BadInput, match=r"global rank \(RANK\), not the local one"):
        examined(tmp_path)


def test_a_jobs_output_by_local_rank_is_left_out_and_its_summary_read(tmp_path):
    """`--tee` writes [default0]: for local rank 0 of every node."""
    (tmp_path / "slurm-4711_1.out").write_text(SUMMARY)
    report = examined(tmp_path)
    assert [one.sentence for one in report.findings] == ["Rank 2 left with exit code 1."]
    assert "that begin with a local rank" in report.missing[-1]


def test_the_number_of_a_job_is_not_taken_for_a_rank(tmp_path):
    text = traceback(2, 7, RAISED) + traceback(0, 9, GONE)
    (tmp_path / "slurm-4711_1.out").write_text(text)
    assert [one.sentence for one in examined(tmp_path).findings] == [RANK_2]
