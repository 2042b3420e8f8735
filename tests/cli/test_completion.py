"""Completion, by the bash that a person types into."""

from __future__ import annotations

import contextlib
import os
import pty
import shlex
import shutil
import subprocess
import sys
import threading

import argcomplete
import pytest

LINES = {
    "dtlib tr": ("train", "study"),
    "dtlib help do": ("doctor", "train"),
    "dtlib train ": ("images", "doctor"),
    "dtlib train text --micro": ("--micro-batch", "--steps"),
    "dtlib train text --precision f": ("fp16", "bf16"),
    "dtlib train text --strategy ": ("zero3", "zero9"),
    "dtlib profile n": ("nsys", "read"),
    "dtlib profile ": ("read", "train"),
    "dtlib sim ": ("memory", "train"),
    "dtlib profile ncu --ker": ("--kernels", "--skip"),
    "dtlib lessons b": ("build", "list"),
    "dtlib lessons run --kind ": ("instructor", "00"),
    "dtlib study strong --opt": ("--optimizer", "--out"),
    "dtlib sim memory --att": ("--attention", "--model"),
    "dtlib batch st": ("status", "submit"),
    "dtlib batch launch --sr": ("--srun", "--print"),
    "dtlib completion ": ("zsh", "tcsh"),
}


@pytest.fixture
def program(tmp_path):
    """A folder that holds `dtlib` as a program, as an installation would."""
    path = tmp_path / "dtlib"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m dtlib "$@"\n')
    path.chmod(0o755)
    return tmp_path


def judge(offered: str) -> None:
    for line, words in zip(LINES, offered.splitlines(), strict=True):
        there, other = LINES[line]
        assert there in words.split() and other not in words.split(), f"{line}: {words}"


def test_bash_completes_commands_settings_and_choices(program):
    script = [f"PATH={program}:$PATH", "source <(dtlib completion bash)"]
    for line in LINES:
        script += [
            f"COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; COMPREPLY=()",
            'COMP_TYPE=9; _python_argcomplete dtlib; echo "${COMPREPLY[@]}"',
        ]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], capture_output=True, text=True, timeout=120, check=True
    )
    judge(done.stdout)


@pytest.mark.slow  # 17 programs are started, one for each line
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed here")
def test_fish_completes_commands_settings_and_choices(program):
    asked = [f"echo (complete -C {shlex.quote(line)} | cut -f 1)" for line in LINES]
    script = [f"set PATH {program} $PATH", "dtlib completion fish | source", *asked]
    done = subprocess.run(
        ["fish", "--no-config", "-c", "\n".join(script)],
        capture_output=True, text=True, timeout=120, check=True, cwd=program,
    )  # fmt: skip
    judge(done.stdout)


ZSHRC = """
autoload -U compinit; compinit -u -D
source <(dtlib completion zsh)
_every_match() { _main_complete; compstate[insert]=all; compstate[list]= }
zle -C every-match complete-word _every_match
zle-line-init() {
  for line in ${(f)"$(<lines)"}; do
    BUFFER=$line CURSOR=$#line
    zle every-match
    print -r -- "${BUFFER#${line% *} }" >> offered
  done
  exit
}
zle -N zle-line-init
"""


@pytest.mark.slow  # 17 programs are started, one for each line
@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed here")
def test_zsh_completes_commands_settings_and_choices(program):
    """Its completion works in its editor alone, at a terminal: all that fits is put into a line."""
    (program / ".zshrc").write_text(ZSHRC)
    (program / "lines").write_text("\n".join(LINES) + "\n")
    ours, its = pty.openpty()
    path = f"{program}:{os.environ['PATH']}"
    env = {**os.environ, "ZDOTDIR": str(program), "PATH": path, "TERM": "vt100"}
    process = subprocess.Popen(
        ["zsh", "-i"], stdin=its, stdout=its, stderr=its, env=env, cwd=program,
        start_new_session=True,
    )  # fmt: skip
    os.close(its)
    clock = threading.Timer(120, process.kill)
    clock.start()
    with contextlib.suppress(OSError):  # how Linux says that the terminal's other end is closed
        while os.read(ours, 4096):
            pass
    assert process.wait() == 0
    clock.cancel()
    os.close(ours)
    judge((program / "offered").read_text())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_function(shell):
    words = [sys.executable, "-m", "dtlib", "completion", shell]
    made = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert made.strip() == argcomplete.shellcode(["dtlib"], shell=shell).strip()
