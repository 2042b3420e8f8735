"""FSDP2 and DeepSpeed's ZeRO-3 beside each other: the course's strategies, on the same ranks."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from typing import Any

KINDS = ("parameters", "gradients", "optimizer", "fp32_copy", "padding")


def beside(several: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """On a rank: train the course's small GPT in several ways, for three steps each.

    Parameters
    ----------
    several
        By name, the settings of `dtlib.train` that differ.

    Returns
    -------
    dict
        By name: `losses`; of the third step `held` (bytes by kind before the update), `calls` and
        `sent` (of each collective: how often, and bytes on a ring); `parameters`, Ψ.
    """
    import dtlib

    alike: dict[str, Any] = {"steps": 3, "global_batch": 8, "max_length": 16}
    alike |= {"num_samples": 40, "checkpoint_every": 0, "ledger": True}
    found = {}
    for k, (name, settings) in enumerate(several.items()):
        with contextlib.redirect_stdout(io.StringIO()):
            run = dtlib.train("text", out=f"beside/{k}", **alike, **settings)
        page = run.summary["ledger"][0]
        calls = {c: t for c, t in page["collectives"].items() if c != "all_reduce"}  # of the loss
        found[name] = {
            "losses": [row["loss"] for row in run.history],
            "held": {kind: page["before_update"].get(kind, 0) for kind in KINDS},
            "calls": {c: tally["calls"] for c, tally in calls.items()},
            "sent": {c: tally["wire"] for c, tally in calls.items()},
            "parameters": run.summary["parameters"],
        }
    return found
