"""Lesson 27 as a job on two nodes: its studies span them."""

import csv
import json

import pytest
from mini_cluster import Slurm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_the_rehearsal_scales_over_two_nodes(slurm: Slurm) -> None:
    number = slurm.submit("27", "--nodes=2", "-p", "repeats=1")
    assert slurm.waited(number) == "COMPLETED 0:0", slurm.log(number)
    made = slurm.made(number) / "work" / "student" / "studies"
    for kind in ("strong", "weak"):
        with (made / kind / f"{kind}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        found = [(row["world_size"], row["nodes"], row["global_batch"]) for row in rows]
        assert found == [("1", "1", "64"), ("2", "2", "64" if kind == "strong" else "128")]
        assert {row["job_id"] for row in rows} == {number}
        summary = json.loads((made / kind / "ranks2-repeat0" / "summary.json").read_text())
        logs = [(made / kind / "ranks2-repeat0" / f"rank{r}.log").read_text() for r in (0, 1)]
        assert summary["nodes"] == 2
        assert "on n1, rank 0 of 2" in logs[0] and "on n2, rank 1 of 2" in logs[1]
