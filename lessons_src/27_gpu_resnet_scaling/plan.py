"""What lesson 27 runs: a ladder of settings on one GPU, then studies that scale the fastest one."""

import dataclasses
import gc
import itertools
import math
import statistics

from dtlib.config import RunConfig
from dtlib.errors import BadInput, DtlibError, Unavailable
from dtlib.ranks import launcher
from dtlib.study import family, running, scaling, sensitivity, tables
from dtlib.study.tables import REPEAT, split
from dtlib.training import start

ONE_GPU = 1024  # images of one GPU: of the ladder, and in weak scaling
PICTURES = 4096  # of the curves of accuracy
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


def climb(folder, base, settings, repeats, shared=False):
    """Images/s of one process under each setting: by name, a list with a number for each repeat.

    The settings take turns, every other turn backwards, so that a busy minute or a cold start does
    not always affect the same one. A run that is already done in `folder` is not run again. A
    setting that cannot run here is left out, and says why. `shared` is for `ahead`.
    """
    runs = {name.replace(", ", "-").replace(" ", "-"): name for name in settings}
    planned = [
        family.Planned(
            f"{run}{REPEAT}{repeat}",
            RunConfig("images", strategy="single", ranks=1, **base, **settings[runs[run]]),
        )
        for repeat in range(repeats)
        for run in (reversed(runs) if repeat % 2 else runs)
    ]
    family.open_folder(folder, "ladder", base, [one.name for one in planned])
    if shared:
        ahead(folder, planned)
    rates: dict[str, list[float]] = {}
    for one in family.carry_out(folder, planned):
        name = runs[split(one.planned.name)[0]]
        if one.run is None:  # TF32 on an old GPU, say
            print(f"{name}: {one.because}")
        else:
            rates.setdefault(name, []).append(one.run.summary["throughput"])
    return rates


def ahead(folder, planned):
    """Carry out the runs that can run here, neighbours with as many ranks in one launch.

    In a rehearsal, processes take longer to start than to train. `family.carry_out` finds these
    runs done, and says of the others why they cannot run.
    """
    left = []
    for one in planned:
        place = folder / one.name
        if (place / "summary.json").exists():
            continue
        try:
            start.check(one.config)
        except (BadInput, Unavailable):
            continue
        begun = (place / "config.json").exists()
        own = {"out": str(place), "resume": begun, "checkpoint_every": 0}
        left.append(dataclasses.replace(one.config, **own))
    for ranks, some in itertools.groupby(left, key=lambda config: config.ranks):
        configs = list(some)
        first = configs[0]
        launcher.launch(
            _in_turn, configs, ranks=ranks, device=first.device, threads=first.threads,
            timeout=max(config.timeout for config in configs), show=False,
        )  # fmt: skip


def _in_turn(configs):
    for config in configs:
        start.train(config)
        gc.collect()


def study(folder, kind, settings, ranks, repeats, axes=None, shared=False):
    """Carry out what `dtlib study` does with these settings, and return the rows of its table.

    `kind` is strong, weak or sensitivity; `axes` are what varies in the last, on `ranks[-1]` ranks.
    `shared` is for `ahead`; the turns then go forwards and backwards, which halves the launches.
    """
    fixed = {key: value for key, value in settings.items() if key not in (axes or {})}
    settings = {"task": "images", "profile": False, **fixed}
    if kind == sensitivity.KIND:
        settings["ranks"] = ranks[-1]
        planned = list(sensitivity.plans(settings, axes, repeats))
    else:
        planned = list(scaling.plans(kind, settings, ranks, repeats))
    if shared:
        turns = [list(turn) for _, turn in itertools.groupby(planned, _turn)]
        ahead(folder, [one for k, turn in enumerate(turns) for one in turn[:: (-1) ** k]])
    assert running.study_timed(kind, {**settings, **(axes or {})}, planned, folder) == 0
    return tables.read(folder / f"{kind}.csv")


def _turn(planned):
    return split(planned.name)[1]


def curve(folder, batch, epochs, wide):
    """Test accuracy after each epoch at this global batch; a run that is done is not run again.

    A job that was requeued resumes the run in which it was stopped.
    """
    per_epoch = PICTURES // batch
    settings = {"num_samples": PICTURES, "epochs": epochs, **wide}
    config = RunConfig(
        "images", strategy="single", ranks=1, global_batch=batch, lr=0.05 * batch / 64,
        optimizer="sgd", eval_every=per_epoch, warmup_steps=per_epoch, channels_last=True,
        **settings,
    )  # fmt: skip
    planned = family.Planned(f"batch{batch}", config)
    family.open_folder(folder, "batches", settings, [planned.name])
    (outcome,) = family.carry_out(folder, [planned])
    if outcome.run is None:
        raise DtlibError(outcome.because)
    return [line["test_accuracy"] for line in outcome.run.evaluations][:epochs]


def fastest(rates):
    """The setting with the largest median, so that one lucky repeat does not decide."""
    return max(rates, key=lambda name: statistics.median(rates[name]))


def grown(rows, ranks):
    """Images/s of `ranks` ranks that each keep their batch, at the efficiency of the last row.

    `rows` are those of `scaling.efficiency`. They have to come from weak scaling: in strong scaling
    a rank's batch shrinks, and so does its efficiency.
    """
    if rows[0]["study"] != "weak":
        raise ValueError(f"a batch that grows asks for weak scaling, not {rows[0]['study']}")
    kept = rows[-1]["efficiency"] if ranks > 1 else 1.0
    return ranks * kept * rows[0]["throughput"]
