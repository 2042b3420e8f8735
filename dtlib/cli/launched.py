"""What launchers leave to a rank: drop their `--local_rank=K`, share one hash seed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from dtlib.config import CHOICES
from dtlib.errors import BadInput
from dtlib.ranks.environment import HASH_SEED, environment_world, hash_seed


def without_local_rank(words: Sequence[str], env: Mapping[str, str] = os.environ) -> list[str]:
    """Return a program's words without the `--local_rank=K` that the `deepspeed` launcher adds.

    The word repeats LOCAL_RANK, so nothing is lost.

    Raises `BadInput` when LOCAL_RANK is not set or differs: then no launcher can have added it.
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
                f"{word} is for launchers such as `deepspeed`, which set LOCAL_RANK, but LOCAL_RANK"
                f" is {there}; leave it out: `dtlib train {task} --ranks N` starts ranks itself."
            )
    return kept


def share_hash_seed(env: Mapping[str, str] = os.environ) -> None:
    """Restart this process if it is a rank whose hash seed differs from that of the others.

    Python reads the seed when it starts. torch is not loaded yet, so this takes only 0.1 s.
    """
    try:
        there = environment_world(env)
    except BadInput:  # the command will report it
        return
    if there and there.world_size > 1 and env.get(HASH_SEED) != hash_seed(env):
        again = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, again, {**env, HASH_SEED: hash_seed(env)})
