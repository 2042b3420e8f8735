"""Exercise 4.3: a step on fp32 master weights, of which the model holds a bf16 copy.

One long step tells which of the two tensors moved and how; a thousand short ones tell which of them
remembers; a last one, whether the copy is the nearest that bf16 has.
"""

import torch

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

COARSE = torch.tensor(0.001).bfloat16().item()  # the step of 0.001 as bf16 has it
NEAR = 2e-4  # fp32 rounds a thousand times, by at most 2^-24 each below 2: 6e-5 in all
STEP, COPY = "master -= lr * gradient.float()", "low.copy_(master)"  # words of the solution

master_step = solution("master_step", globals())


def run(answer, weights, gradients, lr, steps):
    """The model's copy and the master after so many steps."""
    master = torch.tensor(weights)
    low, gradient = master.bfloat16(), torch.tensor(gradients).bfloat16()
    for _ in range(steps):
        answer(low, master, gradient, lr)
    kinds = {"low": low.dtype, "master": master.dtype}
    told = {name: str(kind).removeprefix("torch.") for name, kind in kinds.items()}
    if low.dtype != torch.bfloat16:
        raise Wrong("low_kind", **told)
    if master.dtype != torch.float32:
        raise Wrong("master_kind", **told)
    return low, master


def judge(got, want, steps):
    """The copy is the master, rounded; after many steps the master may be rounded, too."""
    low, master = got
    close = torch.allclose(master, want[1], rtol=1e-6, atol=NEAR if steps > 1 else 0)
    return close and torch.equal(low, master.bfloat16())


def after_many(which):
    """Recognises the copy and the master that many short steps led to."""
    return lambda got, steps: steps > 1 and which(*(tensor[0].item() for tensor in got))


def facts(got, steps):
    def told(tensor):
        values = tensor.tolist()
        return f"{values[0]:.5g}" if steps > 1 else " and ".join(f"{v:g}" for v in values)

    low, master = got
    return {"low": told(low), "master": told(master), "want": told(master.bfloat16()),
            "coarse": f"{COARSE:.8f}"}  # fmt: skip


EXERCISE = Answer(
    master_step,
    other="long_step",
    run=run,
    judge=judge,
    # In the last, 1.006 is nearer to 1.0078 than to 1; fp16 ends before 100000.
    cases=[
        ("weights 1 and 1, gradients -1 and -2, lr 0.25", ([1.0, 1.0], [-1.0, -2.0], 0.25, 1)),
        ("1000 steps of 0.001, from 1", ([1.0, 1.0], [-1.0, -1.0], 0.001, 1000), "short_steps"),
        ("weights 1 and 100000, gradients -1 and 0, lr 0.006",
         ([1.0, 100_000.0], [-1.0, 0.0], 0.006, 1), "not_rounded"),
    ],
    mistakes=[
        Mistake("uphill", {"-=": "+="}, when=lambda got: got[1].tolist() == [0.75, 0.5]),
        ("nothing_moved", {"-=": "= master -", COPY: "low = master.bfloat16()"}),
        ("master_still", {"-=": "= master -"}),
        ("low_stale", {COPY: "low = master.bfloat16()"}),
        ("no_rate", {"lr * ": ""}),
        Mistake("low_alone", {COPY: "low -= lr * gradient"},
                when=after_many(lambda low, master: low == 1 and abs(master - 2) < NEAR)),
        ("through_low", {STEP: "low -= lr * gradient", COPY: "master.copy_(low)"}),
        Mistake("rebuilt", {"-=": "[:] = low.float() -"},
                when=after_many(lambda low, master: low == 1 and master < 1.002)),
        Mistake("coarse_step", {".float()": ""},
                when=after_many(lambda low, master: abs(master - 1 - 1000 * COARSE) < NEAR)),
        ("not_rounded",
         {COPY: "low.copy_((master.view(torch.int32) & -65536).view(torch.float32))"}),
    ],
    facts=facts,
    passed=lambda got: Passed(
        (
            ("master weight after 1000 steps of 0.001", round(got[1][1][0].item(), 4), 2.0, ""),
            ("the model's copy of it", got[1][0][0].item(), 2.0, ""),
        )
    ),
)  # fmt: skip
