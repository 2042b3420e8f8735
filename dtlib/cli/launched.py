"""What a launcher puts among a program's words: `--local_rank=K`, as LOCAL_RANK says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from dtlib.errors import BadInput


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
            there = f"{env['LOCAL_RANK']} here" if "LOCAL_RANK" in env else "not set"
            raise BadInput(
                f"{word} is what a launcher such as `deepspeed` says, and LOCAL_RANK is {there};"
                " leave it out, and `dtlib train --ranks N` starts the ranks itself."
            )
    return kept
