"""`dtlib` under DeepSpeed's launcher, which puts `--local_rank=K` before all other words."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest
from processes import free_port, run

from dtlib import cli
from dtlib.cli.launched import without_local_rank
from dtlib.errors import BadInput

WORDS = ["--local_rank=1", "train", "text", "--lr", "1e-3"]


def test_the_word_is_taken_away_where_it_says_nothing_new() -> None:
    assert without_local_rank(WORDS, {"LOCAL_RANK": "1"}) == WORDS[1:]


@pytest.mark.parametrize(
    ("env", "said"), [({}, "LOCAL_RANK is not set"), ({"LOCAL_RANK": "0"}, "LOCAL_RANK is 0 here")]
)
def test_where_no_launcher_can_have_said_it_it_is_refused(env: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        without_local_rank(WORDS, env)


def test_the_refusal_is_one_sentence_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "text", "--local_rank=3"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "`dtlib train text --ranks N` starts" in said


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs DeepSpeed")
def test_deepspeeds_launcher_starts_a_run_on_two_ranks(tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    launcher = shutil.which("deepspeed", path=str(folder))
    assert launcher
    train = ["train", "text", "--strategy", "zero2", "--steps", "2", "--global-batch", "4"]
    train += ["--max-length", "16", "--num-samples", "32", "--out", str(tmp_path / "run")]
    words = ["-q", "--num_gpus=2", f"--master_port={free_port()}", "--module", "dtlib", *train]
    env = {**os.environ, "DS_ACCELERATOR": "cpu", "PATH": f"{folder}:{os.environ['PATH']}"}
    done = run(launcher, *words, cwd=tmp_path, timeout=180, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "run/rank1.log").exists() and (tmp_path / "run/summary.json").exists()
