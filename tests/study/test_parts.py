"""Parts of a study in processes of their own, and a study that is killed."""

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dtlib import study
from dtlib.errors import BadInput, DtlibError
from dtlib.study import drawing, family, running, tables

WORDS = "--model nano --max-length 16 --global-batch 4 --num-samples 16 --steps 7 --repeats 2"
SMALL = ["weak", "text", *WORDS.split(), "--ranks", "2"]
NAMES = ["ranks1-repeat0", "ranks2-repeat0", "ranks1-repeat1", "ranks2-repeat1"]


def start(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "dtlib", "study", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def in_table(out: Path) -> list[str]:
    with (out / "weak.csv").open(newline="") as file:
        return [f"ranks{r['world_size']}-repeat{r['repeat']}" for r in csv.DictReader(file)]


def test_parts_are_listed_and_one_beyond_the_last_is_nothing_to_do(tmp_path, capsys) -> None:
    out = tmp_path / "s"
    assert study.main([*SMALL, "--out", str(out), "--parts"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["4 runs: --part 0 to --part 3", *(f"{k} {n}" for k, n in enumerate(NAMES))]
    assert study.main([*SMALL, "--out", str(out), "--part", "4"]) == 0
    assert capsys.readouterr().out.startswith("There is no part 4 among 4 runs.")
    assert not out.exists()
    with pytest.raises(BadInput, match="--part '-1' must be a whole number"):
        study.main([*SMALL, "--out", str(out), "--part=-1"])


@pytest.mark.slow
def test_parts_that_end_at_once_leave_one_table_without_gaps(tmp_path, capsys) -> None:
    out = tmp_path / "s"
    words = [*SMALL, "--out", str(out), "--part"]
    assert study.main([*words, "1"]) == 0  # the study's first run is not done
    printed = capsys.readouterr().out
    assert "No efficiency yet" in printed and "3 of 4 runs are missing: ranks1-repeat0" in printed
    both = [start(*words, "0"), start(*words, "2")]
    said = [one.communicate(timeout=120)[0].decode() for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert sorted(in_table(out)) == sorted(NAMES[:3])
    assert study.main(["figure", str(out)]) == 0
    assert "1 of 4 runs is missing: ranks2-repeat1" in capsys.readouterr().out
    assert study.main([*SMALL, "--out", str(out)]) == 0
    assert sorted(in_table(out)) == sorted(NAMES)
    assert "missing" not in capsys.readouterr().out
    assert not list(out.glob(".tmp*"))


def test_a_run_that_ends_while_the_table_is_written_is_in_the_table(tmp_path, monkeypatch) -> None:
    family.open_folder(tmp_path, "weak", {"task": "text"}, NAMES[:2])
    done = {NAMES[0]: None}

    def write(path, columns, rows) -> None:
        written.append(rows)
        done.setdefault(NAMES[1], None)  # the other part ends after this one looked

    written: list[list[str]] = []
    monkeypatch.setattr(family, "finished", lambda out, names: dict(done))
    monkeypatch.setattr(tables, "of_runs", lambda kind, runs: list(runs))
    monkeypatch.setattr(running, "write_csv", write)
    monkeypatch.setattr(drawing, "draw", lambda path: ("", []))
    running.collect("weak", tmp_path)
    assert written == [NAMES[:1], NAMES[:2]]


def test_a_first_part_that_fails_says_so_and_writes_no_table(tmp_path, monkeypatch) -> None:
    def fails(config) -> None:
        raise DtlibError("the loss is nan in step 3")

    monkeypatch.setattr("dtlib.training.start.train", fails)
    with pytest.raises(DtlibError, match="1 run not done: ranks2-repeat0"):
        study.main([*SMALL, "--out", str(tmp_path / "s"), "--part", "1"])
    assert not (tmp_path / "s" / "weak.csv").exists()
    with pytest.raises(BadInput, match="none of 4 runs is done"):
        study.main(["figure", str(tmp_path / "s")])


def test_a_terminated_study_says_which_rows_are_there_and_how_to_continue(tmp_path) -> None:
    out = tmp_path / "s"
    stopped = start(*SMALL, "--out", str(out))
    end = time.monotonic() + 120
    while not (out / NAMES[0] / "summary.json").exists() and time.monotonic() < end:
        time.sleep(0.02)
    stopped.send_signal(signal.SIGTERM)
    said = stopped.communicate(timeout=60)[0].decode().splitlines()
    assert stopped.returncode == 75, said
    assert said[-1] == (
        f"dtlib: stopped by a signal: 1 of 4 runs in {out} done ({NAMES[0]}); start the same"
        " command again to do the others."
    )
    assert in_table(out) == NAMES[:1]


@pytest.mark.slow
def test_a_killed_study_goes_on(tmp_path, capsys) -> None:
    out = tmp_path / "s"
    killed = start(*SMALL, "--out", str(out))
    first, end = out / NAMES[0] / "summary.json", time.monotonic() + 120
    while not first.exists() and time.monotonic() < end:
        time.sleep(0.02)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL and not (out / "weak.csv").exists()
    before = first.stat().st_mtime_ns
    assert study.main([*SMALL, "--out", str(out)]) == 0
    assert first.stat().st_mtime_ns == before  # not run again
    assert sorted(in_table(out)) == sorted(NAMES)
    with pytest.raises(BadInput, match="holds no study"):
        study.main(["figure", str(tmp_path)])
