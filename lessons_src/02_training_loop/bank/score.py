"""The bank of lesson 02: an exact score."""

import torch
from torch.nn import functional as F

# --- 2.4 evaluate ---------------------------------------------------------------------------


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


def averages_batches(model, batches):
    return each(scored(model, batches), lambda p: sum(v.mean().item() for v in p) / len(p))


def accuracy_by_batches(model, batches):
    losses, hits = scored(model, batches)
    return torch.cat(losses).mean().item(), sum(h.mean().item() for h in hits) / len(hits)


def keeps_the_last(model, batches):
    return each(scored(model, batches), lambda p: p[-1].mean().item())


def stops_after_one(model, batches):
    return each(scored(model, batches), lambda p: p[0].mean().item())


def adds_up(model, batches):
    return each(scored(model, batches), lambda p: torch.cat(p).sum().item())


def adds_up_means(model, batches):
    return each(scored(model, batches), lambda p: sum(v.mean().item() for v in p))


def divides_by_batches(model, batches):
    return each(scored(model, batches), lambda p: torch.cat(p).sum().item() / len(p))


def takes_all_for_full(model, batches):
    return each(scored(model, batches), lambda p: torch.cat(p).sum().item() / (len(p) * len(p[0])))


def means_by_pictures(model, batches):
    return each(
        scored(model, batches), lambda p: sum(v.mean().item() for v in p) / len(torch.cat(p))
    )


def in_per_cent(model, batches):
    losses, hits = scored(model, batches)
    return torch.cat(losses).mean().item(), 100 * torch.cat(hits).mean().item()


def the_other_way_round(model, batches):
    return each(scored(model, batches)[::-1], lambda p: torch.cat(p).mean().item())


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


WRONG = [
    ("evaluate", "mean_of_means", averages_batches),
    ("evaluate", "mean_of_means", accuracy_by_batches),
    ("evaluate", "last_batch", keeps_the_last),
    ("evaluate", "first_batch", stops_after_one),
    ("evaluate", "sum", adds_up),
    ("evaluate", "sum_of_means", adds_up_means),
    ("evaluate", "by_batches", divides_by_batches),
    ("evaluate", "full_batches", takes_all_for_full),
    ("evaluate", "means_by_rows", means_by_pictures),
    ("evaluate", "percent", in_per_cent),
    ("evaluate", "swapped", the_other_way_round),
    ("evaluate", "other", the_largest),
    ("evaluate", "no_pair", loss_alone),
    ("evaluate", "no_number", as_strings),
    ("evaluate", "many", all_of_them),
    ("evaluate", "none", prints_alone),
    ("evaluate", "train_mode", in_training_mode),
    ("evaluate", "with_graph", graph_kept),
    ("evaluate", "graph", returns_a_graph),
    ("evaluate", "left_in_eval", never_back),
    ("evaluate", "left_in_train", always_to_training),
]

RIGHT = [
    ("evaluate", exact),
    ("evaluate", in_inference_mode),
]
