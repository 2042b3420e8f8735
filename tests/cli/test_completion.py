"""Completion, by the bash that a person types into."""

from __future__ import annotations

import shlex
import subprocess
import sys

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


def test_bash_completes_commands_settings_and_choices(tmp_path):
    program = tmp_path / "dtlib"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dtlib "$@"\n')
    program.chmod(0o755)
    script = [f"PATH={tmp_path}:$PATH", "source <(dtlib completion bash)"]
    for line in LINES:
        script += [
            f"COMP_LINE={shlex.quote(line)}; COMP_POINT=${{#COMP_LINE}}; COMPREPLY=()",
            'COMP_TYPE=9; _python_argcomplete dtlib; echo "${COMPREPLY[@]}"',
        ]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], capture_output=True, text=True, timeout=120, check=True
    )
    for line, offered in zip(LINES, done.stdout.splitlines(), strict=True):
        words, (there, other) = offered.split(), LINES[line]
        assert there in words and other not in words, f"{line}: {words}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_function(shell):
    words = [sys.executable, "-m", "dtlib", "completion", shell]
    made = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert made.strip() == argcomplete.shellcode(["dtlib"], shell=shell).strip()
