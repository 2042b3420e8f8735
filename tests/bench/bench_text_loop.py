"""Tokens per CPU-second of five training loops over one tiny GPT, and what their parts are worth.

    python tests/bench/bench_text_loop.py [--ranks 2] [--rounds 31] [--steps 3] [--quick]

Model, weights, batches, their order, fused AdamW and clipping are shared (`text_contestants.py`).
Every contestant has processes of its own, one a rank on one thread, and they take turns of a few
steps (`turns.py`). After the five come plain loops with one thing changed each.
"""

import argparse
import json
import statistics
import tempfile

from table import ratios, show, spread
from turns import Contestant, take_turns

LABELS = {"plain": "plain PyTorch loop", "dtlib": "dtlib.train", "accelerate": "Accelerate loop",
          "transformers": "transformers Trainer", "lightning": "Lightning Trainer"}  # fmt: skip
SHARED = ("kernels", "precision", "threads")  # what every one of the five has to have alike
CONTEXT = 64  # tokens in a window of GPT nano


def names(options: argparse.Namespace) -> list[str]:
    """The five, then plain loops with one change; those only where one rank is asked for."""
    from text_contestants import CHANGES

    return [*LABELS, *(f"plain, {change}" for change in CHANGES if options.ranks == 1)]


def measure(options: argparse.Namespace) -> dict[str, list[dict]]:
    """Give every contestant its turns."""
    total = options.warmup + options.rounds * options.steps
    with tempfile.TemporaryDirectory() as top:

        def start(name: str) -> Contestant:
            folder = tempfile.mkdtemp(dir=top)  # one for all ranks of the contestant
            request = {"total": total, "global_batch": options.global_batch, "folder": folder}
            # As one process dtlib.train would start a rank of its own, out of the bench's reach.
            launched = options.ranks if options.ranks > 1 or name == "dtlib" else None
            request["name"] = name
            return Contestant("text_contestants", request, launched, options.timeout)

        return take_turns(names(options), start, options.rounds, options.warmup, options.steps)


def summary(results: dict[str, list[dict]], options: argparse.Namespace) -> list[dict]:
    """One row a contestant: rates of each turn, and how far its losses are from the plain ones.

    The gap is the largest relative one over all steps, those of the warm-up included.
    """
    tokens = options.steps * options.global_batch * CONTEXT
    losses = {name: played[-1]["losses"][0] for name, played in results.items()}
    return [
        {
            "name": name,
            "per_cpu_s": [tokens / turn["cpu_s"] for turn in played],
            "per_s": [tokens / turn["wall_s"] for turn in played],
            "first_loss": losses[name][0],
            "loss": losses[name][-1],
            "loss_gap": max(
                abs(loss - expected) / expected
                for loss, expected in zip(losses[name], losses["plain"], strict=True)
            ),
            **{key: played[-1][key] for key in (*SHARED, "calls", "reads")},
        }
        for name, played in results.items()
    ]


def middle_half(values: list[float]) -> str:
    """`median (first–third quartile)`: on a busy machine the ends are those of other work."""
    # twice the values have the same quartiles, and one turn has some, too
    low, middle, high = statistics.quantiles([*values, *values], n=4)
    return f"{middle:.3f} ({low:.3f}–{high:.3f})"


def verdict(rows: list[dict]) -> list[str]:
    """What the five have alike, and how dtlib stands to the best of the others."""
    five = {row["name"]: row for row in rows if row["name"] in LABELS}
    said = []
    for key in SHARED:
        found = {json.dumps(row[key]) for row in five.values()}
        said.append(f"{key} of the five: {' ≠ '.join(sorted(found))}")
    ours = five.pop("dtlib")["per_cpu_s"]
    best = max(five, key=lambda name: statistics.median(five[name]["per_cpu_s"]))
    ratio = middle_half(ratios(ours, five[best]["per_cpu_s"]))
    return [*said, f"dtlib.train beside the best other, {LABELS[best]}: {ratio}"]


def print_table(rows: list[dict], options: argparse.Namespace) -> None:
    """Print one row a loop."""
    plain = next(row for row in rows if row["name"] == "plain")["per_cpu_s"]
    show(
        f"Training loops on GPT nano, {options.ranks} rank(s), 1 thread a rank",
        [
            f"global batch {options.global_batch} × {CONTEXT} tokens; {options.rounds} turns of "
            f"{options.steps} steps after {options.warmup}; median (min–max)",
            "ratios compare turns of one round: their median, and the middle half of them",
            *verdict(rows),
        ],
        ["loop", "tokens per CPU-second", "of plain, turn by turn", "tokens per second",
         "final loss", "largest gap of a step's loss", "torch calls a step", "numbers read"],
        [
            [
                LABELS.get(row["name"], row["name"]), spread(row["per_cpu_s"]),
                middle_half(ratios(row["per_cpu_s"], plain)), spread(row["per_s"]),
                f"{row['loss']:.8f}", f"{row['loss_gap']:.1e}", row["calls"], row["reads"],
            ]
            for row in rows
        ],
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=31, help="turns of every contestant")
    parser.add_argument(
        "--warmup", type=int, default=5, help="steps before the first turn, 2 or more"
    )
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn")
    parser.add_argument("--global-batch", type=int, default=16)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for a turn")
    parser.add_argument("--quick", action="store_true", help="one turn of 4 steps: does it work?")
    parser.add_argument("--json", action="store_true", help="the rows as JSON on the last line")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.warmup, options.steps = 1, 2, 4
    rows = summary(measure(options), options)
    print_table(rows, options)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
