"""The table of strategies for the tests of all of them, and small runs of them on ranks.

A new strategy has its row here, and no other test needs to be touched: with the row it is compared
with `single`, takes its turn in the chain of checkpoints, and is killed and resumed.
"""

import contextlib
import importlib.util
import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import dtlib
from dtlib.training.checkpoint import Checkpoints
from dtlib.training.record import Run


@dataclass(frozen=True)
class Row:
    """What tests have to know of a strategy that is unlike ddp.

    Parameters
    ----------
    options
        Settings beside the strategy's name.
    framework
        The package that it needs, as one imports it.
    multiple
        It runs on a multiple of so many ranks.
    cuts
        What a rank holds a shard of: w(eights), g(radients), o(ptimizer).
    close
        How far a loss may be from that of `single`, on two ranks with the same micro-batches, in
        fp32; 0 for the same bits.
    resumes
        How far a loss may be off after a kill and a restart; 0 for the same bits.
    kills
        How often its run is killed.
    apart
        It is killed, and its checkpoints are read, in tests of its own.
    gpt
        It divides dtlib's own GPT, and neither pictures' nor transformers' models.
    runs
        Whether it runs on any machine of these tests.
    """

    options: dict[str, Any] = field(default_factory=dict)
    framework: str = "torch"
    multiple: int = 1
    cuts: str = ""
    close: float = 0.0
    resumes: float = 0.0
    kills: int = 1
    apart: bool = False
    gpt: bool = False
    runs: bool = True


# DeepSpeed divides a gradient before it is added up: losses of about 4 differ by a few roundings of
# 2.4e-7 each, and the course promises 1e-5.
_ZERO: dict[str, Any] = {"framework": "deepspeed", "close": 1e-5}
# DeepSpeed's Adam for the CPU multiplies its powers of beta up from step to step, and after a
# restart takes them at once: one rounding. Measured: 2e-7.
_OFFLOADED: dict[str, Any] = {**_ZERO, "resumes": 1e-5}

# A name is the strategy's, and after a comma what its options change. Rows share the ranks of a
# test one after the other, as runs of a notebook's cells do: what one leaves behind meets the next.
# The second kill hits a resumed run, which is the launcher's matter and not the strategy's: one
# strategy of plain torch and one of DeepSpeed are enough for it.
TABLE = {
    "single": Row(),
    "ddp": Row(kills=2),
    "ddp, small buckets": Row({"bucket_cap_mb": 0.1, "static_graph": True}),
    "fsdp": Row(cuts="wgo"),
    # both holders' gradients of the tied embedding are added up last
    "pipeline": Row(multiple=2, close=1e-6, gpt=True),
    "fsdp, one copy a rank": Row({"shard_ranks": 1}),
    "fsdp, offloaded": Row({"cpu_offload": True}, cuts="wgo"),
    # Terms of a sum of products lie on several ranks: a few roundings of 2.4e-7 each, as above.
    "tensor": Row(multiple=2, gpt=True, close=2e-6),
    "context": Row(runs=False),
    "accelerate": Row(framework="accelerate"),
    "lightning": Row(framework="lightning_fabric"),
    "zero1": Row(cuts="o", **_ZERO),
    "zero2": Row(cuts="go", **_ZERO),
    "zero3": Row(cuts="wgo", kills=2, **_ZERO),
    "offload": Row(cuts="go", **_OFFLOADED),
    "offload, stage 3": Row({"zero_stage": 3}, cuts="wgo", **_OFFLOADED),
    "infinity": Row(cuts="wgo", apart=True, **_OFFLOADED),
}
# What this machine has: on macOS, or without the extra, there is no DeepSpeed.
HERE = [name for name, row in TABLE.items() if importlib.util.find_spec(row.framework) and row.runs]
ZERO = [name for name in HERE if TABLE[name].framework == "deepspeed" and not TABLE[name].apart]
# Those of several ranks that test_zero does not look at.
CASES = [name for name in HERE if name != "single" and TABLE[name].framework != "deepspeed"]

SMALL = {"model": "nano", "tokenizer": "characters", "max_length": 8, "global_batch": 12,
         "steps": 4, "schedule": "constant"}  # fmt: skip


def settings_of(name: str) -> dict[str, Any]:
    """Return what a row tells `dtlib.train`."""
    return {"strategy": name.partition(",")[0], **TABLE[name].options}


def plain(names: Iterable[str]) -> list[str]:
    """Return the rows without options: each strategy once."""
    return [name for name in names if not TABLE[name].options]


def ranks_of(name: str, wanted: int) -> int:
    """Return that number of ranks, or the least one where a strategy does not run on so many."""
    if name == "single":
        return 1
    multiple = TABLE[name].multiple
    return multiple if wanted % multiple else wanted


def by_ranks(names: Iterable[str], wanted: int) -> dict[int, list[str]]:
    """Return number of ranks → the rows that run on it: the wanted one for all that can."""
    found: dict[int, list[str]] = {}
    for name in names:
        found.setdefault(ranks_of(name, wanted), []).append(name)
    return found


def train(name: str, **settings: Any) -> Run:
    """Train the row of that name in the world that is there; `data` is a folder of text."""
    with contextlib.redirect_stdout(io.StringIO()):
        return dtlib.train("text", **{**SMALL, "out": name, **settings_of(name), **settings})


def train_each(names: list[str], **settings: Any) -> dict[str, dict[str, Any]]:
    """Train several rows one after the other on the ranks that this runs on."""
    return {name: figures(train(name, **settings)) for name in names}


def figures(run: Run) -> dict[str, Any]:
    """Return what runs are compared by."""
    return {
        "losses": [line["loss"] for line in run.history],
        "norms": [line.get("grad_norm") for line in run.history],
        "rates": [line["lr"] for line in run.history],
        "held_out": run.summary["evaluation"]["valid_loss"],
        "parameters": run.summary["parameters"],
    }


def state(run: Run) -> dict[str, Any]:
    """Return the strategy's state in the run's last checkpoint."""
    loaded = Checkpoints(run.folder / "checkpoints").latest()
    assert loaded is not None
    return loaded.shared["strategy"]
