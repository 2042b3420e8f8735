"""Exercise 2.1: one training step, told from its neighbours by what it does to the weights.

A model of 3·4 + 4·3 weights with a batch norm between them takes up to three steps in fp64. First
it comes ready for training; then in evaluation mode, as after an evaluation; then with old
gradients; then with both. So an answer with two mistakes is told one after the other.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.learn.alike import shortened
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from .returned import FP32, close, number_of, told

SIZES = (4, 4, 3)
LR = 0.5


@dataclass
class Trace:
    """What a few steps left in the weights, and what the last of them returned and did."""

    weights: list[Tensor]
    loss: float = 0.0
    after: float = 0.0  # the loss with the new weights
    after_eval: float = 0.0  # and in evaluation mode
    in_eval: float = 0.0  # the loss before the step, in evaluation mode
    events: tuple[str, ...] = ()
    passes: int = 0  # forward passes in training mode, as batch norm counts them


def case(step, comes="the model comes in evaluation mode and with old gradients"):
    """So many steps; the optimizer is made outside of `run`, because a first one takes seconds."""
    words = f"step {step}, {SIZES[step - 1]} pictures, {comes}"
    training, old = "evaluation" not in comes, "old" in comes
    return words, lambda: (*_setup(training, old), step)


def run(answer, model, optimizer, batches, step):
    """Take the steps."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more threads don't help a model this small
    try:
        return _steps(answer, model, optimizer, batches[:step])
    finally:
        torch.set_num_threads(threads)


def _steps(answer, model, optimizer, batches):
    trace, events = Trace([_flat(model)]), []
    # One name for each weight that backward reaches, however many calls it takes.
    next(model.parameters()).register_hook(lambda _: events.append("backward"))
    # A step is over here: a closure that step() is given runs backward inside it.
    optimizer.register_step_post_hook(lambda *_: events.append("step"))
    for x, y in batches:
        events.clear()
        before = int(model[1].num_batches_tracked)
        trace.in_eval = _loss(model, x, y, training=False)
        with torch.enable_grad():
            trace.loss = number_of(answer(model, optimizer, x, y))
        trace.weights.append(_flat(model))
        trace.events = tuple(events)
        trace.passes = int(model[1].num_batches_tracked) - before
        trace.after = _loss(model, x, y, training=True)
        trace.after_eval = _loss(model, x, y, training=False)
    return trace


def _setup(training, old):
    generator = torch.Generator().manual_seed(2)

    def drawn(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()
    for p in model.parameters():
        p.data, gradient = drawn(*p.shape), drawn(*p.shape)
        p.grad = gradient if old else None
    model.train(training)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    return model, optimizer, [(drawn(n, 3), torch.arange(n) % 3) for n in SIZES]


def _flat(model):
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def _loss(model, x, y, training):
    """The loss in one mode; batch norm's averages stay as they are."""
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    mode = model.training
    with torch.no_grad():
        loss = F.cross_entropy(model.train(training)(x), y).item()
    model.load_state_dict(kept)
    model.train(mode)
    return loss


def moves_like(a, b):
    """Whether all steps led to the same weights."""
    pairs = zip(a.weights, b.weights, strict=True)
    return all(torch.allclose(x, y, rtol=1e-9, atol=1e-11) for x, y in pairs)


def judge(got, want, step):
    """The weights of the right steps, the loss from before the last, and one forward pass."""
    if not moves_like(got, want):
        return False
    if close(got.loss, want.loss, FP32):
        return got.passes == want.passes or Wrong("passes", passes=got.passes)
    known = {
        "loss_after": want.after,
        "loss_after_eval": want.after_eval,
        "loss_eval": want.in_eval,
        "loss_sum": want.loss * SIZES[step - 1],
    }
    keys = (key for key, loss in known.items() if close(got.loss, loss, FP32))
    return Wrong(next(keys, "loss_rounded" if shortened(got.loss, want.loss) else "loss_other"))


def off(got, want, step):
    """By how much, where no sentence says more."""
    return {"off": float((got.weights[-1] - want.weights[-1]).abs().max()), "step": step}


def facts(got, want, step):
    """The loss and the right one, and how many pictures there are."""
    loss, right = told(got.loss, want.loss, 3)
    return {"loss": loss, "want": right, "size": SIZES[step - 1]}


EXERCISE = Answer(
    solution("train_step", globals()),
    run=run,
    judge=judge,
    same=moves_like,
    cases=[
        case(1, "the model comes in training mode and without gradients"),
        case(1, "the model comes in evaluation mode"),
        case(1, "the model comes with old gradients"),
        *map(case, (1, 2, 3)),
    ],
    mistakes=[
        ("no_zero_grad", {"    optimizer.zero_grad()\n": ""}),
        ("eval_mode", {"model.train()": "model.eval()"}),
        ("softmax_twice", {"model(x), y": "model(x).softmax(1), y"}),
        ("sum", {"model(x), y": 'model(x), y, reduction="sum"'}),
        ("no_log", {"F.cross_entropy": "F.nll_loss"}),
        ("twice", {"loss.backward()": "(2 * loss).backward()"}),
        ("uphill", {"loss.backward()": "(-loss).backward()"}),
        ("own_optimizer", {"optimizer.step": "torch.optim.SGD(model.parameters(), LR).step"}),
        Mistake("no_backward", when=lambda got: "backward" not in got.events),
        Mistake("not_by_optimizer", when=lambda got: (
            "step" not in got.events and not torch.equal(*got.weights[-2:]))),
        Mistake("no_step", when=lambda got: "step" not in got.events),
        Mistake("step_first",
                when=lambda got: got.events.index("step") < got.events.index("backward")),
        Mistake("cleared", when=lambda got: torch.equal(*got.weights[-2:])),
        Mistake("unrecognised", when=off),
    ],
    other="unrecognised",
    facts=facts,
    passed=lambda got: Passed(
        note="Three steps with momentum: the weights of the reference to 1e-9, in fp64."
    ),
)  # fmt: skip
