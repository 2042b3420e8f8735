"""Ranks from a test, a script, a cell's function, a thread. Both start methods.

`DTLIB_START=spawn pytest tests/test_launcher*.py` does all of it as a Mac would.
"""

import functools
import os
import socket
import threading
from pathlib import Path

import pytest
import rank_functions as on_ranks
import torch
from processes import free_port
from scripts import run_script

import dtlib
from dtlib.errors import BadInput
from dtlib.ranks.launcher import launch, run_ranks, start_method, warm

pytestmark = pytest.mark.spread


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_results_come_back_by_rank(ranks: int) -> None:
    assert launch(on_ranks.add_up, 3, ranks=ranks) == [[3 * int("1" * ranks)]] * ranks


def test_two_ranks_when_nothing_is_said() -> None:
    assert len(launch(on_ranks.pid)) == 2


def test_ranks_are_fresh_processes_each_time() -> None:
    first, second = launch(on_ranks.pid, ranks=2), launch(on_ranks.pid, ranks=2)
    assert len({*first, *second, os.getpid()}) == 5


def test_where_a_rank_finds_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    places = launch(on_ranks.place, ranks=2, threads=2)
    cwd = str(Path.cwd())
    assert places == [(r, r, 2, "cpu", "gloo", 2, cwd) for r in range(2)]


def test_environment_travels_with_each_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("DTLIB_TEST_A", "DTLIB_TEST_B", "RANK", "WORLD_SIZE", "MASTER_ADDR", "OMP_NUM_THREADS")
    monkeypatch.setenv("DTLIB_TEST_A", "set after the server started")
    envs = launch(on_ranks.environment, *names, ranks=2, env={"DTLIB_TEST_B": "b"})
    assert [list(env.values()) for env in envs] == [
        ["set after the server started", "b", rank, "2", "127.0.0.1", "1"] for rank in "01"
    ]
    monkeypatch.delenv("DTLIB_TEST_A")
    assert launch(on_ranks.environment, "DTLIB_TEST_A", ranks=1) == [{"DTLIB_TEST_A": None}]


def test_a_function_of_a_cell_travels_by_value() -> None:
    """Field bug 2.04: a spawned child that imports __main__ does not find a cell's function."""
    space = {"__name__": "__main__", "factor": 3}
    exec(
        "def helper(x):\n    return x * factor\ndef cell(x, *, y):\n    return helper(x) + y", space
    )
    assert launch(space["cell"], 2, y=1, ranks=2) == [7, 7]


def test_closures_and_keywords_with_the_launchers_names() -> None:
    offset = 10

    def shifted(x: int, timeout: int) -> int:
        return x + timeout + offset

    assert launch(functools.partial(shifted, timeout=5), 1, ranks=2) == [16, 16]


def test_tensors_and_modules_come_back() -> None:
    def make() -> dict[str, object]:
        return {"x": torch.arange(3), "model": torch.nn.Linear(2, 2), "none": None}

    result = launch(make, ranks=1)[0]
    assert result["x"].tolist() == [0, 1, 2]
    assert result["model"](torch.ones(1, 2)).shape == (1, 2)


@pytest.mark.any_start
def test_output_comes_as_lines_with_their_rank(capfd: pytest.CaptureFixture[str]) -> None:
    launch(on_ranks.write, 2, ranks=2)
    lines = capfd.readouterr().out.splitlines()
    for rank in range(2):
        mine = [line for line in lines if line.startswith(f"[rank {rank}] ")]
        texts = [line.removeprefix(f"[rank {rank}] ") for line in mine]
        assert texts == ["line 0", "line 1", "to stderr", "from below Python"]


def test_output_is_kept_and_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = run_ranks(on_ranks.write, (2000,), ranks=2)
    assert capfd.readouterr().out == ""
    assert all(o.output.count("\n") == 2002 for o in outcomes)  # more than a pipe holds


@pytest.mark.any_start
def test_progress_is_reported_from_rank_0(capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int, dict[str, float]]] = []
    launch(on_ranks.steps, 30, ranks=2, on_progress=lambda *what: seen.append(what))
    assert seen[-1] == (30, 30, {"loss": 1 / 30})
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    launch(on_ranks.steps, 30, ranks=2)
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] == "2 ranks: 30 of 30, loss 0.03333"
    assert len(lines) <= 10  # nobody watches: a line at every tenth at most


@pytest.mark.parametrize("ranks", [0, -1, 1.5, True])
def test_ranks_must_be_a_number(ranks: int) -> None:
    with pytest.raises(BadInput, match="not a number of ranks"):
        launch(on_ranks.pid, ranks=ranks)


def test_a_taken_port_is_refused() -> None:
    """Field bug 2.01."""
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", 0))
        owner.listen()
        port = owner.getsockname()[1]
        with pytest.raises(BadInput, match=f"Port {port} is taken"):
            launch(on_ranks.pid, ranks=2, port=port)


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match=r"Port 70000 is not usable: .*choose another"):
        launch(on_ranks.pid, ranks=2, port=70_000)


@pytest.mark.any_start
def test_a_port_can_be_chosen() -> None:
    port = free_port()
    env = launch(on_ranks.environment, "MASTER_PORT", ranks=2, port=port)
    assert env == [{"MASTER_PORT": str(port)}] * 2


def test_cuda_in_use_is_refused_before_ranks_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Field bug 2.05."""
    monkeypatch.setenv("DTLIB_START", "forkserver")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(BadInput, match="restart the kernel"):
        launch(on_ranks.pid, ranks=1)


def test_what_cannot_travel_is_refused() -> None:
    with pytest.raises(BadInput, match="pid or its arguments cannot be sent"):
        launch(on_ranks.pid, threading.Lock(), ranks=1)


def test_a_result_that_cannot_travel_is_said() -> None:
    with pytest.raises(dtlib.DtlibError, match="a generator, cannot be sent back"):
        launch(lambda: (i for i in range(3)), ranks=1)


@pytest.mark.any_start
def test_dtlibs_own_errors_keep_their_kind() -> None:
    def refuse() -> None:
        raise BadInput("global_batch=7 is not 2 times something.")

    with pytest.raises(BadInput, match="global_batch=7") as caught:
        launch(refuse, ranks=2)
    assert caught.value.exit_code == 2


def test_launch_from_another_thread() -> None:
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.extend(launch(on_ranks.add_up, 1, ranks=2)))
    thread.start()
    thread.join(60)
    assert results == [[11.0], [11.0]]
    assert launch(on_ranks.add_up, 1, ranks=2) == results  # what that thread started still serves


@pytest.mark.any_start
def test_two_launches_at_once() -> None:
    """Field bug 2.01: two runs at once never meet at one port."""
    results: dict[int, list[object]] = {}

    def go(ranks: int) -> None:
        results[ranks] = launch(on_ranks.add_up, 1, ranks=ranks, show=False)

    threads = [threading.Thread(target=go, args=(ranks,)) for ranks in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert results == {2: [[11.0]] * 2, 3: [[111.0]] * 3}


def test_another_server_when_the_first_one_died() -> None:
    if start_method() == "spawn":
        pytest.skip("no server with this start method")
    from dtlib.ranks.pool import pool

    launch(on_ranks.pid, ranks=1)
    server = pool().server
    assert server is not None
    server.popen.kill()
    server.popen.wait(10)
    assert launch(on_ranks.add_up, 1, ranks=2) == [[11.0], [11.0]]


def test_the_server_has_one_thread_when_it_forks() -> None:
    psutil = pytest.importorskip("psutil")
    if start_method() == "spawn":
        pytest.skip("no server with this start method")
    from dtlib.ranks.pool import pool

    launch(on_ranks.pid, ranks=1)
    server = pool().server
    assert server is not None
    assert psutil.Process(server.popen.pid).num_threads() == 1


def test_warm_returns_at_once_and_serves_the_next_launch() -> None:
    warm(2)
    warm(2)
    assert len(launch(on_ranks.pid, ranks=2)) == 2


UNGUARDED = """
import torch.distributed as dist
from dtlib import launch
print("the script's top level runs")
class Point:
    def __init__(self, x): self.x = x
def f(p):
    return Point(p.x + dist.get_rank())
points = launch(f, Point(5), ranks=2)
print([p.x for p in points], type(points[0]) is Point)
"""


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    run = run_script(tmp_path, UNGUARDED)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["the script's top level runs", "[5, 6] True"]
    assert run.stderr == ""
