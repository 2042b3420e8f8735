"""What a rank owes to its launcher: `--local_rank=K` among its words, and no shared hash seed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from dtlib.config import CHOICES
from dtlib.errors import BadInput
from dtlib.ranks.environment import HASH_SEED, environment_world, hash_seed


def without_local_rank(words: Sequence[str], env: Mapping[str, str] = os.environ) -> list[str]:
    """Return a program's words without the one that the `deepspeed` launcher puts first.

    It says again what LOCAL_RANK says, so that nothing is lost.

    Raises `BadInput` when LOCAL_RANK is not there or says something else: no launcher can have put
    it there.
    """
    kept = []
    for word in words:
        said = re.fullmatch(r"--local[_-]rank=(\d+)", word)
        if not said:
            kept.append(word)
        elif env.get("LOCAL_RANK") != said[1]:
            task = next((word for word in words if word in CHOICES["task"]), "images|text")
            there = f"{env['LOCAL_RANK']} here" if "LOCAL_RANK" in env else "not set"
            raise BadInput(
                f"{word} is what a launcher such as `deepspeed` says, and LOCAL_RANK is {there};"
                f" leave it out, and `dtlib train {task} --ranks N` starts the ranks itself."
            )
    return kept


def share_hash_seed(env: Mapping[str, str] = os.environ) -> None:
    """Start this process again if it is a rank whose hash seed is not that of the others.

    Python takes the seed as it starts. torch is not loaded yet, so this costs a tenth of a second.
    """
    try:
        there = environment_world(env)
    except BadInput:  # which the command will say
        return
    if there and there.world_size > 1 and env.get(HASH_SEED) != hash_seed(env):
        again = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, again, {**env, HASH_SEED: hash_seed(env)})
