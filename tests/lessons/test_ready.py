"""`dtlib lessons ready`: the doctor, the lessons, and one line that says nothing of a person."""

import getpass
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dtlib.errors import BadInput
from dtlib.lessons import main
from dtlib.lessons.teaching import ready

DEMO = Path(__file__).resolve().parents[1] / "fixtures" / "lessons_src"
LINE = re.compile(
    r"(ready|not ready) \| \S+( in WSL2)? \w+, \d+ cores, \d+ GiB \| Python 3[\d.]+, dtlib [\d.]+,"
    r" torch [^|]+ \| doctor [^|]+"
)


@pytest.fixture
def demo(monkeypatch, tmp_path) -> Path:
    monkeypatch.setenv("DTLIB_LESSONS", str(DEMO))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def doctor(monkeypatch, says: str, code: int) -> None:
    program = f"import sys; print({says!r}); sys.exit({code})"
    monkeypatch.setattr(ready, "DOCTOR", [sys.executable, "-c", program])


def last_line(said: str) -> str:
    line = said.rstrip().splitlines()[-1]
    assert LINE.fullmatch(line), line
    assert platform.node() not in line and getpass.getuser() not in re.findall(r"\w+", line)
    assert str(Path.home()) not in line and "/" not in line
    return line


def test_a_machine_that_runs_its_lessons_is_ready(demo, monkeypatch, capsys):
    doctor(monkeypatch, "Lessons can run here.", 0)
    assert main(["ready", "90"]) == 0
    said = capsys.readouterr().out
    assert said.index("Lessons can run here.") < said.index("[1/1] 90 student: ok")
    assert re.fullmatch(r"ready \|.*\| doctor ok, 90 ok \d+ s", last_line(said))
    assert (demo / "build/ready/student/90_demo.ipynb").exists()


def test_what_the_doctor_misses_is_in_the_line_and_no_lesson_runs(demo, monkeypatch, capsys):
    doctor(monkeypatch, "Lessons cannot run here yet: ports, collective.", 69)
    assert main(["ready", "90"]) == 69
    line = last_line(capsys.readouterr().out)
    assert line.startswith("not ready |")
    assert line.endswith("| doctor misses ports, collective")
    assert not list((demo / "build").rglob("*.ipynb"))


@pytest.mark.parametrize(("code", "says"), [(1, "ended with exit code 1"), (69, "exit code 69")])
def test_a_doctor_that_fails_is_reported_without_its_words(demo, monkeypatch, capsys, code, says):
    doctor(monkeypatch, f"RuntimeError in {Path.home()}/secret", code)
    assert main(["ready", "90"]) == 69
    assert last_line(capsys.readouterr().out).endswith(says)


def test_a_lesson_that_fails_is_named_with_its_cell(demo, monkeypatch, capsys):
    def run_notebooks(everything, values, jobs, timeout):
        everything[0].error, everything[0].cell = f"OSError: {Path.home()}/secret", 5
        return ready_table

    ready_table = type("Table", (), {"table": lambda self, everything: None})()
    monkeypatch.setattr(ready, "run_notebooks", run_notebooks)
    doctor(monkeypatch, "ok", 0)
    assert main(["ready", "90"]) == 1
    line = last_line(capsys.readouterr().out)
    assert line.startswith("not ready |") and line.endswith("doctor ok, 90 failed in cell 5")


@pytest.mark.parametrize("words", [["77"], ["90", "--jobs", "0"]])
def test_bad_input_is_refused_before_the_doctor_is_asked(demo, monkeypatch, words):
    monkeypatch.setattr(ready, "_ask_doctor", lambda: pytest.fail("the doctor was asked"))
    with pytest.raises(BadInput):
        main(["ready", *words])


def test_an_interrupt_ends_the_doctor_with_what_it_started(demo, monkeypatch):
    """A probe leads a process group of its own, so that the doctor's end alone would leave it."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
    program = f"import subprocess as s; s.Popen({sleeper}, start_new_session=True).wait()"
    monkeypatch.setattr(ready, "DOCTOR", [sys.executable, "-c", program])

    def interrupted(process, timeout):
        while not (probes := psutil.Process(process.pid).children()):
            time.sleep(0.05)
        started.extend(probes)
        raise KeyboardInterrupt

    started: list[psutil.Process] = []
    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    assert main(["ready", "90"]) == 130
    assert not psutil.wait_procs(started, timeout=10)[1]
