"""Tokens per second of ZeRO by hand, of DeepSpeed, and of torch's DDP and FSDP, at equal loss.

    python tests/bench/bench_zero.py [--shape nano|5M] [--ranks 2] [--rounds 9] [--quick]

Every contestant has processes of its own, one a rank on one thread, and they take turns of a few
steps (`turns.py`). Losses are compared step by step with those of the first contestant.
"""

import argparse
import json

from scratch_contestants import CONTEXT, SHAPES
from table import ratios, show, spread
from turns import Contestant, take_turns

NAMES = ["torch DDP", "torch FSDP2", "scratch stage 1", "DeepSpeed stage 1", "scratch stage 2",
         "DeepSpeed stage 2", "scratch stage 3", "DeepSpeed stage 3"]  # fmt: skip


def options_of(description: str) -> argparse.Namespace:
    """The options of the benches that compare kernels written by hand."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--shape", default="nano", choices=SHAPES)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--micro-batch", type=int, default=4, help="windows a rank and step")
    parser.add_argument("--rounds", type=int, default=9, help="turns of every contestant")
    parser.add_argument("--warmup", type=int, default=5, help="steps before the first turn")
    parser.add_argument("--steps", type=int, default=10, help="steps of a turn")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds for a turn")
    parser.add_argument("--only", nargs="+", help="these contestants, by name")
    parser.add_argument("--quick", action="store_true", help="one turn of 3 steps: does it work?")
    parser.add_argument("--json", action="store_true", help="the rows as JSON on the last line")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.warmup, options.steps = 1, 1, 3
    return options


def measure(
    names: list[str], options: argparse.Namespace, module: str = "scratch_contestants"
) -> dict[str, list[dict]]:
    """Give every contestant its turns; `module` has their code."""

    def start(name: str) -> Contestant:
        request = {"name": name, "shape": options.shape, "micro_batch": options.micro_batch}
        return Contestant(module, request, options.ranks, options.timeout)

    names = [name for name in names if not options.only or name in options.only]
    return take_turns(names, start, options.rounds, options.warmup, options.steps)


def summary(results: dict[str, list[dict]], options: argparse.Namespace) -> list[dict]:
    """One row a contestant: rates of each turn, and how far its losses are from the first one's."""
    tokens = options.steps * options.ranks * options.micro_batch * CONTEXT
    reference = [turn["losses"] for turn in next(iter(results.values()))]
    return [
        {
            "name": name,
            "per_s": [tokens / turn["wall_s"] for turn in played],
            "per_cpu_s": [tokens / turn["cpu_s"] for turn in played],
            "loss": sum(rank[-1] for rank in played[-1]["losses"]) / options.ranks,
            "loss_gap": max(
                abs(loss - expected) / expected
                for turn, wanted in zip(played, reference, strict=True)
                for rank, ranks in zip(turn["losses"], wanted, strict=True)
                for loss, expected in zip(rank, ranks, strict=True)
            ),
            **{key: played[-1][key] for key in ("link_s", "waited_s") if key in played[-1]},
        }
        for name, played in results.items()
    ]


def notes(options: argparse.Namespace) -> list[str]:
    """What stands above the table."""
    layers, heads, width = SHAPES[options.shape]
    return [
        f"GPT of {layers} layers, {heads} heads, width {width}; {options.micro_batch} × {CONTEXT} "
        f"tokens a rank and step; {options.rounds} turns of {options.steps} steps after "
        f"{options.warmup}; median (min–max)",
        "a ratio compares turns that stood next to each other; 1.1 is 10 % more tokens",
    ]


def against(name: str) -> str:
    """Whom a contestant is compared with: DeepSpeed's same stage, else torch DDP."""
    return name.replace("scratch", "DeepSpeed") if name.startswith("scratch") else "torch DDP"


def main() -> None:
    options = options_of(__doc__.splitlines()[0])
    rows = summary(measure(NAMES, options), options)
    by_name = {row["name"]: row for row in rows}

    def ratio(row: dict, key: str) -> str:
        rival = by_name.get(against(row["name"]), row)
        return spread(ratios(row[key], rival[key]), 3)

    show(
        f"ZeRO by hand, DeepSpeed, torch: {options.ranks} gloo ranks, 1 thread each",
        [*notes(options), "scratch is compared with DeepSpeed's same stage, others with torch DDP"],
        ["contestant", "tokens per second", "ratio", "tokens per CPU-second", "ratio",
         "final loss", "largest gap of a step's loss"],
        [
            [
                row["name"], spread(row["per_s"]), ratio(row, "per_s"), spread(row["per_cpu_s"]),
                ratio(row, "per_cpu_s"), f"{row['loss']:.7f}", f"{row['loss_gap']:.1e}",
            ]
            for row in rows
        ],
    )  # fmt: skip
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
