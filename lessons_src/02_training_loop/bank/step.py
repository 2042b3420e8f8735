"""The bank of lesson 02: a training step."""

import torch
from torch.nn import functional as F

# --- 2.1 train_step -------------------------------------------------------------------------


def forgets_zero_grad(model, optimizer, x, y):
    model.train()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def forgets_train_mode(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def plain(loss_of, result=lambda loss: loss.item()):
    def step(model, optimizer, x, y):
        model.train()
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return result(loss)

    return step


def softmax_first(model, optimizer, x, y):
    return plain(lambda z, y: F.cross_entropy(F.softmax(z, dim=1), y))(model, optimizer, x, y)


def follows_the_sum(model, optimizer, x, y):
    return plain(lambda z, y: F.cross_entropy(z, y, reduction="sum"))(model, optimizer, x, y)


def nll_of_logits(model, optimizer, x, y):
    return plain(lambda z, y: F.nll_loss(z, y))(model, optimizer, x, y)


def keeps_the_graph(model, optimizer, x, y):
    return plain(F.cross_entropy, lambda loss: loss)(model, optimizer, x, y)


def returns_nothing(model, optimizer, x, y):
    plain(F.cross_entropy)(model, optimizer, x, y)


def returns_a_string(model, optimizer, x, y):
    return plain(F.cross_entropy, lambda loss: f"{loss:.3f}")(model, optimizer, x, y)


def returns_all_losses(model, optimizer, x, y):
    model.train()
    optimizer.zero_grad()
    losses = F.cross_entropy(model(x), y, reduction="none")
    losses.mean().backward()
    optimizer.step()
    return losses.detach()


def two_backwards(model, optimizer, x, y):
    model.train()
    optimizer.zero_grad()
    for _ in range(2):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
    optimizer.step()
    return loss.item()


def makes_its_own_optimizer(model, optimizer, x, y):
    return plain(F.cross_entropy)(model, torch.optim.SGD(model.parameters(), lr=0.5), x, y)


def updates_by_hand(model, optimizer, x, y):
    model.train()
    model.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= optimizer.param_groups[0]["lr"] * p.grad
    return loss.item()


def forgets_backward(model, optimizer, x, y):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    optimizer.step()
    return loss.item()


def forgets_step(model, optimizer, x, y):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return loss.item()


def steps_too_early(model, optimizer, x, y):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    optimizer.step()
    loss.backward()
    return loss.item()


def clears_too_late(model, optimizer, x, y):
    model.train()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


def loss_of_the_new_weights(model, optimizer, x, y):
    plain(F.cross_entropy)(model, optimizer, x, y)
    with torch.no_grad():
        return F.cross_entropy(model(x), y).item()


def returns_the_sum(model, optimizer, x, y):
    return plain(F.cross_entropy)(model, optimizer, x, y) * len(y)


def divides_the_loss(model, optimizer, x, y):
    return plain(F.cross_entropy)(model, optimizer, x, y) / len(y)


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


WRONG = [
    ("train_step", "no_zero_grad", forgets_zero_grad),
    ("train_step", "eval_mode", forgets_train_mode),
    ("train_step", "softmax_twice", softmax_first),
    ("train_step", "sum", follows_the_sum),
    ("train_step", "no_log", nll_of_logits),
    ("train_step", "graph", keeps_the_graph),
    ("train_step", "none", returns_nothing),
    ("train_step", "no_number", returns_a_string),
    ("train_step", "many", returns_all_losses),
    ("train_step", "twice", two_backwards),
    ("train_step", "own_optimizer", makes_its_own_optimizer),
    ("train_step", "no_backward", forgets_backward),
    ("train_step", "no_step", forgets_step),
    ("train_step", "step_first", steps_too_early),
    ("train_step", "cleared", clears_too_late),
    ("train_step", "loss_after", loss_of_the_new_weights),
    ("train_step", "loss_sum", returns_the_sum),
    ("train_step", "loss_other", divides_the_loss),
]

ALSO_WRONG = [
    ("train_step", "own_optimizer", updates_by_hand),
]

RIGHT = [
    ("train_step", by_log_softmax),
    ("train_step", by_autograd),
]
