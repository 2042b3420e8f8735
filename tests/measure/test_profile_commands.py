"""Command lines of NVIDIA's profilers as lists of words, and `dtlib profile` with made programs."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from profiling_exports import one_step

from dtlib.cli import main, parse_train
from dtlib.config import RunConfig
from dtlib.errors import BadInput
from dtlib.measure.profiling import commands

TRAIN = ["dtlib", "train", "text"]
MARKED = [*TRAIN, "--nvtx", "--nvtx-first", "3", "--nvtx-last", "4"]


def test_nsys_has_a_report_for_each_rank():
    assert commands.nsys(TRAIN, out="run/prof", first=3, last=4, variable="SLURM_PROCID") == [
        "nsys", "profile", "--trace=cuda,nvtx,osrt,cudnn,cublas", "--sample=none",
        "--cpuctxsw=none", "--capture-range=cudaProfilerApi", "--capture-range-end=stop",
        "--cuda-graph-trace=node", "--export=sqlite", "--force-overwrite=true",
        "--output=run/prof.rank%q{SLURM_PROCID}", *MARKED,
    ]  # fmt: skip


def test_ranks_that_the_run_starts_itself_are_programs_of_their_own():
    # a fork that runs no program is not followed
    for build in (commands.nsys, commands.ncu):
        line = build(TRAIN, out="50%")
        assert line[:2] == ["env", "DTLIB_START=spawn"]
        assert "--output=50%%" in line or "--export=50%%" in line


def test_ncu_measures_the_kernels_it_is_told_from_the_captured_step_on():
    line = commands.ncu(
        TRAIN, first=3, last=4, variable="RANK", kernels="gemm", skip=2, count=3,
        sections="roofline",
    )  # fmt: skip
    metrics = line.pop(7)
    assert line == ["ncu", "--target-processes=all", "--profile-from-start=off",
                    "--kernel-name=regex:gemm", "--launch-skip=2", "--launch-count=3",
                    "--set=roofline", "--force-overwrite", "--export=ncu.rank%q{RANK}",
                    *MARKED]  # fmt: skip
    wanted = metrics.removeprefix("--metrics=").split(",")
    assert "gpu__time_duration.sum" in wanted and len(wanted) == len(set(wanted))
    assert commands.ncu_csv("ncu.rank0.ncu-rep") == [
        "ncu", "--import=ncu.rank0.ncu-rep", "--csv", "--page=raw", "--print-units=base",
    ]  # fmt: skip


def test_the_added_flags_are_settings_of_a_run():
    assert parse_train(MARKED[2:])[0] == RunConfig("text", nvtx=True, nvtx_first=3, nvtx_last=4)


def test_no_collective_is_among_the_kernels_that_ncu_runs_again_and_again():
    import re

    names = ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "ncclKernel_Broadcast_RING_LL_Sum_int8_t")
    assert not any(re.search(commands.KERNELS, name) for name in names)
    assert re.search(commands.KERNELS, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n")


def test_what_leaves_nothing_to_measure_is_refused():
    with pytest.raises(BadInput, match="first is 4 and last is 3"):
        commands.nsys(TRAIN, first=4, last=3)
    with pytest.raises(BadInput, match="first is 0"):
        commands.ncu(TRAIN, first=0)
    with pytest.raises(BadInput, match="unknown set 'all'"):
        commands.ncu(TRAIN, sections="all")
    with pytest.raises(BadInput, match="count 0"):
        commands.ncu(TRAIN, count=0)


# --- dtlib profile ------------------------------------------------------------------------------

FAKE = """#!{python}
import os, re, shutil, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    print(os.path.basename(sys.argv[0]), *words, file=log)
if "--csv" in words:
    print("the table")
for word in words:
    if word.startswith("--output="):
        name = re.sub(r"%q{{(\\w+)}}", lambda m: os.environ[m[1]], word.partition("=")[2])
        shutil.copy({export!r}, name + ".sqlite")
sys.exit(int(os.environ.get("FAKE_EXIT", 0)))
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Programs named nsys and ncu that note their words; nsys leaves an export where it is told."""
    export = one_step(tmp_path / "made.sqlite").done()
    log = tmp_path / "log"
    for name in ("nsys", "ncu"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        text = FAKE.format(python=sys.executable, log=str(log), export=str(export))
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return log


def srun(monkeypatch, rank: int) -> None:
    """What srun tells one of two tasks of a node."""
    told = {"SLURM_PROCID": rank, "SLURM_LOCALID": rank, "SLURM_STEP_NUM_TASKS": 2,
            "SLURM_NTASKS": 2, "SLURM_STEP_NUM_NODES": 1, "SLURM_NODEID": 0,
            "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_JOB_ID": 7,
            "SLURM_JOB_NODELIST": "localhost"}  # fmt: skip
    for name, value in told.items():
        monkeypatch.setenv(name, str(value))


def test_every_task_of_srun_runs_its_own_profiler_and_says_where_its_report_is(
    tools, monkeypatch, capfd
):
    srun(monkeypatch, rank=1)
    words = ["profile", "nsys", "--out", "p/run", "--first", "2", "--last", "3", "--"]
    assert main([*words, "train", "text", "--steps", "4"]) == 0
    assert capfd.readouterr().out == "Read it with `dtlib profile read p/run.rank1.sqlite`.\n"
    (line,) = tools.read_text().splitlines()
    assert "--output=p/run.rank%q{SLURM_PROCID}" in line
    assert line.endswith("-m dtlib train text --steps 4 --nvtx --nvtx-first 2 --nvtx-last 3")
    assert main(["profile", "read", "p/run.rank1.sqlite"]) == 0
    assert "50.0 %" in capfd.readouterr().out


def test_ncu_is_asked_for_its_table_afterwards(tools, capfd):
    assert main(["profile", "ncu", "--", "train", "text", "--out", "run"]) == 0
    assert capfd.readouterr().out == "Read it with `dtlib profile read run/ncu.csv`.\n"
    assert Path("run/ncu.csv").read_text() == "the table\n"
    first, second = tools.read_text().splitlines()
    assert "--export=run/ncu " in first and "--nvtx-first 5 --nvtx-last 5" in first
    assert second == "ncu --import=run/ncu.ncu-rep --csv --page=raw --print-units=base"


def test_a_run_that_fails_under_the_profiler_fails(tools, monkeypatch, capfd):
    monkeypatch.setenv("FAKE_EXIT", "75")
    assert main(["profile", "ncu", "--", "train", "text"]) == 75
    assert capfd.readouterr().out == "" and len(tools.read_text().splitlines()) == 1


def test_ranks_that_are_not_wanted_train_without_a_profiler(tools, monkeypatch):
    from dtlib.cli import training

    srun(monkeypatch, rank=1)
    plain = []
    monkeypatch.setattr(training, "train", lambda words: plain.append(words) or 0)
    assert main(["profile", "nsys", "--only", "0", "--", "train", "text"]) == 0
    # with the same flags as the others, since all ranks have one configuration
    assert plain == [["text", "--nvtx", "--nvtx-first", "5", "--nvtx-last", "7"]]
    assert not tools.exists()


def test_the_line_is_printed_where_there_is_no_profiler(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["profile", "nsys", "--print", "--", "train", "text"]) == 0
    words = shlex.split(capsys.readouterr().out)
    assert words[2:4] == ["nsys", "profile"] and words[-7:-5] == ["train", "text"]
    assert main(["profile", "nsys", "--", "train", "text"]) == 69
    assert "there is no nsys here" in capsys.readouterr().err


@pytest.mark.parametrize("dashes", [["--"], []])
def test_the_printed_line_works_as_it_is(dashes, tools, capsys):
    words = ["train", "text", "--out", "a run/x"]
    assert main(["profile", "nsys", "--print", *dashes, *words]) == 0
    subprocess.run(capsys.readouterr().out, shell=True, check=True)
    assert Path("a run/x/nsys.sqlite").exists()  # in a folder that nsys does not create
    (line,) = tools.read_text().splitlines()
    parse_train(line.partition(" -m dtlib train ")[2].replace("a run", "a-run").split())


@pytest.mark.parametrize(("words", "said"), [
    (["nsys", "--", "train", "text", "--device", "cpu"], "leave --device cpu out"),
    (["nsys"], "say what to profile: `dtlib profile nsys -- train"),
    (["nsys", "--", "study"], "say what to profile"),
    (["nsys", "--", "train", "text", "--stps", "3"], "Did you mean '--steps'?"),
    (["nsis"], "Did you mean 'nsys'?"),
    (["ncu", "--only", "x", "--", "train", "text"], "only is 'x'; it takes ranks"),
    (["ncu", "--count", "0", "--", "train", "text"], "'0'; it must be a whole number of at"),
    (["ncu", "--skip", "-1", "--", "train", "text"], "'-1'; it must be a whole number of at"),
    (["ncu", "--kernels", "(", "--", "train", "text"], "kernels is '(', not a regular expression"),
    (["ncu", "--kernels", "", "--", "train", "text"], "kernels is empty"),
    (["nsys", "--only", "3", "--", "train", "text"], "only 3 selects ranks of torchrun"),
    (["nsys", "--first", "3", "--", "train", "text", "--steps", "2"], "the run has 2 steps"),
    (["nsys", "--", "train", "text", "--profile"], "leave --profile out"),
    (["read", "nowhere.ncu-rep"], "there is no file nowhere.ncu-rep"),
    (["read", "nowhere.sqlite"], "there is no file nowhere.sqlite"),
    (["read", ".", "--device", "h100"], "leave --device out"),
    (["read", "nowhere", "--top", "0"], "'0'; it must be a whole number of at"),
])  # fmt: skip
def test_what_is_wrong_is_said_before_anything_starts(words, said, tools, capsys):
    assert main(["profile", *words]) == 2
    assert said in capsys.readouterr().err
    assert not tools.exists()


@pytest.mark.parametrize(("name", "said"), [
    ("a run.nsys-rep", "first run `nsys export --type sqlite 'a run.nsys-rep'`"),
    ("a run.ncu-rep", "--page=raw --print-units=base > 'a run.csv'`"),
])  # fmt: skip
def test_a_report_for_the_viewer_is_told_with_the_line_that_exports_it(
    name, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).touch()
    assert main(["profile", "read", name]) == 2
    assert said in capsys.readouterr().err
