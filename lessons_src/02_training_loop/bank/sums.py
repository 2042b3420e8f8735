"""The bank of lesson 02: accumulation."""

import torch

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
]

RIGHT = [
    ("accumulate", divides_afterwards),
    ("accumulate", by_autograd),
]

RARE = {("accumulate", "apart")}

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
