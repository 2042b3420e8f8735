"""Idle time of a pipeline's schedules on real ranks whose stages sleep, beside what is read off.

    python tests/bench/bench_pipeline.py [--ranks 4] [--micro-batches 8] [--quick]

F, B and W each take `--ms`, so the cores are free and four ranks need no four of them. All messages
are real; what they and the interpreter take is the difference. Nothing is asserted about times.
"""

import argparse
import json

import torch
from table import show, spread
from torch import nn
from torch.nn import functional as F

from dtlib.ranks.launcher import launch
from dtlib.scratch import pipeline as p

SCHEDULES = {
    "GPipe": (p.gpipe, 1),
    "1F1B": (p.one_forward_one_backward, 1),
    "interleaved, 2 stages": (p.interleaved(2), 2),
    "ZB-H1": (p.zero_bubble_h1, 1),
}


def seconds_of(ms: float, chunks: int) -> dict[str, float]:
    """How long a stage sleeps in each computation."""
    one = ms / 1000 / chunks
    return {"Forward": one, "Backward": 2 * one, "BackwardInput": one, "BackwardWeight": one}


def squares(y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(y, target, reduction="sum")


def steps(lists: list, seconds: dict[str, float], rounds: int) -> list[tuple[list, int]]:
    """On a rank: when its computations ran in each step, and what it kept."""
    torch.manual_seed(0)
    stages = 1 + max(line.stage for line in lists[-1])
    blocks = [nn.Linear(8, 8) for _ in range(stages)]
    worker = p.SleepingPipeline(blocks, lists, squares, timeout=20, seconds=seconds)
    many = 1 + max(line.micro_batch for line in lists[0])
    x, found = torch.ones(many, 8), []
    for _ in range(1 + rounds):
        torch.distributed.barrier()
        worker.step(x, x, x.numel())
        found.append((worker.spans, worker.most_kept))
    return found[1:]  # the first step connects the ranks


def measure(name: str, options: argparse.Namespace) -> dict:
    """One schedule: the bubble as read off and as measured in each round, and what ranks kept."""
    schedule, chunks = SCHEDULES[name]
    lists = p.for_all_ranks(schedule, options.ranks, options.micro_batches)
    seconds = seconds_of(options.ms, chunks)
    by_rank = launch(steps, lists, seconds, options.rounds, ranks=options.ranks, timeout=30,
                     show=False)  # fmt: skip
    measured = [
        p.idle_share([span for spans, _ in one for span in spans])
        for one in zip(*by_rank, strict=True)
    ]
    read = p.idle_share(p.follow(p.with_messages(lists), seconds))
    kept = [max(most for _, most in rank) for rank in by_rank]
    return {"name": name, "read": read, "measured": measured, "kept": kept, "chunks": chunks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--ms", type=float, default=150.0, help="F, B and W of a rank, each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of 1 ms: does it work?")
    parser.add_argument("--json", action="store_true", help="the rows as JSON on the last line")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.ms = 1, 1.0
    rows = [measure(name, options) for name in SCHEDULES]
    show(
        f"Pipelines that sleep: {options.ranks} gloo ranks, {options.micro_batches} micro-batches",
        [f"F = B = W = {options.ms:g} ms; {options.rounds} steps; median (min–max)",
         "idle time is a share of the time in which ranks compute"],
        ["schedule", "idle, read off", "idle, measured", "measured ÷ read", "kept, by rank"],
        [
            [
                row["name"], f"{row['read']:.3f}", spread(row["measured"], 3),
                spread([x / row["read"] for x in row["measured"]], 3),
                " ".join(f"{kept / row['chunks']:g}" for kept in row["kept"]),
            ]
            for row in rows
        ],
    )  # fmt: skip
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
