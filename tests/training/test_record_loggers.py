"""TensorBoard and W&B hold what the JSON lines hold, leave nothing elsewhere and ask no network."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch

from dtlib.errors import Unavailable
from dtlib.learn import rooms, source
from dtlib.ranks.dist import World
from dtlib.training.record import RunFiles, check_loggers, loggers, read_lines
from dtlib.training.record.loggers import numbers_of

pytest.importorskip("tensorboard", reason="pip install -e '.[logging]'")
pytest.importorskip("wandb", reason="pip install -e '.[logging]'")

MARK = "DTLIB_TEST_LOGGERS"
read_back = rooms.module(source.find("02"), "read_back")
Rows = dict[int, dict[str, float]]


def recorded(folder: Path) -> Rows:
    """What both loggers should hold: the numbers of the JSON lines, by step."""
    rows: Rows = {}
    for kind, name in (("train", "metrics"), ("evaluation", "evaluations")):
        for line in read_lines(folder / f"{name}.jsonl"):
            rows.setdefault(line["step"], {}).update(numbers_of(kind, line))
    return rows


def single(rows: Rows) -> Rows:
    """The same in single precision, in which TensorBoard keeps its scalars."""
    return {s: {k: float(np.float32(v)) for k, v in row.items()} for s, row in rows.items()}


def write(folder: Path, steps: range, resumed_from: int | None = None) -> None:
    world = World(0, 0, 1, 1, torch.device("cpu"), None)
    config = {"tensorboard": True, "wandb": "offline", "lr": 0.1}
    recorder = RunFiles(folder, config, world, resumed_from=resumed_from)
    for step in steps:
        start = 0 if resumed_from is None else resumed_from
        recorder.step(step, loss=1 / step + start, skipped=step == 2, grad_norm=torch.tensor(0.1))
        if step % 3 == 0:
            recorder.evaluation(step, loss=1 / (step + 1), protocol="words are not drawn")
    recorder.close()
    recorder.close()


def test_a_resumed_run_goes_on_in_the_same_logs_and_no_step_stands_twice(tmp_path):
    write(tmp_path, range(1, 7))
    first = recorded(tmp_path)
    assert set(first) == set(range(1, 7))
    assert set(first[3]) == {"train/loss", "train/skipped", "train/grad_norm", "evaluation/loss"}
    assert read_back.tensorboard_rows(tmp_path) == single(first)
    assert read_back.wandb_rows(tmp_path) == first
    name = (tmp_path / "wandb/id").read_text()

    write(tmp_path, range(5, 9), resumed_from=4)  # the checkpoint was of step 4
    both = recorded(tmp_path)
    assert set(both) == set(range(1, 9))
    assert both[5]["train/loss"] == 1 / 5 + 4
    assert read_back.tensorboard_rows(tmp_path) == single(both)
    assert read_back.wandb_rows(tmp_path) == both
    assert (tmp_path / "wandb/id").read_text() == name
    assert not [p for p in psutil.Process().children() if "wandb-core" in p.name()]


class Refusing(http.server.BaseHTTPRequestHandler):
    """A proxy, and a W&B server, that notes what it is asked and refuses it."""

    asked: list[str]

    def refuse(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_error(401)

    do_GET = do_POST = do_PUT = do_CONNECT = refuse

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (Refusing,), {"asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}", asked
        listening.shutdown()


def test_two_ranks_leave_all_in_the_runs_folder_and_ask_no_network(tmp_path, server):
    address, asked = server
    homes = {name: tmp_path / name for name in ("HOME", "TMPDIR", "work")}
    for path in homes.values():
        path.mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_")}
    env |= {name: str(homes[name]) for name in ("HOME", "TMPDIR")} | {MARK: str(tmp_path)}
    env |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), address)
    env.pop("XDG_CACHE_HOME", None)
    env["TORCHINDUCTOR_CACHE_DIR"] = str(tmp_path / "inductor")  # torch makes it, in any run
    words = "text --ranks 2 --steps 3 --global-batch 4 --max-length 8 --num-samples 16"
    done = subprocess.run(
        [sys.executable, "-m", "dtlib", "train", *words.split(), "--tensorboard",
         "--wandb=offline", f"--out={tmp_path / 'run'}"],
        env=env, cwd=homes["work"], capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "wandb" not in done.stdout + done.stderr

    rows = recorded(tmp_path / "run")
    assert set(rows) == {1, 2, 3} and "evaluation/valid_loss" in rows[3]
    assert read_back.tensorboard_rows(tmp_path / "run") == single(rows)
    assert read_back.wandb_rows(tmp_path / "run") == rows
    assert len(list((tmp_path / "run/tensorboard").iterdir())) == 1  # rank 0 alone
    assert [list(path.iterdir()) for path in homes.values()] == [[], [], []]
    assert asked == []
    assert not [p for p in psutil.process_iter() if is_left(p, str(tmp_path))]


def is_left(process: psutil.Process, mark: str) -> bool:
    try:
        zombie = process.status() == psutil.STATUS_ZOMBIE
        return not zombie and process.environ().get(MARK) == mark
    except psutil.Error:
        return False


# --- what cannot be logged here -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_told_with_the_line_for_pip(name, monkeypatch, tmp_path):
    monkeypatch.setitem(loggers.PACKAGES, name, "no_such_package")
    (tmp_path / "no_such_package").mkdir()  # a folder of that name is not the package
    monkeypatch.syspath_prepend(tmp_path)
    wanted = {"tensorboard": False, "wandb": None, name: "offline"}
    with pytest.raises(Unavailable, match=r"not installed: .* pip install -e '\.\[logging\]'"):
        check_loggers(**wanted)


@pytest.fixture
def no_key(monkeypatch, tmp_path):
    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def test_online_without_a_key_is_a_sentence_before_any_rank(no_key, tmp_path, monkeypatch):
    from dtlib import cli

    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "text", "--wandb", "online", "--out", "run"]) == 69
    assert not (tmp_path / "run").exists()


def test_online_takes_the_key_of_the_servers_netrc(no_key, tmp_path, monkeypatch, server):
    address, asked = server
    monkeypatch.setenv("WANDB_BASE_URL", address)
    (tmp_path / "netrc").write_text("machine other login user password key\n")
    with pytest.raises(Unavailable, match=r"needs an API key for http://127\.0\.0\.1"):
        check_loggers(False, "online")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login user password key\n")
    (tmp_path / "netrc").chmod(0o600)
    check_loggers(False, "online")
    assert asked == ["GET /"]


def test_online_without_a_network_is_a_sentence(no_key, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")  # nobody listens there
    with pytest.raises(Unavailable, match=r"did not reach .*refused.*use wandb offline"):
        check_loggers(False, "online")
    check_loggers(False, "online", writes=False)


def test_online_with_a_wrong_key_is_a_sentence(no_key, tmp_path, monkeypatch, server):
    from dtlib.errors import DtlibError

    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", server[0])
    world = World(0, 0, 1, 1, torch.device("cpu"), None)
    with pytest.raises(DtlibError, match=r"did not accept the run .*401.*use wandb offline"):
        RunFiles(tmp_path, {"wandb": "online"}, world)
    assert not [p for p in psutil.Process().children() if "wandb-core" in p.name()]
