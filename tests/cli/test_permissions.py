"""Files and folders that may not be read or written: one sentence with the path, exit code 2."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT

# Root may read and write everything, unless it gives these rights up.
DROP = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]
AS_ROOT = os.name == "posix" and os.geteuid() == 0
pytestmark = [
    pytest.mark.slow,  # each line is a program of its own
    pytest.mark.skipif(
        AS_ROOT and shutil.which("setpriv") is None,
        reason="root may read everything, and there is no setpriv to give that up",
    ),
]
TRAIN = "train text --model nano --steps 2 --max-length 16 --global-batch 4 --strategy single"
# What may not be read (000) or written to (555), the line that needs it, and what is named.
LINES = [
    ("c.yaml", 0o000, "train text --config c.yaml", "c.yaml"),
    ("d.json", 0o000, "train text --strategy zero1 --deepspeed d.json", "d.json"),
    ("text/t.txt", 0o000, f"{TRAIN} --data text", "text/t.txt"),
    ("shut", 0o555, f"{TRAIN} --out shut", "shut"),
    ("shut", 0o555, f"{TRAIN} --out shut/new", "shut/new"),
    ("run", 0o000, f"{TRAIN} --out run --resume", "run"),
    ("run", 0o555, f"{TRAIN} --out run --resume", "run"),
    ("run/checkpoints", 0o000, f"{TRAIN} --out run --resume", "run/checkpoints"),
    ("run/checkpoints", 0o555, f"{TRAIN} --steps 3 --out run --resume", "run/checkpoints"),
    ("run/metrics.jsonl", 0o000, f"{TRAIN} --steps 3 --out run --resume", "run/metrics.jsonl"),
    ("run/checkpoints", 0o000, "export run weights", "run/checkpoints"),
    ("shut", 0o555, "export run shut", "shut"),
    ("run", 0o000, "report run", "run"),
    ("run", 0o555, "report run", "run/report.html"),
    ("run/metrics.jsonl", 0o000, "report run", "run/metrics.jsonl"),
    ("s.csv", 0o000, "study figure s.csv", "s.csv"),
    ("run", 0o000, "study figure run", "run"),
    ("shut", 0o555, "study strong text --steps 8 --ranks 1 --out shut", "shut"),
    ("shut", 0o555, "study strategies text --steps 8 --ranks 1 --out shut", "shut"),
    ("t.ncu.csv", 0o000, "profile read t.ncu.csv", "t.ncu.csv"),
    ("run", 0o000, "batch status --out run", "run"),
    ("c.yaml", 0o000, "batch launch c.yaml", "c.yaml"),
    ("shut", 0o555, "batch submit 00 --out shut", "shut"),
    ("shut", 0o555, "lessons run 00 --out shut", "shut"),
    ("c.yaml", 0o000, "fetch shakespeare --from c.yaml", "c.yaml"),
    ("data", 0o555, "fetch shakespeare", "data"),
    ("ops", 0o555, "ops build", "ops"),
]


def program(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DTLIB_DATA": str(folder / "data"), "PYTHONPATH": str(PROJECT)}
    env["TORCH_EXTENSIONS_DIR"] = str(folder / "ops")
    words = [*(DROP if AS_ROOT else []), sys.executable, "-m", "dtlib", *line.split()]
    return subprocess.run(
        words, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and with a file or a folder for each of the lines."""
    folder = tmp_path_factory.mktemp("made")
    done = program(f"{TRAIN} --out run", folder)
    assert done.returncode == 0, done.stderr
    for name in ("shut", "text", "data", "ops"):
        (folder / name).mkdir()
    for name in ("c.yaml", "d.json", "s.csv", "t.ncu.csv", "text/t.txt"):
        (folder / name).write_text("steps: 2\n")
    return folder


@pytest.mark.spread
@pytest.mark.parametrize(("name", "mode", "line", "named"), LINES)
def test_what_is_not_allowed_is_one_sentence_with_the_path(name, mode, line, named, made, tmp_path):
    if line == "ops build":
        pytest.importorskip("deepspeed", reason="needs DeepSpeed")
    folder = tmp_path / "here"
    shutil.copytree(made, folder)
    (folder / name).chmod(mode)
    done = program(line, folder)
    (folder / name).chmod(0o755)
    said = [text for text in done.stderr.splitlines() if text.startswith("dtlib: ")]
    assert done.returncode == 2 and len(said) == 1, done.stderr
    assert named in said[0] and "Errno" not in said[0] and said[0].endswith("."), said
    assert "Traceback" not in done.stderr + done.stdout
    assert "ermission denied" in said[0], said
