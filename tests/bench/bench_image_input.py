"""Pictures per second of our device-resident input path and of torchvision in a DataLoader.

    python tests/bench/bench_image_input.py [--data cifar10] [--repeats 5] [--quick]

Random crop, mirror and normalisation of batches of 128. Each run is a fresh process on one thread
(and its workers); the CPU clock is read over the whole process tree.
"""

import argparse
import json

from table import contestant, interleave, ratios, run_fresh, show, spread

PATHS = {
    "dtlib, on the device in whole batches": ("device", 0),
    "dtlib, DataLoader, 0 workers": ("loader", 0),
    "dtlib, DataLoader, 2 workers": ("loader", 2),
    "torchvision v2, DataLoader, 0 workers": ("v2", 0),
    "torchvision v2, DataLoader, 2 workers": ("v2", 2),
    "torchvision classic (PIL), 0 workers": ("classic", 0),
    "torchvision classic (PIL), 2 workers": ("classic", 2),
}


def measure(options: argparse.Namespace) -> dict[str, list[dict]]:
    """Run every path `repeats` times, in turns; the fast path gets more batches, not less time."""

    def run(label: str) -> dict:
        path, workers = PATHS[label]
        steps = options.steps * (options.device_factor if path == "device" else 1)
        command = contestant(
            "image_contestants.py", path=path, workers=workers, steps=steps,
            warmup=options.warmup, batch=options.batch, data=options.data, count=options.count,
        )  # fmt: skip
        return {"pictures": steps * options.batch, **run_fresh(command, timeout=options.timeout)}

    return interleave(list(PATHS), options.repeats, run)


def summary(results: dict[str, list[dict]]) -> list[dict]:
    """One row a path."""
    return [
        {
            "name": label,
            "per_s": [run["pictures"] / run["wall_s"] for run in runs],
            "per_cpu_s": [run["pictures"] / run["cpu_s"] for run in runs],
            "mean": runs[0]["mean"],
            "std": runs[0]["std"],
            "pixel_gap": max(run["pixel_gap"] for run in runs),
        }
        for label, runs in results.items()
    ]


def print_table(rows: list[dict], source: str, options: argparse.Namespace) -> None:
    """Print pictures per second, per CPU-second, and how alike the pictures are."""
    ours = rows[0]["per_cpu_s"]
    show(
        f"Image input: crop, mirror, normalise, batches of {options.batch}",
        [
            f"{source}; one thread a process; {options.warmup} warm-up and {options.steps} timed "
            f"batches (device path: {options.device_factor} times as many); "
            f"median (min–max) of {options.repeats} runs in turns",
            "pixel difference: the largest from the device path, given the same crops and flips",
        ],
        ["path", "pictures per second", "per CPU-second", "device path is × per CPU-second",
         "mean", "std", "pixel difference"],
        [
            [
                row["name"], spread(row["per_s"]), spread(row["per_cpu_s"]),
                spread(ratios(ours, row["per_cpu_s"]), 1),
                f"{row['mean']:.3f}", f"{row['std']:.3f}", f"{row['pixel_gap']:.1e}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="pictures", help="pictures, cifar10, or a folder")
    parser.add_argument("--count", type=int, default=10_000, help="pictures in the data set")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=10, help="batches before the clock")
    parser.add_argument("--steps", type=int, default=100, help="timed batches")
    parser.add_argument("--device-factor", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    parser.add_argument("--quick", action="store_true", help="one run of 4 batches: does it work?")
    parser.add_argument("--json", action="store_true", help="the rows as JSON on the last line")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.warmup, options.steps, options.device_factor = 1, 1, 4, 1
        options.count = 1_000
    results = measure(options)
    rows = summary(results)
    source = next(iter(results.values()))[0]["source"]
    print_table(rows, source, options)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
