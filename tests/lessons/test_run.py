"""Running lessons: failures are told truly, what was made is kept, nothing is left running."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from lesson_sources import write

from dtlib.errors import BadInput
from dtlib.learn.source import find, lessons
from dtlib.lessons import main, run
from dtlib.lessons.notebook import unfinished
from dtlib.lessons.parameters import read_parameters
from dtlib.lessons.reporting import Reporter
from dtlib.lessons.run import warnings_of_kernels

FIXTURES = Path(__file__).parents[1] / "fixtures"
RUN = "import sys; from dtlib.lessons import main; sys.exit(main(sys.argv[1:]))"


def command(folder: Path, sources: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    """Start `dtlib lessons …` as a program of its own, in `folder`."""
    variables = {"DTLIB_LESSONS": str(sources), "PYTHONPATH": str(FIXTURES), **env}
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *words],
        cwd=folder, env={**os.environ, **variables}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=150)
    return process.returncode, out, err


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo lesson, both notebooks in parallel, with a wrong `python3` kernel in the home."""
    folder = tmp_path_factory.mktemp("demo")
    spec = folder / "home/kernels/python3/kernel.json"
    spec.parent.mkdir(parents=True)
    wrong = {"argv": ["/bin/false", "{connection_file}"], "display_name": "x", "language": "python"}
    spec.write_text(json.dumps(wrong))
    running = command(
        folder, FIXTURES / "lessons_src", "run", "90", "--kind", "both", "--jobs", "2",
        "-p", "times=4",
        JUPYTER_DATA_DIR=str(folder / "home"),
    )  # fmt: skip
    code, out, err = wait(running)
    assert (code, err) == (0, ""), out + err
    return folder / "build/lessons", out


def outputs(path: Path) -> str:
    notebook = json.loads(path.read_text())
    found = [o for c in notebook["cells"] for o in c.get("outputs", [])]
    return "\n".join(
        "".join(o.get("text") or o.get("data", {}).get("text/plain") or []) for o in found
    )


def test_the_students_notebook_reaches_its_end_with_nothing_written(demo):
    text = outputs(demo[0] / "student/90_demo.ipynb")
    assert "`double` is not written yet" in text
    assert "the course's own" in text
    assert "Take-away. Exercises passed: none yet." in text
    assert "False" not in text


def test_the_instructors_notebook_passes_every_check(demo):
    text = outputs(demo[0] / "instructor/90_demo.ipynb")
    assert "✓ Passed. `double` is right." in text
    assert "Take-away. Exercises passed: double." in text


def test_a_parameter_arrives(demo):
    assert "Measured: 8 apples." in outputs(demo[0] / "student/90_demo.ipynb")


def test_no_output_is_a_widget_alone(demo):
    notebook = json.loads((demo[0] / "student/90_demo.ipynb").read_text())
    bundles = [
        set(o["data"]) for c in notebook["cells"] for o in c.get("outputs", []) if "data" in o
    ]
    shown = [b for b in bundles if "application/vnd.jupyter.widget-view+json" in b]
    assert len(shown) == 3
    assert all({"text/plain", "text/html"} <= bundle for bundle in shown)


def test_one_line_a_notebook_and_a_table(demo):
    lines = re.sub(r"\d+\.\d", "T", demo[1]).splitlines()
    assert sorted(lines[:2], key=lambda line: line[6:]) == [
        line.replace("[1/2]", f"[{i}/2]")
        for line, i in zip(
            ["[1/2] 90 instructor: ok, T s", "[1/2] 90 student: ok, T s"],
            [1, 2] if "[1/2] 90 instr" in demo[1] else [2, 1],
            strict=True,
        )
    ]
    assert [line.split() for line in lines[3:]] == [
        ["lesson", "notebook", "result", "seconds"],
        ["90_demo", "student", "ok", "T"],
        ["90_demo", "instructor", "ok", "T"],
        ["2", "ok,", "0", "failed"],
    ]
    assert "\r" not in demo[1] and "\x1b" not in demo[1]


BAD = {
    "79": "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(8888)",
    "80": "1/0",
    "81": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "82": "import time\ntime.sleep(600)",
    "83": "import sys\nsys.exit(0)",
    "84": "import warnings\nwarnings.warn('old', FutureWarning)",
    "85": '# %% tags=["raises-exception"]\n1/0',
    "86": "from ipywidgets import Output\nout = Output()\nwith out:\n    print(1)\nout",
    "87": "import subprocess\nleft = subprocess.Popen(['sleep', '7777'])",
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """Lessons that end badly, or seem to, in one run of two jobs."""
    folder = tmp_path_factory.mktemp("bad")
    for number, cell in BAD.items():
        write(folder / "lessons_src", number, "print('before')", cell, "print('after')")
    code, out, err = wait(
        command(folder, folder / "lessons_src", "run", "--kind", "student", "--timeout", "8")
    )
    assert err == ""
    return folder, code, out


@pytest.mark.parametrize(("number", "says"), [
    ("79", "cell 4: the process that ran it was killed (signal 9)"),
    ("80", "cell 4: ZeroDivisionError: division by zero"),
    ("81", "cell 4: the kernel died (killed, or out of memory)"),
    ("82", "cell 4: it took longer than the 8 s that a cell may take"),
    ("83", "cell 4: SystemExit: 0"),
    ("84", "cell 4: FutureWarning: old"),
])  # fmt: skip
def test_a_failure_names_cell_and_error_and_keeps_the_notebook(bad, number, says):
    folder, code, out = bad
    assert code == 1
    kept = f"build/lessons/student/{number}_lesson{number}.ipynb"
    assert re.search(
        rf"{number} student: failed, [\d.]+ s\n    {re.escape(says)}\n    kept: {kept}\n", out
    ), out
    text = outputs(folder / kept)
    assert "after" not in text
    assert "before" in text or number == "79"  # nobody was left to save what came last


@pytest.mark.parametrize("number", ["85", "86", "87"])
def test_what_only_looks_bad_is_fine(bad, number):
    folder, _, out = bad
    assert f"{number} student: ok" in out
    assert "after" in outputs(folder / f"build/lessons/student/{number}_lesson{number}.ipynb")


def test_the_count_at_the_end(bad):
    assert bad[2].splitlines()[-1] == "3 ok, 6 failed"


def test_nothing_is_left_running(bad):
    def mine() -> list[psutil.Process]:
        folder = str(bad[0])
        return [
            p
            for p in psutil.process_iter(["cmdline", "cwd"])
            if "7777" in (p.info["cmdline"] or []) or (p.info["cwd"] or "").startswith(folder)
        ]

    # The kernel whose worker was killed sees that within a second and ends itself.
    _, alive = psutil.wait_procs(mine(), timeout=20)
    assert alive == []


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_leaves_no_process(tmp_path, sig):
    cell = "import time\nfor _ in range(6000):\n    print('here', flush=True)\n    time.sleep(0.1)"
    write(tmp_path / "lessons_src", "80", cell)
    running = command(tmp_path, tmp_path / "lessons_src", "run", "--kind", "student")
    try:
        partial = tmp_path / "build/lessons/student/80_lesson80.ipynb"
        until = time.monotonic() + 100
        while not (partial.exists() and "here" in outputs(partial)):  # autosaved every 2 s
            assert time.monotonic() < until and running.poll() is None
            time.sleep(0.2)
        family = psutil.Process(running.pid).children(recursive=True)
        assert len(family) >= 2  # a worker and a kernel
        running.send_signal(sig)
        code, _, err = wait(running)
    finally:
        running.terminate()  # when the test failed: it ends its family itself
        running.communicate()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []
    if sig is not signal.SIGKILL:
        assert (code, err) == (130, "Interrupted; what has run so far is in build/lessons.\n")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("DTLIB_LESSONS", str(tmp_path / "lessons_src"))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "lessons_src", "80", "print(speed)")
    yield tmp_path / "lessons_src"
    assert not (tmp_path / "build").exists()


@pytest.mark.parametrize(("words", "says"), [
    (["-p", "sped=2"], "lesson 80 has no parameter 'sped'; it has speed, name. Did you mean"),
    (["-p", "speed"], "write a parameter as name=value, not as 'speed'."),
    (["99"], "there is no lesson 99; the lessons here are 80_lesson80."),
    (["--timeout", "0"], "--timeout 0"),
    (["--jobs", "0"], "--jobs 0"),
])  # fmt: skip
def test_bad_input_starts_nothing(sources, words, says):
    with pytest.raises(BadInput) as caught:
        main(["run", *words])
    assert says in str(caught.value)


def test_values_of_parameters_are_yaml(sources):
    lesson = find("80", sources)
    assert read_parameters([lesson], ["speed=4e6", "name=one two"]) == {
        "speed": 4e6,
        "name": "one two",
    }
    assert read_parameters(lessons(sources), ["name=1e-5"]) == {"name": 1e-5}
    assert read_parameters([lesson], ["name=infinity"]) == {"name": "infinity"}


@pytest.mark.parametrize(
    ("error", "code"),
    [("Stopped: stopped after step 3 of 9", 75), ("ValueError: no", 1), (None, 0)],
)
def test_a_lesson_that_a_signal_stopped_asks_to_be_started_again(
    sources, tmp_path, monkeypatch, error, code
):
    def ended(everything: list[run.Job], *_: object) -> None:
        everything[0].error = error

    monkeypatch.setattr(run, "run_jobs", ended)
    assert main(["run", "--kind", "student", "--out", str(tmp_path / "out")]) == code


def test_it_runs_where_it_is_told_and_leaves_its_notebook_elsewhere(sources, tmp_path):
    write(sources, "80", "open('made', 'a').write('x')")
    for start in ("r0", "r1"):
        words = ["run", "80", "--out", str(tmp_path / start), "--work", str(tmp_path / "work")]
        assert main(words) == 0
        assert [path.suffix for path in (tmp_path / start / "student").iterdir()] == [".ipynb"]
    assert (tmp_path / "work/student/made").read_text() == "xx"


def test_a_requeue_file_makes_the_exit_code_75(sources, tmp_path, monkeypatch):
    def stopped(everything: list[run.Job], *_: object) -> None:
        folder = everything[0].target.parent / "runs/text"
        folder.mkdir(parents=True)
        (folder / "requeue").touch()

    monkeypatch.setattr(run, "run_jobs", stopped)
    words = ["run", "--kind", "student", "--out", str(tmp_path / "out")]
    assert main(words) == 75
    monkeypatch.setattr(run, "run_jobs", lambda *_: None)
    assert main(words) == 0


def test_on_a_terminal_one_line_lives(sources, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    reporter = Reporter(total=1)
    job = run.Job(find("80", sources), "student", Path("kept.ipynb"))
    reporter.started(job)
    reporter.cell(job, 2, 7)
    reporter.ended(job)
    assert capsys.readouterr().out == (
        "\r\x1b[K80 student starts\r\x1b[K80 student 2/7\r\x1b[K[1/1] 80 student: ok, 0.0 s\n"
    )


def test_a_notebook_is_judged_by_what_ran():
    def cell(count: int | None, *outputs: dict, tags: tuple[str, ...] = ()) -> dict:
        return {"cell_type": "code", "source": ["x"], "execution_count": count,
                "outputs": list(outputs), "metadata": {"tags": list(tags)}}  # fmt: skip

    error = {"output_type": "error", "ename": "E", "evalue": "why"}
    prose = {"cell_type": "markdown", "source": [], "metadata": {}}
    assert unfinished({"cells": [prose, cell(1), cell(2)]}) is None
    assert unfinished({"cells": [prose, cell(1), cell(None)]}) == ("it never ran", 3)
    assert unfinished({"cells": [cell(1), cell(2, error)]}) == ("E: why", 2)
    assert unfinished({"cells": [cell(1, error, tags=("raises-exception",))]}) is None
    assert unfinished({"cells": [{**cell(None), "source": [" "]}]}) is None


def test_a_librarys_warning_ends_a_test_of_a_lesson_and_no_job():
    assert warnings_of_kernels({}) == "error::FutureWarning"
    job = {"SLURM_JOB_ID": "7"}
    assert warnings_of_kernels(job) is None
    assert warnings_of_kernels({**job, "PYTHONWARNINGS": "ignore"}) == "ignore"
