"""What the command line refuses: one sentence, and exit code 2."""

import pytest

from dtlib import cli
from dtlib.cli.commands import COMMANDS

pytestmark = pytest.mark.usefixtures("own_folder")


def bad(capsys, *words: str) -> str:
    """Run a command that must be refused, and return its one sentence."""
    assert cli.main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("dtlib: ")
    assert shown.err.count("\n") == 1, "one sentence on one line"
    assert "Traceback" not in shown.err
    return shown.err


BAD = {
    "trian": f"unknown command 'trian'; choose from {', '.join(COMMANDS)}. Did you mean 'train'?",
    "train": "say what to train",
    "train imges": "unknown task 'imges'; choose from images, text. Did you mean 'images'?",
    "train text --gobal-batch 8": "unknown setting '--gobal-batch'. Did you mean '--global-batch'?",
    "train text --gobal_batch=8": "unknown setting '--gobal-batch'. Did you mean '--global-batch'?",
    "train text more": "unknown setting 'more'. `dtlib train --help` lists all settings.",
    "train text --ste 3": "unknown setting '--ste'. Did you mean '--steps'?",
    "train text --steps": "argument --steps: expected one argument.",
    "train text --steps many": "steps is 'many'; it must be a whole number.",
    "train text --steps 1.5": "steps is '1.5'; it must be a whole number.",
    "train text --lr fast": "lr is 'fast'; it must be a number.",
    "train text --ranks 0": "ranks is 0; it must be at least 1.",
    "train text --ranks -1": "ranks is -1; it must be at least 1.",
    "train text --steps 3 --epochs 1": "steps 3 and epochs 1 both say when to stop; give one.",
    "train text --global-batch 10 --micro-batch 4 --ranks 2": "10 is not divisible by micro-batch",
    "train text --global-batch 8 --micro-batch 2 --accumulation 3 --ranks 2": "= 12",
    "train text --model nona": "nano",
    "train text --strategy ddpp": "Did you mean 'ddp'?",
    "train text --precision fp23": "Did you mean 'fp32'?",
    "train text --data /no/such/folder": "/no/such/folder",
    "train images --data /no/such/folder": "/no/such/folder",
    "train text --data gramar": "grammar",
    "train text --resume": "resume needs out",
    "train text --out /dev/null": "/dev/null cannot be written to (there is a file of that name)",
    "train text --config nowhere.yaml": "the configuration nowhere.yaml cannot be read",
    "train text --strategy single --ranks 2": "single",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_sentence_and_exit_2(capsys, words):
    assert BAD[words] in bad(capsys, *words.split())


YAML = {
    "stepps: 3": "unknown key 'stepps'. Did you mean 'steps'?",
    "steps: many": "steps is 'many'; it must be a whole number.",
    "lr: [1]": "lr is [1]; it must be a number.",
    "- text": "must hold lines of the form key: value",
    "a: b: c": "cannot be read",
    "\x00": "cannot be read",
    "steps: 3\nlr: 1\nsteps: 4": "run.yaml gives 'steps' twice; keep one.",
}


@pytest.mark.parametrize("text", YAML)
def test_bad_yaml_is_one_sentence_and_exit_2(capsys, tmp_path, text):
    (tmp_path / "run.yaml").write_text(text)
    assert YAML[text] in bad(capsys, "train", "text", "--config", "run.yaml")


def test_second_run_in_a_folder_is_refused(capsys, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text("{}")
    assert "add --resume" in bad(capsys, "train", "text", "--out", "old")
