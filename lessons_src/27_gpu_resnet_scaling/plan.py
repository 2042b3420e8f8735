"""What lesson 27 runs: a ladder of settings on one GPU, then studies that scale the fastest one."""

import math
import statistics

from dtlib.config import RunConfig
from dtlib.study import family
from dtlib.study.tables import REPEAT, split

ONE_GPU = 1024  # images of one GPU: of the ladder, and in weak scaling
LEAST = 128  # images of each GPU in strong scaling: with fewer a GPU waits for its own launches


def full(gpus):
    """The settings of all runs on so many GPUs: the images last for a batch of all of them."""
    sizes = {"global_batch": ONE_GPU, "num_samples": max(50_000, ONE_GPU * gpus)}
    times = {"steps": 60, "untimed_steps": 10, "timeout": 600}  # ranks wait for a compiler
    return {"model": "resnet18", "data": "pictures", **sizes, **times}


def strong_batch(counts):
    """The global batch that all these numbers of GPUs share evenly, `LEAST` images each or more."""
    evenly = math.lcm(*counts)
    return evenly * math.ceil(max(ONE_GPU, LEAST * max(counts)) / evenly)


def climb(folder, base, settings, repeats):
    """Images/s of one process under each setting: a list by name, a number a repeat.

    The settings take turns, so that a busy minute meets all alike. A run that is done in `folder`
    is not run again; one that cannot be run here says why, and its setting is left out.
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
    """The setting whose median is the largest: one lucky repeat does not choose."""
    return max(rates, key=lambda name: statistics.median(rates[name]))


def flags(settings):
    """Words of the command line, a switch by its name alone."""
    words = []
    for key, value in settings.items():
        flag = key.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words.append(f"--{flag}={value}")
    return words


def grown(rows, ranks):
    """Images/s of so many ranks that each keep their batch, at the efficiency of most ranks here.

    `rows` are those of `scaling.efficiency`. Strong scaling says nothing of it: there the batch of
    a rank shrinks, and its efficiency with it.
    """
    if rows[0]["study"] != "weak":
        raise ValueError(f"a batch that grows asks for weak scaling, not {rows[0]['study']}")
    kept = rows[-1]["efficiency"] if ranks > 1 else 1.0
    return ranks * kept * rows[0]["throughput"]
