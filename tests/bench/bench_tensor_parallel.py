"""Tokens per second of tensor parallelism by hand and of torch's DTensor, at equal loss.

    python tests/bench/bench_tensor_parallel.py [--shape nano|5M] [--ranks 2] [--rounds 9] [--quick]

All ranks share each batch: `--micro-batch` windows for each rank, computed by all of them.
"""

import json

from bench_zero import measure, notes, options_of, summary
from table import ratios, show, spread


def main() -> None:
    options = options_of(__doc__.splitlines()[0])
    names = [f"{by} {way}" for way in ("tensor", "sequence") for by in ("DTensor", "scratch")]
    rows = summary(measure(names, options, "tensor_contestants"), options)
    by_name = {row["name"]: row for row in rows}

    def ratio(row: dict, key: str) -> str:
        rival = by_name.get(row["name"].replace("scratch", "DTensor"), row)
        return spread(ratios(row[key], rival[key]), 3)

    show(
        f"Tensor parallelism by hand and torch's: {options.ranks} gloo ranks, 1 thread each",
        [*notes(options), "DTensor is parallelize_module with ColwiseParallel, RowwiseParallel and"
         " loss_parallel; sequence adds SequenceParallel"],
        ["contestant", "tokens per second", "ratio", "tokens per CPU-second", "ratio",
         "final loss", "largest gap of a step's loss"],
        [
            [
                row["name"], spread(row["per_s"]), ratio(row, "per_s"),
                spread(row["per_cpu_s"]), ratio(row, "per_cpu_s"),
                f"{row['loss']:.7f}", f"{row['loss_gap']:.1e}",
            ]
            for row in rows
        ],
    )  # fmt: skip
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
