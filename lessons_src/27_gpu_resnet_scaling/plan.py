"""What lesson 27 runs: a ladder of settings on one GPU, then studies that scale the fastest one."""

import math
import statistics

from dtlib.config import RunConfig
from dtlib.study import family
from dtlib.study.tables import REPEAT, split

ONE_GPU = 1024  # images of one GPU: of the ladder, and in weak scaling
LEAST = 128  # images of each GPU in strong scaling: with fewer it waits for kernels to be launched


def full(gpus):
    """The settings of all runs on `gpus` GPUs: with images enough for one batch on each GPU."""
    sizes = {"global_batch": ONE_GPU, "num_samples": max(50_000, ONE_GPU * gpus)}
    times = {"steps": 60, "untimed_steps": 10, "timeout": 600}  # ranks wait for a compiler
    return {"model": "resnet18", "data": "pictures", **sizes, **times}


def strong_batch(counts):
    """A global batch that each of these numbers of GPUs divides, with at least `LEAST` a GPU."""
    evenly = math.lcm(*counts)
    return evenly * math.ceil(max(ONE_GPU, LEAST * max(counts)) / evenly)


def climb(folder, base, settings, repeats):
    """Images/s of one process under each setting: by name, a list with a number for each repeat.

    The settings take turns, so that a busy minute affects all of them alike. A run that is already
    done in `folder` is not run again. A setting that cannot run here is left out, and says why.
    """
    runs = {name.replace(", ", "-").replace(" ", "-"): name for name in settings}
    planned = [
        family.Planned(
            f"{run}{REPEAT}{repeat}",
            RunConfig("images", strategy="single", ranks=1, **base, **settings[name]),
        )
        for repeat in range(repeats)
        for run, name in runs.items()
    ]
    family.open_folder(folder, "ladder", base, [one.name for one in planned])
    rates: dict[str, list[float]] = {}
    for one in family.carry_out(folder, planned):
        name = runs[split(one.planned.name)[0]]
        if one.run is None:  # TF32 on an old GPU, say
            print(f"{name}: {one.because}")
        else:
            rates.setdefault(name, []).append(one.run.summary["throughput"])
    return rates


def fastest(rates):
    """The setting with the largest median, so that one lucky repeat does not decide."""
    return max(rates, key=lambda name: statistics.median(rates[name]))


def flags(settings):
    """The settings as words of a command line; a switch is its name alone."""
    words = []
    for key, value in settings.items():
        flag = key.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words.append(f"--{flag}={value}")
    return words


def grown(rows, ranks):
    """Images/s of `ranks` ranks that each keep their batch, at the efficiency of the last row.

    `rows` are those of `scaling.efficiency`. They have to come from weak scaling: in strong scaling
    a rank's batch shrinks, and so does its efficiency.
    """
    if rows[0]["study"] != "weak":
        raise ValueError(f"a batch that grows asks for weak scaling, not {rows[0]['study']}")
    kept = rows[-1]["efficiency"] if ranks > 1 else 1.0
    return ranks * kept * rows[0]["throughput"]
