"""One process per folder fetches; the others wait, take over, or say why they give up."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fetch_server import BODY, Server, file_of, offer, toy

from dtlib.data import fetch
from dtlib.data.fetch import place
from dtlib.errors import Unavailable

REST = f"bytes={len(BODY) // 2}-"  # what a server is asked for that has sent half of it
HERE = Path(__file__).resolve().parents[1]
PROGRAM = f"""
import sys
sys.path.insert(0, {str(HERE.parent)!r})
from dtlib import cli
from dtlib.data import fetch
from dtlib.data.fetch.sources import File, Source
url, sha256 = sys.argv[1:]
file = File("file.bin", sha256, {len(BODY)}, (url,))
fetch.SOURCES = {{"toy": Source("toy", "a toy", "toy-folder", (file,), "free", "Nobody")}}
sys.exit(cli.main(["fetch", "toy"]))
"""
pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture
def start(server: Server):
    """Start `dtlib fetch toy` in processes of their own; all are gone afterwards."""
    started: list[subprocess.Popen[str]] = []

    def run(how: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, server.url(how), hashlib.sha256(BODY).hexdigest()],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **env},
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], words: str) -> None:
    """Read what a process says until it says `words`."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return
    pytest.fail(f"it ended without saying {words!r}: {said}")


def half_written(root: Path) -> None:
    """Wait until the half that the server has sent is on the disk."""
    part = root / ".fetch-toy" / "file.bin.part"
    for _ in range(1000):
        if part.exists() and part.stat().st_size == len(BODY) // 2:
            return
        time.sleep(0.05)
    pytest.fail("nothing was written")


def is_clean(root: Path) -> bool:
    return [path.name for path in root.iterdir()] == ["toy-folder"]


# -- processes ------------------------------------------------------------------------------------


def test_two_processes_at_once_make_one_download(server: Server, start, root):
    first = start("stalls")
    assert server.half_sent.wait(60)
    second = start("stalls")
    until(second, "waiting for the process that holds")
    server.go_on.set()
    outputs = [process.communicate(timeout=60) for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), outputs
    assert "now in" in outputs[0][0] and "already" in outputs[1][0]
    assert [span for _, span in server.asked] == ["", REST], "the first's two requests"
    assert (root / "toy-folder" / "file.bin").read_bytes() == BODY
    assert is_clean(root)


def test_of_many_processes_one_downloads(server: Server, start, root):
    processes = [start("slow") for _ in range(4)]
    server.go_on.set()
    for process in processes:
        said = process.communicate(timeout=90)
        assert process.returncode == 0, said
    assert len(server.asked) == 1
    assert is_clean(root)


def test_a_process_that_dies_is_followed_by_another_that_goes_on(server: Server, start, root):
    first = start("stalls")
    assert server.half_sent.wait(60)
    second = start("good")
    until(second, "waiting for the process that holds")
    half_written(root)
    first.send_signal(signal.SIGKILL)
    said = second.communicate(timeout=60)
    assert second.returncode == 0, said
    assert server.asked == [("stalls", ""), ("good", REST)]
    assert (root / "toy-folder" / "file.bin").read_bytes() == BODY
    assert is_clean(root)


def test_ctrl_c_keeps_what_is_there(server: Server, start, root):
    process = start("stalls")
    assert server.half_sent.wait(60)
    half_written(root)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said[1]
    again = start("good")
    assert again.communicate(timeout=60) and again.returncode == 0
    assert server.asked == [("stalls", ""), ("good", REST)]
    assert is_clean(root)


# -- ranks ----------------------------------------------------------------------------------------


def rank(number: int) -> dict[str, str]:
    return {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2",
            "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}  # fmt: skip


def test_only_the_first_rank_of_a_node_downloads(server: Server, start, root):
    ranks = [start("good", **rank(number)) for number in (1, 0)]
    outputs = [process.communicate(timeout=60) for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], outputs
    assert len(server.asked) == 1
    assert outputs[0] == ("", ""), "one rank speaks"
    assert "now in" in outputs[1][0]


def test_other_ranks_give_up_when_the_first_has_brought_nothing(root, monkeypatch):
    for name, value in rank(1).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(place, "GRACE", 0.0)
    offer(monkeypatch, toy(file_of(BODY)))
    with pytest.raises(Unavailable, match="the first rank of this node has not put toy"):
        fetch.get(["toy"])
    assert not root.exists()


def test_other_ranks_wait_as_long_as_the_first_is_at_it(root, monkeypatch, tmp_path):
    """It is seen to hold the lock twice; then the files are there."""
    answers = iter([True, True])

    def held(lock: Path) -> bool:
        answer = next(answers, None)
        if answer is None:
            (root / "toy-folder").mkdir(parents=True)
            (root / "toy-folder" / "file.bin").write_bytes(BODY)
        return bool(answer)

    monkeypatch.setattr(place, "GRACE", -1.0)
    monkeypatch.setattr(place, "is_held", held)
    with pytest.raises(Unavailable):
        place.follow(toy(file_of(BODY)))
    assert place.follow(toy(file_of(BODY))) == root / "toy-folder"
