"""Tokens per second of pipelines by hand and of torch.distributed.pipelining, at equal loss.

    python tests/bench/bench_pipeline_speed.py [--shape nano|5M|deep] [--ranks 2] [--rounds 9]

Ranks outnumber cores, so no schedule's bubble shows here (`bench_pipeline.py` shows it): what is
compared is what a schedule's worker costs beside the same computations.
"""

import json

from bench_zero import measure, notes, options_of, summary
from table import ratios, show, spread

SCHEDULES = ["GPipe", "1F1B", "interleaved", "zero bubble"]


def main() -> None:
    options = options_of(__doc__.splitlines()[0])
    names = [f"{by} {schedule}" for schedule in SCHEDULES for by in ("torch", "scratch")]
    rows = summary(measure(names, options, "pipeline_contestants"), options)
    by_name = {row["name"]: row for row in rows}

    def ratio(row: dict, key: str) -> str:
        rival = by_name.get(row["name"].replace("scratch", "torch"), row)
        return spread(ratios(row[key], rival[key]), 3)

    show(
        f"Pipelines by hand and torch's: {options.ranks} gloo ranks, 1 thread each",
        [*notes(options), f"{2 * options.ranks} micro-batches; interleaved has 2 stages on a rank;"
         " scratch is compared with torch's same schedule"],
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
