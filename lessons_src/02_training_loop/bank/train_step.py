"""More answers to `train_step`, for the tests alone."""

import torch
from torch.nn import functional as F

from dtlib.learn.solutions import altered

from ..exercises.train_step import EXERCISE

train_step = EXERCISE.reference


def by(words):
    return altered(train_step, words)


def updates_by_hand(model, optimizer, x, y):
    model.train()
    model.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= optimizer.param_groups[0]["lr"] * p.grad
    return loss.item()


def loss_of_the_new_weights(model, optimizer, x, y):
    train_step(model, optimizer, x, y)
    with torch.no_grad():
        return F.cross_entropy(model(x), y).item()


# Right.
def by_log_softmax(model, optimizer, x, y):
    model.train()
    loss = -model(x).log_softmax(1)[torch.arange(len(y)), y].mean()
    model.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    return loss.detach()


def by_autograd(model, optimizer, x, y):
    was = model.train()
    loss = F.cross_entropy(was(x), y)
    weights = list(model.parameters())
    for p, g in zip(weights, torch.autograd.grad(loss, weights), strict=True):
        p.grad = g
    optimizer.step()
    optimizer.zero_grad()
    return float(loss)


CLEAR, BACK, STEP = "    optimizer.zero_grad()\n", "    loss.backward()\n", "    optimizer.step()\n"
ALSO_WRONG = [
    ("eval_mode", by({"    model.train()\n": ""})),
    ("twice", by({BACK: BACK.replace("()", "(retain_graph=True)") + BACK})),
    ("own_optimizer", updates_by_hand),
    ("no_backward", by({BACK: ""})),
    ("no_step", by({STEP: ""})),
    ("step_first", by({BACK + STEP: STEP + BACK})),
    ("cleared", by({CLEAR: "", BACK: BACK + CLEAR})),
    ("loss_after", loss_of_the_new_weights),
    ("loss_sum", by({"loss.item()": "loss.item() * len(y)"})),
    ("loss_other", by({"loss.item()": "loss.item() / len(y)"})),
    ("unrecognised", by({"(x), y)": "(x), y) / 3"})),
    ("graph", by({"loss.item()": "loss"})),
    ("none", by({"return loss": "loss"})),
    ("no_number", by({"loss.item()": 'f"{loss:.3f}"'})),
    ("many", by({"loss.item()": "loss.detach().repeat(len(y))"})),
]
ALSO_RIGHT = [by_log_softmax, by_autograd]
