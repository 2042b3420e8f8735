"""`%%ranks`: what travels, what is shown, what is raised; in IPython and in a real kernel."""

import os
import queue
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from processes import wait_until_they_wait

from dtlib.errors import BadInput
from dtlib.learn import magic
from dtlib.ranks.launcher import RankFailed

GONE = 30.0  # seconds; processes have 5 s to be gone, and need cores for it


@pytest.mark.parametrize(("source", "expected"), [
    ("x = y + rank", {"y"}),
    ("y = 1\nx = y", set()),
    ("x += 1", {"x"}),
    ("if rank: y = 1\nprint(y)", {"y"}),  # not always defined here
    ("def f(a):\n    return a + k\nf(2)", {"k"}),
    ("def f(k):\n    return k", set()),  # its own k
    ("[v * w for v in u]", {"u", "w"}),
    ("import numpy as np\nnp.sum(a)", {"a"}),
    ("class A:\n    def f(self): return helper()\nA().f()", {"helper"}),
    ("f = lambda q: q + c", {"c"}),
    ("dist.all_reduce(torch.ones(world_size)); len([])", set()),
])  # fmt: skip
def test_names_that_a_cell_reads(source, expected):
    assert magic.names_used(source) == expected


def test_what_travels_and_what_cannot_is_named():
    user = {"np": os, "a": [1], "In": ["hidden"], "unused": threading.Lock()}
    values, modules = magic.pack({"np", "a", "In", "unknown"}, user, {"In"})
    assert values == {"a": [1]}
    assert modules == {"np": "os"}
    with pytest.raises(BadInput, match=r"The cell uses gate \(lock\), which cannot be copied"):
        magic.pack({"gate", "a"}, {"gate": threading.Lock(), "a": 1}, set())


@pytest.mark.parametrize("line", ["", "four", "2 --timeuot 3", "2 3"])
def test_a_wrong_line_is_one_sentence(line):
    with pytest.raises(BadInput, match="write %%ranks 4"):
        magic.arguments(line)


def test_the_line():
    options = magic.arguments("3 --timeout 5 --show-errors  # a remark")
    assert (options.ranks, options.timeout, options.show_errors) == (3, 5.0, True)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    from IPython.testing.globalipapp import start_ipython

    ip = start_ipython() or __import__("IPython").get_ipython()
    magic.register(ip)
    yield ip
    ip.reset()


def test_a_cell_on_three_ranks(shell, capsys):
    shell.run_cell("import math as m\nscale = 2\ndef f(x): return x * scale")
    result = shell.run_cell(
        "%%ranks 3\nx = torch.tensor([f(10.0 ** rank)])\ndist.all_reduce(x)\n"
        "print(m.floor(2.5), world_size)\nx"
    )
    result.raise_error()
    out = capsys.readouterr().out
    last = out[out.rindex("rank 0 | 2 3") :]
    assert last.splitlines() == [
        line for r in range(3) for line in (f"rank {r} | 2 3", f"rank {r} | tensor([222.])")
    ]
    assert "x" not in shell.user_ns  # nothing comes back


def test_a_syntax_error_is_one_sentence(shell):
    error = shell.run_cell("%%ranks 2\n\nx = = 3").error_in_exec
    assert isinstance(error, BadInput)
    assert str(error) == "SyntaxError in cell line 3, x = = 3: invalid syntax."
    error = shell.run_cell("%%ranks 2\nreturn 3").error_in_exec
    assert str(error) == "SyntaxError in cell line 2, return 3: 'return' outside function."


def test_an_error_names_rank_and_line_and_is_raised(shell, capsys):
    result = shell.run_cell(
        "%%ranks 2\nx = torch.ones(3)\nif rank == 1:\n    x = x / y_unknown\ndist.all_reduce(x)"
    )
    error = result.error_in_exec
    assert isinstance(error, RankFailed)
    assert error.sentence == (
        "Rank 1 raised NameError: name 'y_unknown' is not defined (cell line 4); "
        "rank 0 was waiting in all_reduce of 3 float32 (cell line 5)."
    )
    out = capsys.readouterr().out
    assert "x = x / y_unknown" in out
    assert "launcher.py" not in out  # the student's frames, not ours


def test_a_lesson_can_show_a_failure(shell, capsys):
    result = shell.run_cell(
        "%%ranks 2 --timeout 2 --show-errors\n"
        "if rank == 0:\n    dist.barrier()\nelse:\n    while True:\n        pass"
    )
    result.raise_error()
    out = capsys.readouterr().out
    assert "Rank 1 did not join barrier within 2 s: rank 0 was waiting in barrier (cell line" in out
    assert "rank 1 | (timed out)" in out


def test_the_html_stacks_and_names_ranks_in_words():
    columns = magic.Columns(2)
    columns.lines[0].append("<b>&")
    columns.results[1] = ("table", "<table></table>")
    columns.notes[1] = "raised ValueError"
    markup = columns.markup()
    assert "display:grid" in markup and "auto-fit" in markup
    assert "&lt;b&gt;&amp;" in markup
    assert 'aria-label="rank 1"' in markup and "rank 1: raised ValueError" in markup
    assert "<table></table>" in markup
    assert columns.plain().splitlines() == [
        "rank 0 | <b>&", "rank 1 | table", "rank 1 | (raised ValueError)",
    ]  # fmt: skip


class Kernel:
    """A real kernel, as JupyterLab has it."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name="python3")
        self.pid = self.manager.provisioner.pid  # type: ignore[union-attr]

    def start(self, code: str) -> str:
        return self.client.execute(code)

    def messages(self, kinds: str, seconds: float = 60.0) -> Iterator[dict[str, Any]]:
        """Yield the contents of messages of these kinds until the kernel is idle."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if message["msg_type"] in kinds.split():
                yield message["content"]
            if message["content"].get("execution_state") == "idle":
                return

    def run(self, code: str, kinds: str) -> list[dict[str, Any]]:
        self.start(code)
        return list(self.messages(kinds))

    def start_stuck(self) -> list[psutil.Process]:
        """Start a cell whose ranks never end, and return their processes."""
        self.start(STUCK)
        for content in self.messages(SHOWN):
            pids = re.findall(r"rank \d \| (\d+)", content["data"]["text/plain"])
            if len(pids) == 2:
                return [psutil.Process(int(pid)) for pid in pids]
        raise AssertionError("the cell ended")

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children(recursive=True)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


SETUP = "from dtlib.learn import magic; magic.register(get_ipython()); from dtlib import launch"
STUCK = """%%ranks 2 --timeout 300
import os, time
print(os.getpid())
time.sleep(0.5)
print("and so that the display is updated once more")
if rank: time.sleep(600)
dist.barrier()"""
SHOWN = "display_data update_display_data"


def test_a_kernel_shows_columns_and_progress(kernel):
    assert kernel.run(SETUP, "error") == []
    shown = kernel.run("%%ranks 2\nprint('hi')\nrank * 10", SHOWN)
    data = shown[-1]["data"]
    assert data["text/plain"].splitlines()[1] == "rank 0 | 0"
    assert "<section" in data["text/html"]
    assert "word-break:normal" in data["text/html"]  # JupyterLab's own would cut words in two
    shown = kernel.run(
        "from dtlib.ranks.launcher import progress\n"
        "def f():\n    for i in range(5): progress(i + 1, 5, loss=0.5)\n"
        "_ = launch(f, ranks=2)",
        SHOWN,
    )
    assert set(shown[0]["data"]) == {"text/plain", "text/html"}  # no widget, which papermill loses


def test_interrupting_a_kernel_ends_the_ranks(kernel):
    kernel.run(SETUP, "error")
    ranks = kernel.start_stuck()
    wait_until_they_wait([process.pid for process in ranks])  # in the barrier, and in its sleep
    kernel.manager.interrupt_kernel()
    contents = list(kernel.messages("stream error"))
    text = "".join(content["text"] for content in contents if "text" in content)
    assert re.search(
        r"Interrupted: rank 0 was waiting in barrier \(cell line 7\); rank 1 was", text
    )
    assert contents[-1]["traceback"] == ["KeyboardInterrupt"]  # and none of our own lines
    psutil.wait_procs(ranks, timeout=GONE)
    assert not any(p.is_running() for p in ranks)
    assert kernel.run("%%ranks 2\nrank", "error") == []  # and the next cell works


def test_nothing_is_left_of_a_killed_kernel(kernel):
    kernel.run(SETUP, "error")
    processes = [*kernel.start_stuck(), *kernel.children()]
    psutil.Process(kernel.pid).kill()
    _, alive = psutil.wait_procs(processes, timeout=GONE)
    assert alive == []
