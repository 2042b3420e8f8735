"""FSDP2 and DeepSpeed's ZeRO-3 beside each other: the course's strategies, on the same ranks."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

KINDS = ("parameters", "gradients", "optimizer", "fp32_copy", "padding")


def beside(strategies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """On a rank: train the course's small GPT under each strategy for three steps.

    Returns
    -------
    dict
        By strategy: `losses`; of the third step `held` (bytes by kind before the update), `calls`
        and `sent` (of each collective: how often, and bytes on a ring).
    """
    import dtlib

    settings: dict[str, Any] = {"steps": 3, "global_batch": 8, "max_length": 16}
    settings |= {"num_samples": 40, "checkpoint_every": 0, "ledger": True}
    found = {}
    for name in strategies:
        with contextlib.redirect_stdout(io.StringIO()):
            run = dtlib.train("text", strategy=name, out=f"beside/{name}", **settings)
        page = run.summary["ledger"][0]
        found[name] = {
            "losses": [row["loss"] for row in run.history],
            "held": {kind: page["before_update"].get(kind, 0) for kind in KINDS},
            "calls": {c: tally["calls"] for c, tally in page["collectives"].items()},
            "sent": {c: tally["wire"] for c, tally in page["collectives"].items()},
            "parameters": run.summary["parameters"],
        }
    return found
