"""More answers to `state_of`, for the tests alone."""

import copy
import io

import numpy as np
import torch

from ..exercises.state import state_of
from ..trainer import PARTS, Run

DICTS = PARTS[:5]


def by_file(run):
    """Write and read at once: what comes back is a copy."""
    saved = {name: getattr(run, name).state_dict() for name in DICTS}
    file = io.BytesIO()
    torch.save(saved | {"rng": torch.get_rng_state(), "step": run.step}, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def with_more(run):
    """More than is needed does no harm."""
    saved = {name: copy.deepcopy(getattr(run, name).state_dict()) for name in DICTS}
    return {**saved, "rng": torch.get_rng_state(), "step": int(run.step), "loss": run.losses[-1]}


def weights_by_hand(run):
    saved = state_of(run)
    saved["model"] = {name: w.detach().clone() for name, w in run.model.named_parameters()}
    return saved


def with_another_scale(run):
    saved = state_of(run)
    return saved | {"scaler": saved["scaler"] | {"scale": 2.0**20}}


def train_a_step(run):
    run.train(run.step + 1)
    return state_of(run)


def saved_before(run):
    """The dict of another run, which its cell left in the notebook."""
    keep = torch.get_rng_state()
    other = Run(40)
    other.train(17)
    torch.set_rng_state(keep)
    return state_of(other)


ALSO_WRONG = [
    ("no_schedule", {'"schedule", ': ""}),
    ("apart", lambda run: state_of(run) | {"rng": torch.Generator().manual_seed(3).get_state()}),
    ("no_scaler", {'"scaler", ': ""}),
    ("no_step", {'    saved["step"] = run.step\n': ""}),
    ("object", lambda run: state_of(run) | {"model": run.model}),
    ("object", lambda run: {"run": run.sampler}),
    ("object", lambda run: state_of(run) | {"rng": np.random.get_state()}),
    ("object", lambda run: state_of(run) | {"rng": torch.get_rng_state}),
    ("not_loaded", lambda run: state_of(run) | {"rng": torch.initial_seed()}),
    ("not_loaded", lambda run: state_of(run) | {"step": str(run.step)}),
    ("other_count", saved_before),
    ("not_loaded", lambda run: state_of(run) | {"model": {}}),
    ("not_loaded", lambda run: state_of(run) | {"sampler": {"position": run.sampler.position}}),
    ("kind", lambda run: list(state_of(run).values())),
    ("none", lambda run: print(end="")),
    (
        "apart",
        lambda run: state_of(run) | {"scaler": {**run.scaler.state_dict(), "scale": 2.0**20}},
    ),
    ("apart", lambda run: {k: v for k, v in state_of(run).items() if k in ("model", "step")}),
    ("raised", lambda run: run.nothing),
]
ALSO_RIGHT = [by_file, with_more, weights_by_hand]

# The same mistake twice, as two students would write it: the random numbers are forgotten.
PASTED = """\
def state_of(run):
    names = ("model", "optimizer", "schedule", "scaler", "sampler")
    saved = {build}
    saved["step"] = run.step
    return copy.deepcopy(saved)"""
LADDER = (
    PASTED.format(build="{n: getattr(run, n).state_dict() for n in names}"),
    PASTED.format(build="dict((n, vars(run)[n].state_dict()) for n in names)"),
)
