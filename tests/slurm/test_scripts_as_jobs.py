"""The scripts of `slurm/` as jobs on a real Slurm of two nodes."""

import csv
import json
import sys
from pathlib import Path

import pytest
from mini_cluster import PROJECT, Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SMALL = ("--global-batch=4", "--max-length=8", "--num-samples=16")
TINY = ("--model=nano", "--data=grammar", "--steps=2", *SMALL)


def test_each_strategy_has_its_launcher(slurm: Slurm) -> None:
    """torchrun once a node; for Lightning an srun task a rank; one process for one rank."""
    script = "gpt2_strategy.sbatch"
    jobs = {name: slurm.script(script, name, *TINY) for name in ("ddp", "lightning", "single")}
    refused = slurm.script(script, "ddp", "--accelerator=tpu", *TINY)
    for name, number in jobs.items():
        assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
        run = slurm.made(number) / "run"
        config = json.loads((run / "config.json").read_text())
        hosts = ["n1"] if name == "single" else ["n1", "n2"]
        assert (config["strategy"], config["world_size"]) == (name, len(hosts))
        for rank, host in enumerate(hosts):
            assert (
                f" on {host}, rank {rank} of {len(hosts)}" in (run / f"rank{rank}.log").read_text()
            )
    assert slurm.waited(refused) == "FAILED 69:0"
    assert "dtlib: a TPU needs a TPU machine with torch_xla" in slurm.log(refused)


def test_a_nodes_number_is_expanded_in_its_task(slurm: Slurm) -> None:
    """In the batch script, where the launch begins, `SLURM_NODEID` is 0."""
    launch = f"bash {PROJECT}/slurm/launch_training.sh --print --devices=2 text --steps=3"
    number = slurm.sbatch(
        "--nodes=2", "--output=launch.log", f"--wrap=echo $SLURM_NODEID; {launch}",
        DTLIB_PYTHON=sys.executable,
    )  # fmt: skip
    assert slurm.waited(number) == "COMPLETED 0:0"
    first, *lines = (slurm.folder / "launch.log").read_text().splitlines()
    assert (first, len(lines)) == ("0", 2)
    for node, line in enumerate(sorted(lines, key=lambda line: "--node-rank=1" in line)):
        where = f"--nnodes=2 --node-rank={node} --rdzv-conf=timeout=120 --master-addr=n1"
        assert where in line and line.endswith("-m dtlib train text --steps=3 --strategy ddp")


def test_every_rank_has_its_profiler(slurm: Slurm) -> None:
    """A program in nsys's place shows what it is given."""
    (slurm.folder / "bin").mkdir()
    program = slurm.folder / "bin/nsys"
    program.write_text('#!/bin/bash\necho "task $SLURM_PROCID:" "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{slurm.env['PATH']}"
    options = ("--gpus-per-node=2",)
    number = slurm.script("profile_nsys.sbatch", "text", *SMALL, options=options, PATH=path)
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    for task in range(4):
        (line,) = (x for x in slurm.log(number).splitlines() if x.startswith(f"task {task}: prof"))
        assert f"{slurm.made(number)}/run/nsys.rank%q{{SLURM_PROCID}}" in line
        assert f"-m dtlib train text {' '.join(SMALL)} --out {slurm.made(number)}/run --nvt" in line


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_study_as_an_array_is_one_table_without_gaps(slurm: Slurm) -> None:
    """Four runs, one of them over both nodes at a time; the fifth task has nothing to do."""
    study = ("text", "--ranks=1,2", "--repeats=2", "--steps=10", *SMALL)
    number = slurm.submit("ddp_strong_scaling", "--nodes=2", *study, "--", "--array=0-4")
    slurm.until(lambda: slurm.over(number))
    said = slurm.dtlib("batch", "status", "--out=batch")
    assert f"{number}  ddp_strong_scaling  2      COMPLETED   0:0" in said, said + slurm.log(number)
    made = slurm.made(number)
    codes = {path.name: path.read_text().strip() for path in made.glob("exit-code.*")}
    assert codes == {f"exit-code.t{task}.r0": "0" for task in range(5)}
    table = rows(made / "study/strong.csv")
    runs = sorted((int(row["world_size"]), int(row["repeat"])) for row in table)
    assert runs == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert all(float(row["step_time_s"]) > 0 for row in table)
    assert {row["job_id"] for row in table} - {""}
    assert (made / "study/strong.png").exists()
