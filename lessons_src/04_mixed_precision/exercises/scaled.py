"""Exercise 4.2: unscale, skip or step, and keep the scale: a GradScaler's step by hand.

The first steps have weights at 0 and a rate of 1, so the weight after a step is minus what the
optimizer saw. Then forty steps of AdamW with infinities among them.
"""

import math
import random

import torch

from dtlib.learn.alike import alike
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import several, shown
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

INF, SCALE, INTERVAL = math.inf, 8.0, 3
# words of the solution
FINITE, SKIP = "g.isfinite().all()", "return scale / 2, 0"
IF_BAD, STEP = f"    if not finite:\n        {SKIP}\n", "    optimizer.step()\n"
DUE, GROW = "good + 1 == growth_interval", "return scale * 2, 0"

scaled_step = solution("scaled_step", globals())


def world(steps, before=0, make=torch.optim.SGD, **options):
    """Arguments of `run`; an optimizer is made here, before a clock runs: its first takes long."""

    def arguments():
        weights = [torch.nn.Parameter(torch.zeros(len(g or (0,)))) for g in steps[0]]
        return steps, before, weights, make(weights, **{"lr": 1.0, **options})

    return arguments


def run(answer, steps, before, weights, optimizer):
    """Take steps with these gradients, scaled; return the weights, scale and count after each."""
    scale, good, seen = SCALE, before, []
    for gradients in steps:
        for w, g in zip(weights, gradients, strict=True):
            w.grad = None if g is None else torch.tensor(g) * scale
        scale, good = two(answer(weights, optimizer, scale, good, INTERVAL))
        seen.append((tuple(v for w in weights for v in w.tolist()), scale, good))
    return seen


def two(answer):
    """The scale and the count that an answer returned."""
    scale, good = several(2, "kind")(answer)
    if not math.isfinite(good):
        raise Wrong("kind", got=shown(answer))
    return scale, int(good)


def read(seen, steps):
    """After one step the weights alone while they are wrong; after several what they are for."""
    if len(steps) == 40:
        return {"trace": seen}
    if len(steps) == 7:
        return {"scales": [scale for _, scale, _ in seen]}
    values, scale, good = seen[-1]
    gradients = [v for g in steps[0] for v in g or (0.0,)]
    right = tuple(-v if all(map(math.isfinite, gradients)) else 0.0 for v in gradients)
    if values != right or len(steps) > 1:
        return {"weights": values}
    return {"scale": scale, "good": good}


def judge(got, want):
    """Equal, bit for bit; of forty steps the first that is not is told."""
    pairs = list(zip(got.get("trace", ()), want.get("trace", ()), strict=True))
    for k, (mine, right) in enumerate(pairs):
        if mine[:2] != right[:2]:
            scale = pairs[k - 1][0][1] if k else SCALE
            case = f"step {k + 1} of 40 with AdamW, scale {scale:g}"
            return Wrong("apart", case, step=k + 1, scale=f"{mine[1]:g}", torch=f"{right[1]:g}",
                         got=listed(mine[0]), want=listed(right[0]))  # fmt: skip
    return bool(pairs) or alike(got, want, 0.0)


def listed(values):
    return ", ".join(f"{v:g}" for v in values)


def facts(got, steps):
    last = steps[0][-1] or (0.0,)
    found = {"interval": INTERVAL, "which": "first" if math.isfinite(last[0]) else "second"}
    if "scale" in got:
        found |= {"scale": f"{got['scale']:g}", "good": got["good"]}
    return found | {"got": listed(got.get("weights", ())), "seen": listed(got.get("scales", ()))}


def bad(key, *gradients):
    """A step with infinities, after a good one; what an answer did that takes it all the same."""
    words = " | ".join(map(listed, gradients))
    return f"gradients {words}, scale 8", world([gradients], 1), key


def forty():
    """Steps of two weights, ten of them with infinities."""
    draw, infinite = random.Random(4), set(random.Random(4).sample(range(40), 10))
    steps = []
    for step in range(40):
        values = [draw.gauss(0, 1) * (INF if step in infinite else 1) for _ in range(3)]
        steps.append((values[:2], values[2:]))
    return steps


def counted(which):
    """Recognises what an answer counted in a step, be it a first or a bad one."""
    return lambda got, before: "scale" in got and which(got["scale"], got["good"], before > 0)


def grown(which):
    """Recognises the scales of seven good steps."""
    return lambda got: "scales" in got and which(got["scales"])


def replaced(got, steps):
    """Whether the weights moved to finite numbers, and their gradients were not."""
    gradients = [v for g in steps[0] for v in g or ()]
    return not all(map(math.isfinite, gradients)) and all(
        map(math.isfinite, got.get("weights", [INF]))
    )


EXERCISE = Answer(
    scaled_step,
    other="step",
    run=run,
    read=read,
    judge=judge,
    same=0.0,
    cases=[
        ("one weight at 0, gradient 3, scale 8, lr 1", world([((3.0,),)])),
        ("7 good steps, growth_interval 3, scale 8 at first", world([((1.0,),)] * 7), "growth"),
        bad("stepped", (INF,), (1.0,)),
        bad("only_plus", (-INF,), (1.0,)),
        bad("only_infinity", (math.nan,), (1.0,)),
        bad("one_weight", (1.0,), (INF,)),
        bad("one_element", (1.0, 2.0, INF, 3.0), (1.0,)),
        ("SGD with momentum 0.9: a step with gradient 1, then one with inf",
         world([((1.0,),), ((INF,),)], momentum=0.9), "zero_step"),
        ("gradient 10000, scale 8: scaled 80000, in fp32", world([((10_000.0,),)]), "too_strict"),
        ("two weights, of which the second has no gradient", world([((1.0,), None)]),
         "no_gradient"),
        ("40 steps with AdamW", world(forty(), make=torch.optim.AdamW, lr=0.1), "apart"),
    ],
    mistakes=[
        ("still_scaled", {"g /= scale": "pass"}),
        ("multiplied", {"g /= scale": "g *= scale"}),
        ("divided_twice", {"g /= scale": "g /= scale**2"}),
        ("no_step", {STEP: ""}),
        ("two_steps", {STEP: STEP + STEP}),
        ("uphill", {STEP: "    for w in weights:\n        w.data += w.grad\n"}),
        Mistake("grows_at_once", {DUE: "True"},
                when=counted(lambda scale, good, bad: not bad and scale > SCALE)),
        ("never_grows", {GROW: "return scale, good + 1"}),
        Mistake("grows_late", {DUE: "good == growth_interval"},
                when=grown(lambda scales: scales[:4] == [8, 8, 8, 16])),
        Mistake("grows_early", {DUE: f"{DUE} - 1"}, when=grown(lambda s: s[:2] == [8, 16])),
        ("count_goes_on", {DUE: "good + 1 >= growth_interval", GROW: f"{GROW[:-1]}good + 1"}),
        Mistake("count_goes_on", {GROW: f"{GROW[:-1]}good + 1"},
                when=grown(lambda s: s[2:5] in ([16, 32, 64], [16, 16, 16]))),
        ("stepped", {IF_BAD + STEP: STEP + IF_BAD}),
        Mistake("replaced", {"g /= scale": "g.nan_to_num_().div_(scale)",
                             IF_BAD + STEP: STEP + IF_BAD}, when=replaced),
        ("only_nan", {FINITE: "not g.isnan().any()"}),
        ("only_infinity", {FINITE: "not g.isinf().any()"}),
        ("only_plus", {FINITE: "(g < math.inf).all()"}),
        ("one_weight", {"for g in gradients)": "for g in gradients[:1])"}),
        ("one_weight", {"for g in gradients)": "for g in gradients[-1:])"}),
        ("one_element", {FINITE: "g[0].isfinite()"}),
        Mistake("no_backoff", {SKIP: "return scale, 0"},
                when=counted(lambda scale, good, bad: bad and scale == SCALE)),
        Mistake("wrong_way", {SKIP: "return scale * 2, 0"},
                when=counted(lambda scale, good, bad: bad and scale > SCALE)),
        Mistake("backoff", {SKIP: "return 1.0, 0"},
                when=counted(lambda scale, good, bad: bad and scale != SCALE / 2)),
        ("skip_counts", {SKIP: "return scale / 2, good + 1"}),
        Mistake("count_kept", {SKIP: "return scale / 2, good"},
                when=counted(lambda scale, good, bad: bad and good)),
        Mistake("count", {"return scale, good + 1": "return scale, good"},
                when=counted(lambda scale, good, bad: not bad)),
        ("zero_step", {SKIP: f"[g.zero_() for g in gradients]\n    {STEP}        {SKIP}"}),
        ("too_strict", {FINITE: "(g.abs() < 65520).all()"}),
        Mistake("no_gradient", {" if w.grad is not None": ""},
                when=lambda error, steps: error in ("AttributeError", "TypeError")
                and None in steps[0]),
    ],
    facts=facts,
    passed=lambda got: Passed(
        (("steps equal to GradScaler's", 40, 40, ""), ("of them skipped", 10, 10, "")),
        "The same scale and the same weights, bit for bit.",
    ),
)  # fmt: skip
