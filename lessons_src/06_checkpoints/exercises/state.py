"""Exercise 6.1: all that a run needs to continue with the same bits.

What an answer returns is written only when the run has gone on, as an asynchronous save does, and
is read back with `weights_only`. Another run, with another seed, then loads it.
"""

import copy  # noqa: F401 (the solution uses it)
import io

import torch

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from ..trainer import PARTS, Run, load

state_of = solution("state_of", globals())
COPY = "copy.deepcopy(saved)"  # words of the solution


def run(answer, stopped, total):
    """Losses of the resumed run, and of the one that went on."""
    first = Run(total)
    first.train(stopped)
    saved = answer(first)
    if saved is None:
        raise Wrong("none")
    if not isinstance(saved, dict):
        raise Wrong("kind", got=type(saved).__name__)
    went_on = first.train(total)
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    try:
        saved = torch.load(file, weights_only=True)
    except Exception:
        raise Wrong("object", got=", ".join(sorted(map(str, saved)))) from None
    try:
        resumed = load(Run(total, seed=3), saved).train(total)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise Wrong("not_loaded", why=" ".join(str(error).split())[:80]) from None
    return resumed, went_on


def facts(got, want):
    resumed, right = got[0], want[0]
    apart = [k for k, (a, b) in enumerate(zip(resumed, right, strict=False)) if a != b]
    first = apart[0] if apart else min(len(resumed), len(right)) - 1
    return {
        "steps": len(resumed), "right_steps": len(right), "first": first + 1,
        "got": f"{resumed[first]:.4f}" if resumed else "none", "want": f"{right[first]:.4f}",
    }  # fmt: skip


def without(part):
    """The state without one of its parts."""
    return lambda run: {k: v for k, v in state_of(run).items() if k != part}


def with_alias(*parts):
    """The state with some parts that still change while the run goes on."""
    return lambda run: state_of(run) | {part: getattr(run, part).state_dict() for part in parts}


def later(run):
    saved = state_of(run)
    return saved | {"step": saved["step"] + 1}


def drawn_before(run):
    torch.rand(1)
    return state_of(run)


def from_the_seed(run):
    keep = torch.get_rng_state()
    torch.manual_seed(0)
    saved = state_of(run)
    torch.set_rng_state(keep)
    return saved


def rounded(run):
    saved = state_of(run)
    return saved | {"model": {k: v.bfloat16() for k, v in saved["model"].items()}}


def next_epoch(run):
    saved = state_of(run)
    sampler = saved["sampler"]
    return saved | {"sampler": sampler | {"epoch": sampler["epoch"] + 1, "position": 0}}


EXERCISE = Answer(
    state_of,
    other="apart",
    run=run,
    same=0.0,
    cases=[
        ("a run of 8 steps, stopped after 4", (4, 8)),
        ("a run of 24 steps, stopped after 13, in its second epoch", (13, 24)),
    ],
    mistakes=[
        *((f"no_{part}", without(part)) for part in PARTS),
        ("all_alias", {COPY: "saved"}),
        ("all_alias", {COPY: "dict(saved)"}),
        ("alias_model", with_alias("model")),
        ("alias_optimizer", with_alias("optimizer")),
        ("all_alias", with_alias("model", "optimizer")),
        ("later", later),
        ("from_the_seed", from_the_seed),
        ("rounded", rounded),
        ("next_epoch", next_epoch),
        Mistake("drawn_before", drawn_before, when=lambda got, want: got[1] != want[1]),
    ],
    facts=facts,
    passed=lambda got: Passed(
        (("losses equal to those of the run that went on", len(got[1][0]), 11, ""),),
        "The same bits, although the other run began with other weights and another order.",
    ),
)
