"""Tokens per second of data parallel by hand, in four ways, and of torch DDP, at equal loss.

    python tests/bench/bench_data_parallel.py [--shape nano|5M] [--ranks 2] [--rounds 9] [--quick]

Compute and gloo share the cores here, so overlap has little to gain. The last two rows send over
Gigabit Ethernet, simulated by a clock (`dtlib.scratch.data_parallel.delayed_link`): one in a bucket
that is full when backward ends, the other in buckets that leave while it runs.
"""

import json

from bench_zero import measure, notes, options_of, summary
from table import ratios, show, spread

REAL = ["torch DDP", "torch DDP, bucket views", "overlap", "buckets", "flat", "naive",
        "no communication"]  # fmt: skip
SLOW = ["slow link, one bucket", "slow link, buckets of 1 MiB"]


def main() -> None:
    options = options_of(__doc__.splitlines()[0])
    rows = summary(measure(REAL + SLOW, options), options)
    ddp = rows[0]

    def hidden(row: dict) -> str:
        if "link_s" not in row:
            return ""
        return f"{1 - row['waited_s'] / row['link_s']:.0%} of {row['link_s']:.1f} s"

    show(
        f"Data parallel by hand and torch DDP: {options.ranks} gloo ranks, 1 thread each",
        [
            *notes(options),
            "the ratio is to torch DDP with its defaults; hidden: the share of the simulated "
            "link's seconds that no rank waited for",
        ],
        ["way", "tokens per second", "ratio", "tokens per CPU-second", "ratio", "hidden",
         "largest gap of a step's loss"],
        [
            [
                row["name"],
                spread(row["per_s"]), spread(ratios(row["per_s"], ddp["per_s"]), 3),
                spread(row["per_cpu_s"]), spread(ratios(row["per_cpu_s"], ddp["per_cpu_s"]), 3),
                hidden(row),
                "" if row["name"] == "no communication" else f"{row['loss_gap']:.1e}",
            ]
            for row in rows
        ],
    )  # fmt: skip
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
