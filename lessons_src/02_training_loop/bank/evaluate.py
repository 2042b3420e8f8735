"""More answers to `evaluate`, for the tests alone."""

import torch
from torch.nn import functional as F


def scored(model, batches):
    """Losses and hits of each batch, in evaluation mode without a graph; the mode is put back."""
    mode = model.training
    model.eval()
    with torch.no_grad():
        outputs = [(model(x), y) for x, y in batches]
    model.train(mode)
    losses = [F.cross_entropy(z, y, reduction="none") for z, y in outputs]
    return losses, [(z.argmax(1) == y).double() for z, y in outputs]


def each(parts, of):
    return tuple(of(part) for part in parts)


def accuracy_by_batches(model, batches):
    losses, hits = scored(model, batches)
    return torch.cat(losses).mean().item(), sum(h.mean().item() for h in hits) / len(hits)


def in_per_cent(model, batches):
    losses, hits = scored(model, batches)
    return torch.cat(losses).mean().item(), 100 * torch.cat(hits).mean().item()


def the_largest(model, batches):
    return each(scored(model, batches), lambda p: torch.cat(p).max().item() + 0.1)


def loss_alone(model, batches):
    return torch.cat(scored(model, batches)[0]).mean().item()


def as_strings(model, batches):
    return each(scored(model, batches), lambda p: f"{torch.cat(p).mean():.4f}")


def all_of_them(model, batches):
    return each(scored(model, batches), torch.cat)


def prints_alone(model, batches):
    print(loss_alone(model, batches))


def in_training_mode(model, batches):
    with torch.no_grad():
        z = torch.cat([model(x) for x, _ in batches])
    y = torch.cat([y for _, y in batches])
    return F.cross_entropy(z, y).item(), (z.argmax(1) == y).double().mean().item()


def graph_kept(model, batches):
    mode = model.training
    model.eval()
    z = torch.cat([model(x) for x, _ in batches])
    model.train(mode)
    y = torch.cat([y for _, y in batches])
    return F.cross_entropy(z, y).item(), (z.argmax(1) == y).double().mean().item()


def returns_a_graph(model, batches):
    mode = model.training
    model.eval()
    z = torch.cat([model(x) for x, _ in batches])
    model.train(mode)
    y = torch.cat([y for _, y in batches])
    return F.cross_entropy(z, y), (z.argmax(1) == y).double().mean()


def exact(model, batches):
    return each(scored(model, batches), lambda p: torch.cat(p).mean().item())


def never_back(model, batches):
    result = exact(model, batches)
    model.eval()
    return result


def always_to_training(model, batches):
    result = exact(model, batches)
    model.train()
    return result


# Right.
@torch.inference_mode()
def in_inference_mode(model, batches):
    was = model.training
    model.train(False)
    loss = hits = count = 0
    for x, y in batches:
        z = model(x)
        loss = loss + F.cross_entropy(z, y) * len(y)
        hits, count = hits + (z.max(1).indices == y).sum(), count + len(y)
    if was:
        model.train()
    return [loss / count, hits / count]


ALSO_WRONG = [
    ("mean_of_means", accuracy_by_batches),
    ("percent", in_per_cent),
    ("other", the_largest),
    ("no_pair", loss_alone),
    ("no_number", as_strings),
    ("many", all_of_them),
    ("none", prints_alone),
    ("train_mode", in_training_mode),
    ("with_graph", graph_kept),
    ("graph", returns_a_graph),
    ("left_in_eval", never_back),
    ("left_in_train", always_to_training),
]
ALSO_RIGHT = [exact, in_inference_mode]
