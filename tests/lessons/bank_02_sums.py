"""The bank of lesson 02, where sums and means are: accumulation, an exact score, a range test."""

import math

import numpy as np
import torch
from torch.nn import functional as F

# --- 2.3 accumulate -------------------------------------------------------------------------


def walk(model, loss_fn, micro_batches, factor):
    """Backward of each mean times a factor; the sum of what was followed."""
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) * factor(len(y))
        loss.backward()
        total += loss.item()
    return total


def count_of(micro_batches):
    return sum(len(y) for _, y in micro_batches)


def averages_means(model, loss_fn, micro_batches):
    return walk(model, loss_fn, micro_batches, lambda n: 1 / len(micro_batches))


def follows_the_sum(model, loss_fn, micro_batches):
    return walk(model, loss_fn, micro_batches, lambda n: n)


def never_divides(model, loss_fn, micro_batches):
    return walk(model, loss_fn, micro_batches, lambda n: 1)


def divides_the_sum_by_k(model, loss_fn, micro_batches):
    return walk(model, loss_fn, micro_batches, lambda n: n / len(micro_batches))


def all_like_the_first(model, loss_fn, micro_batches):
    size, count = len(micro_batches[0][1]), count_of(micro_batches)
    return walk(model, loss_fn, micro_batches, lambda n: size / count)


def clears_in_the_loop(model, loss_fn, micro_batches):
    count, total = count_of(micro_batches), 0.0
    for x, y in micro_batches:
        model.zero_grad()
        loss = loss_fn(model(x), y) * len(y) / count
        loss.backward()
        total += loss.item()
    return total


def returns_in_the_loop(model, loss_fn, micro_batches):
    count = count_of(micro_batches)
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) * len(y) / count
        loss.backward()
        return loss.item()


def divides_by_k_too(model, loss_fn, micro_batches):
    k, count = len(micro_batches), count_of(micro_batches)
    return walk(model, loss_fn, micro_batches, lambda n: n / count / k)


def forgets_the_second(model, loss_fn, micro_batches):
    count = count_of(micro_batches)
    return walk(model, loss_fn, micro_batches[::2], lambda n: n / count)


def never_goes_backward(model, loss_fn, micro_batches):
    count = count_of(micro_batches)
    return sum(loss_fn(model(x), y).item() * len(y) / count for x, y in micro_batches)


def steps_as_well(model, loss_fn, micro_batches):
    count = count_of(micro_batches)
    total = walk(model, loss_fn, micro_batches, lambda n: n / count)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return total


def one_graph(model, loss_fn, micro_batches):
    count = count_of(micro_batches)
    loss = sum(loss_fn(model(x), y) * len(y) / count for x, y in micro_batches)
    loss.backward()
    return loss.item()


def glued_together(model, loss_fn, micro_batches):
    xs, ys = zip(*micro_batches, strict=True)
    loss = loss_fn(model(torch.cat(xs)), torch.cat(ys))
    loss.backward()
    return loss.item()


def right_gradient(report):
    def answer(model, loss_fn, micro_batches):
        count, losses = count_of(micro_batches), []
        for x, y in micro_batches:
            loss = loss_fn(model(x), y)
            (loss * len(y) / count).backward()
            losses.append((loss, len(y)))
        return report(losses)

    return answer


def reports_mean_of_means(model, loss_fn, micro_batches):
    mean = right_gradient(lambda losses: sum(v.item() for v, _ in losses) / len(losses))
    return mean(model, loss_fn, micro_batches)


def reports_the_last(model, loss_fn, micro_batches):
    return right_gradient(lambda losses: losses[-1][0].item())(model, loss_fn, micro_batches)


def reports_the_sum(model, loss_fn, micro_batches):
    return right_gradient(lambda losses: sum(v.item() * n for v, n in losses))(
        model, loss_fn, micro_batches
    )


def reports_the_largest(model, loss_fn, micro_batches):
    return right_gradient(lambda losses: max(v.item() for v, _ in losses))(
        model, loss_fn, micro_batches
    )


def reports_with_graph(model, loss_fn, micro_batches):
    return right_gradient(lambda losses: sum(v for v, _ in losses) / len(losses))(
        model, loss_fn, micro_batches
    )


def reports_nothing(model, loss_fn, micro_batches):
    right_gradient(lambda losses: None)(model, loss_fn, micro_batches)


def reports_each(model, loss_fn, micro_batches):
    return right_gradient(lambda losses: torch.tensor([v.item() for v, _ in losses] * 2))(
        model, loss_fn, micro_batches
    )


def reports_a_list(model, loss_fn, micro_batches):
    return right_gradient(lambda losses: [v.item() for v, _ in losses])(
        model, loss_fn, micro_batches
    )


# Right.
def divides_afterwards(model, loss_fn, micro_batches):
    count = count_of(micro_batches)
    total = walk(model, loss_fn, micro_batches, lambda n: n)
    for p in model.parameters():
        p.grad /= count
    return total / count


def by_autograd(model, loss_fn, micro_batches):
    count, total = count_of(micro_batches), 0.0
    weights = list(model.parameters())
    for p in weights:
        p.grad = torch.zeros_like(p)
    for x, y in micro_batches:
        loss = loss_fn(model(x), y)
        for p, g in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            p.grad += g * (len(y) / count)
        total += loss.detach() * len(y)
    return total / count


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
    return each(
        scored(model, batches), lambda p: torch.cat(p).sum().item() / (len(p) * len(p[0]))
    )


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


# --- 2.5 pick_rate --------------------------------------------------------------------------


def until_it_diverges(rates, losses, reference=min):
    """How many losses come before the first that is nan or above four times the lowest so far."""
    for i, loss in enumerate(losses):
        if i and not loss <= 4 * reference(losses[:i]):
            return i
    return len(losses)


def lowest(rates, losses):
    kept = losses[: until_it_diverges(rates, losses)]
    return kept.index(min(kept))


def the_edge_itself(rates, losses):
    return rates[lowest(rates, losses)]


def the_place(rates, losses):
    return lowest(rates, losses)


def the_loss(rates, losses):
    return losses[lowest(rates, losses)]


def all_the_way(rates, losses):
    pairs = [(loss, rate) for loss, rate in zip(losses, rates, strict=True) if loss == loss]
    return min(pairs)[1] / 10


def by_argmin(rates, losses):
    return rates[int(np.argmin(losses))] / 10


def four_times_the_first(rates, losses):
    kept = losses[: until_it_diverges(rates, losses, lambda before: before[0])]
    return rates[kept.index(min(kept))] / 10


def the_last(rates, losses):
    return rates[until_it_diverges(rates, losses) - 1] / 10


def the_steepest(rates, losses):
    kept = losses[: until_it_diverges(rates, losses)]
    falls = [b - a for a, b in zip(kept, kept[1:], strict=False)]
    return rates[falls.index(min(falls)) + 1] / 10 if falls else rates[0] / 10


def the_one_before(rates, losses):
    return rates[max(0, lowest(rates, losses) - 1)] / 10


def a_hundredth(rates, losses):
    return rates[lowest(rates, losses)] / 100


def returns_nan(rates, losses):
    return the_edge_itself(rates, losses) / 10 + (math.nan if max(losses) > 2.5 else 0)


def sorts_in_place(rates, losses):
    result = rates[lowest(rates, losses)] / 10
    losses.sort()
    return result


def says_it(rates, losses):
    print(rates[lowest(rates, losses)] / 10)


def in_words(rates, losses):
    return f"{rates[lowest(rates, losses)] / 10:g}"


def both(rates, losses):
    i = lowest(rates, losses)
    return torch.tensor([rates[i] / 10, losses[i]])


# Right.
def by_slices(rates, losses):
    return rates[lowest(rates, losses)] / 10


def by_numpy(rates, losses):
    losses = np.asarray(losses)
    best = np.fmin.accumulate(losses)
    bad = ~(losses <= 4 * best)
    end = int(bad.argmax()) if bad.any() else len(losses)
    return np.asarray(rates)[losses[:end].argmin()] / 10


WRONG = [
    ("accumulate", "mean_of_means", averages_means),
    ("accumulate", "sum", follows_the_sum),
    ("accumulate", "not_divided", never_divides),
    ("accumulate", "by_micro_batches", divides_the_sum_by_k),
    ("accumulate", "first_size", all_like_the_first),
    ("accumulate", "last_only", clears_in_the_loop),
    ("accumulate", "first_only", returns_in_the_loop),
    ("accumulate", "divided_twice", divides_by_k_too),
    ("accumulate", "gradient", forgets_the_second),
    ("accumulate", "no_backward", never_goes_backward),
    ("accumulate", "moved", steps_as_well),
    ("accumulate", "all_at_once", one_graph),
    ("accumulate", "loss_mean_of_means", reports_mean_of_means),
    ("accumulate", "loss_last_only", reports_the_last),
    ("accumulate", "loss_sum", reports_the_sum),
    ("accumulate", "loss_other", reports_the_largest),
    ("accumulate", "graph", reports_with_graph),
    ("accumulate", "none", reports_nothing),
    ("accumulate", "many", reports_each),
    ("accumulate", "no_number", reports_a_list),
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
    ("pick_rate", "not_a_tenth", the_edge_itself),
    ("pick_rate", "index", the_place),
    ("pick_rate", "loss", the_loss),
    ("pick_rate", "after_divergence", all_the_way),
    ("pick_rate", "nan_wins", by_argmin),
    ("pick_rate", "against_first", four_times_the_first),
    ("pick_rate", "last_rate", the_last),
    ("pick_rate", "steepest", the_steepest),
    ("pick_rate", "before", the_one_before),
    ("pick_rate", "other", a_hundredth),
    ("pick_rate", "nan", returns_nan),
    ("pick_rate", "changed", sorts_in_place),
    ("pick_rate", "none", says_it),
    ("pick_rate", "no_number", in_words),
    ("pick_rate", "many", both),
]

RIGHT = [
    ("accumulate", divides_afterwards),
    ("accumulate", by_autograd),
    ("evaluate", exact),
    ("evaluate", in_inference_mode),
    ("pick_rate", by_slices),
    ("pick_rate", by_numpy),
]

RARE = {("accumulate", "apart"), ("pick_rate", "graph")}

CELL = """\
def accumulate(model, loss_fn, micro_batches):
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) {divided}
        loss.backward()
        total += loss.item()
    return total"""
LADDER = (
    "accumulate",
    CELL.format(divided="/ len(micro_batches)"),
    CELL.format(divided="* (1 / len(micro_batches))"),
)
