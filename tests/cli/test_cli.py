"""The command line: what it prints, where, and the exit code."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import python

import dtlib
from dtlib import cli
from dtlib.cli.commands import COMMANDS
from dtlib.config import RunConfig
from dtlib.errors import DtlibError, Stopped, Unavailable

pytestmark = pytest.mark.usefixtures("own_folder")
TINY = ["text", "--model", "nano", "--steps", "3", "--global-batch", "4", "--max-length", "16"]
TINY += ["--num-samples", "64", "--untimed-steps", "1"]


def ran(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return python("-m", "dtlib", *words, env={**os.environ, **env})


def test_help_names_every_command_and_none_that_does_not_exist(capsys):
    assert cli.main([]) == 0
    bare = capsys.readouterr().out
    assert cli.main(["--help"]) == 0
    assert capsys.readouterr().out == bare
    for command in COMMANDS:
        assert f"dtlib {command}" in bare
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"dtlib {dtlib.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_there_and_explains_itself(capsys, command):
    try:
        code = cli.main([command, "--help"])
    except SystemExit as left:  # how argparse ends
        code = left.code or 0
    assert code == 0
    assert f"dtlib {command}" in capsys.readouterr().out


def test_train_help_explains_every_setting(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["train", "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for field in dataclasses.fields(RunConfig):
        if field.name != "task":
            assert f"--{field.name.replace('_', '-')} " in shown.replace(",", " ")
    for action in cli.train_parser()._actions:
        assert action.help, f"{action.dest} has no help"


def test_help_needs_no_torch():
    code = (
        "import contextlib, sys; sys.modules['torch'] = None\n"
        "from dtlib.cli import main\n"
        "from dtlib.cli.commands import COMMANDS\n"
        "for name in COMMANDS:\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        main([name, '--help'])\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert not [name for name in COMMANDS if f"dtlib {name}" not in done.stdout]


def test_flags_win_over_the_file(tmp_path):
    (tmp_path / "run.yaml").write_text("task: text\nlr: 1e-5\nsteps: 7\nglobal_batch: 8\n")
    words = ["--config", "run.yaml", "--steps", "9", "--nvtx", "--deterministic"]
    config, as_json = cli.parse_train([*words, "--json"])
    assert as_json
    expected = RunConfig("text", lr=1e-5, steps=9, global_batch=8, nvtx=True, deterministic=True)
    assert config == expected
    assert isinstance(config.lr, float)


def test_task_on_the_command_line_wins_too(tmp_path):
    (tmp_path / "run.yaml").write_text("steps: 7\n")
    assert cli.parse_train(["images", "--config", "run.yaml"])[0] == RunConfig("images", steps=7)


@pytest.mark.parametrize(
    "words",
    [["--global-batch", "8"], ["--global_batch", "8"], ["--global-batch=8"], ["--global_batch=8"]],
    ids=" ".join,
)
def test_hyphens_and_underscores_are_the_same(words):
    assert cli.parse_train(["text", *words])[0] == RunConfig("text", global_batch=8)


def test_values_keep_their_underscores():
    config, _ = cli.parse_train(["text", "--data=my_texts", "--out", "a_b"])
    assert (config.data, config.out) == ("my_texts", "a_b")


@pytest.mark.parametrize(("error", "code"), [
    (Unavailable("no GPU; use --device cpu."), 69),
    (Stopped("stopped after step 3."), 75),
    (DtlibError("rank 1 died."), 1),
    (KeyboardInterrupt(), 130),
], ids=["unavailable", "stopped", "failed", "interrupted"])  # fmt: skip
def test_exit_codes(capsys, monkeypatch, error, code):
    def fail(config):
        raise error

    monkeypatch.setattr("dtlib.training.start.train", fail)
    assert cli.main(["train", "text"]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    assert str(error) in shown.err


def test_traceback_of_a_rank_stands_below_the_sentence(capsys, monkeypatch):
    def fail(config):
        error = DtlibError("rank 1 raised ValueError.")
        error.traceback = "  file.py, line 3, in f"  # as RankFailed has it
        raise error

    monkeypatch.setattr("dtlib.training.start.train", fail)
    assert cli.main(["train", "text"]) == 1
    assert capsys.readouterr().err == "dtlib: rank 1 raised ValueError.\n  file.py, line 3, in f\n"


def test_fault_of_our_own_is_a_traceback_and_1():
    code = (
        "import sys, dtlib.cluster.doctor; dtlib.cluster.doctor.examine = lambda: 1 / 0\n"
        "from dtlib.cli import main; sys.exit(main(['doctor']))"
    )
    done = python("-c", code)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


# torchrun turns every exit code into 1, so the file must say it
def test_output_that_nobody_reads_is_no_traceback():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "dtlib"], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == "dtlib: stopped, because the reader of its output has closed the pipe.\n"


def test_requeue_file_means_75(capsys, monkeypatch, tmp_path):
    def fail(config):
        Path(config.out).mkdir()
        (Path(config.out) / "requeue").write_text("stopped after step 3\n")
        raise DtlibError("torchrun left with 1.")

    monkeypatch.setattr("dtlib.training.start.train", fail)
    assert cli.main(["train", "text", "--out", "run"]) == 75


def test_a_wish_to_be_started_again_is_gone_when_the_next_start_fails(capsys, tmp_path):
    assert cli.main(["train", *TINY, "--ranks", "1", "--out", "run"]) == 0
    (tmp_path / "run" / "requeue").touch()
    capsys.readouterr()
    words = ["train", *TINY, "--ranks", "1", "--out", "run", "--resume", "--seed", "3"]
    assert cli.main(words) == 2
    assert "seed was 0 and is now 3" in capsys.readouterr().err


def test_lessons_get_their_words_and_keep_their_code(monkeypatch):
    seen = []
    monkeypatch.setattr("dtlib.lessons.main", lambda words: seen.append(words) or 69)
    assert cli.main(["lessons", "run", "07", "-p", "ranks=2"]) == 69
    assert seen == [["run", "07", "-p", "ranks=2"]]


def test_train_with_json_ends_in_the_summary(tmp_path):
    done = ran("train", *TINY, "--ranks", "2", "--out", "run", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["world_size"] == 2
    assert summary["steps"] == 3


def test_train_for_people_is_short_and_says_what_was_measured(tmp_path, capsys):
    assert cli.main(["train", *TINY, "--ranks", "1", "--out", "run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    report = lines[lines.index(next(line for line in lines if line.startswith("done: 3 steps"))) :]
    assert len(report) < 15
    for said in ("valid_loss", "perplexity", "protocol", "entropy", "tokens/s", "records"):
        assert any(said in line for line in report), said


def test_checkpoint_that_cannot_be_gone_on_from(tmp_path, capsys):
    words = ["train", "images", "--global-batch", "4", "--num-samples", "8", "--norm", "group"]
    words += ["--ranks", "1", "--out", "run", "--width", "8"]
    assert cli.main([*words, "--steps", "2", "--checkpoint-every", "1"]) == 0
    words += ["--steps", "3", "--resume"]

    def refused(*more: str) -> str:
        """Go on with a run that a rank must refuse, and return the sentence."""
        capsys.readouterr()
        assert cli.main([*words, *more]) == 2
        shown = capsys.readouterr().err
        assert "Traceback" not in shown
        said = [line for line in shown.splitlines() if line.startswith("dtlib: ")]
        assert len(said) == 1
        return said[0]

    assert "width was 8 and is now 16" in refused("--width", "16")
    for folder in (tmp_path / "run" / "checkpoints").iterdir():
        half = (folder / "shared.pt").read_bytes()[:1000]
        (folder / "shared.pt").write_bytes(half)
    said = refused()
    assert "no checkpoint in run/checkpoints is complete (torn: 2 of 2" in said
    assert "shared.pt has 1000 bytes instead of" in said


def test_under_torchrun_only_rank_0_prints():
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = python(*words, "-m", "dtlib", "train", *TINY, "--json", "--out", "run")
    assert done.returncode == 0, done.stderr
    found = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == 1
    assert json.loads(found[0])["world_size"] == 2


@pytest.mark.slow
def test_under_torchrun_bad_input_is_said_once():
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = python(*words, "-m", "dtlib", "train", "text", "--ranks", "4")
    assert done.returncode == 1  # torchrun's, whatever ours was
    said = [line for line in done.stderr.splitlines() if line.startswith("dtlib: ")]
    assert len(said) == 1
    assert "ranks=4 contradicts the world of 2" in said[0]
