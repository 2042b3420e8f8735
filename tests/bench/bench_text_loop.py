"""Tokens per CPU-second of five training loops over one tiny GPT, at equal loss.

    python tests/bench/bench_text_loop.py [--ranks 2] [--repeats 5] [--steps 60] [--quick]

Model, weights, batches, their order, AdamW and clipping are shared (`text_contestants.py`); each
run is a fresh process on one thread a rank; the clocks are read after the warm-up steps and after
the last step, over the whole process tree.
"""

import argparse
import json
import sys
import tempfile

from table import contestant, interleave, ratios, run_fresh, show, spread

LABELS = {"plain": "plain PyTorch loop", "dtlib": "dtlib.train", "accelerate": "Accelerate loop",
          "transformers": "transformers Trainer", "lightning": "Lightning Trainer"}  # fmt: skip
CONTEXT = 64  # tokens in a window of GPT nano


def measure(options: argparse.Namespace) -> dict[str, list[dict]]:
    """Run every contestant `repeats` times, in turns."""
    request = {key: getattr(options, key) for key in ("warmup", "steps", "global_batch")}

    def run(name: str) -> dict:
        with tempfile.TemporaryDirectory() as folder:
            command = contestant("text_contestants.py", name=name, folder=folder, **request)
            if options.ranks > 1:
                torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
                command = [*torchrun, "--nproc-per-node", str(options.ranks), *command[1:]]
            return run_fresh(command, timeout=options.timeout)

    return interleave(list(LABELS), options.repeats, run)


def summary(results: dict[str, list[dict]], options: argparse.Namespace) -> list[dict]:
    """One row a contestant: rates of each repeat, and how far its losses are from the plain ones.

    The gap is the largest relative one over all steps of all repeats.
    """
    tokens = options.steps * options.global_batch * CONTEXT
    reference = results["plain"][0]["losses"]
    return [
        {
            "name": name,
            "per_cpu_s": [tokens / run["cpu_s"] for run in runs],
            "per_s": [tokens / run["wall_s"] for run in runs],
            "first_loss": runs[0]["losses"][0],
            "loss": runs[0]["losses"][-1],
            "loss_gap": max(
                abs(loss - expected) / expected
                for run in runs
                for loss, expected in zip(run["losses"], reference, strict=True)
            ),
        }
        for name, runs in results.items()
    ]


def print_table(rows: list[dict], options: argparse.Namespace) -> None:
    """Print one row a loop."""
    plain = next(row for row in rows if row["name"] == "plain")["per_cpu_s"]
    show(
        f"Training loops on GPT nano, {options.ranks} rank(s), 1 thread a rank",
        [
            f"global batch {options.global_batch} × {CONTEXT} tokens; {options.warmup} warm-up and "
            f"{options.steps} timed steps; median (min–max) of {options.repeats} runs in turns",
        ],
        ["loop", "tokens per CPU-second", "of plain, run by run", "tokens per second",
         "final loss", "largest gap of a step's loss"],
        [
            [
                LABELS[row["name"]], spread(row["per_cpu_s"]),
                spread(ratios(row["per_cpu_s"], plain), 3), spread(row["per_s"]),
                f"{row['loss']:.8f}", f"{row['loss_gap']:.1e}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=5, help="optimizer steps before the clock")
    parser.add_argument("--steps", type=int, default=60, help="timed optimizer steps")
    parser.add_argument("--global-batch", type=int, default=16)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--quick", action="store_true", help="one run of 6 steps: does it work?")
    parser.add_argument("--json", action="store_true", help="the rows as JSON on the last line")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.warmup, options.steps = 1, 1, 5
    rows = summary(measure(options), options)
    print_table(rows, options)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
