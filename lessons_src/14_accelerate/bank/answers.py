"""Answers to lesson 14's exercises that its checks must refuse, and others to accept."""

import math

import torch
from torch.optim.lr_scheduler import LambdaLR, LinearLR, MultiplicativeLR

# --- 14.1 scheduler_for ---------------------------------------------------------------------


def forgets_the_processes(optimizer, steps, num_processes):
    return LambdaLR(optimizer, lambda k: max(0.0, 1 - k / steps))


def never_ends(optimizer, steps, num_processes):
    total = steps * num_processes**2
    return LambdaLR(optimizer, lambda k: max(0.0, 1 - k / total))


def last_step_at_zero(optimizer, steps, num_processes):
    total = (steps - 1) * num_processes
    return LambdaLR(optimizer, lambda k: max(0.0, 1 - k / total))


def rate_for_factor(optimizer, steps, num_processes):
    rate, total = optimizer.param_groups[0]["lr"], steps * num_processes
    return LambdaLR(optimizer, lambda k: rate * max(0.0, 1 - k / total))


def below_zero(optimizer, steps, num_processes):
    return LambdaLR(optimizer, lambda k: 1 - k / (steps * num_processes))


def upwards_again(optimizer, steps, num_processes):
    return LambdaLR(optimizer, lambda k: abs(1 - k / (steps * num_processes)))


def always_one(optimizer, steps, num_processes):
    return LambdaLR(optimizer, lambda k: 1.0)


def cosine(optimizer, steps, num_processes):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps * num_processes)


def a_function(optimizer, steps, num_processes):
    return lambda k: max(0.0, 1 - k / (steps * num_processes))


# Right.
def whole_steps(optimizer, steps, num_processes):
    return LambdaLR(optimizer, lambda k: max(0, steps - k // num_processes) / steps)


def torchs_line(optimizer, steps, num_processes):
    return LinearLR(optimizer, 1.0, 0.0, total_iters=steps * num_processes)


def factor_by_factor(optimizer, steps, num_processes):
    total = steps * num_processes
    return MultiplicativeLR(optimizer, lambda k: max(0, total - k) / max(1, total - k + 1))


# --- 14.2 batch_and_steps -------------------------------------------------------------------


def batch_of_one(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size * accumulation
    return together, math.ceil(samples / together)


def divides_the_batch(samples, batch_size, num_processes, accumulation, split_batches):
    return batch_size // num_processes, math.ceil(samples / batch_size)


def always_times_processes(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size * num_processes
    return together * accumulation, math.ceil(math.ceil(samples / together) / accumulation)


def leaves_accumulation_out(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size * (1 if split_batches else num_processes)
    return together, math.ceil(math.ceil(samples / together) / accumulation)


def steps_of_one_process(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size * (1 if split_batches else num_processes)
    return together * accumulation, math.ceil(math.ceil(samples / batch_size) / accumulation)


def counts_micro_steps(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size * (1 if split_batches else num_processes)
    return together * accumulation, math.ceil(samples / together)


def drops_the_tail(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size * (1 if split_batches else num_processes)
    return together * accumulation, samples // together // accumulation


def drops_the_last_group(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size * (1 if split_batches else num_processes)
    return together * accumulation, math.ceil(samples / together) // accumulation


def parts_of_steps(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size * (1 if split_batches else num_processes)
    return together * accumulation, samples / together / accumulation


def only_the_batch(samples, batch_size, num_processes, accumulation, split_batches):
    return batch_size * num_processes * accumulation


def adds_up(samples, batch_size, num_processes, accumulation, split_batches):
    return batch_size + num_processes + accumulation, samples


def one_step_more(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size * (1 if split_batches else num_processes) * accumulation
    return together, samples // together + 2


# Right.
def by_floats(samples, batch_size, num_processes, accumulation, split_batches):
    each = batch_size / num_processes if split_batches else batch_size
    rounds = math.ceil(samples / (each * num_processes))
    return each * num_processes * accumulation, math.ceil(rounds / accumulation)


def by_counting(samples, batch_size, num_processes, accumulation, split_batches):
    together = batch_size if split_batches else batch_size * num_processes
    rounds = len(range(0, samples, together))
    return [together * accumulation, len(range(0, rounds, accumulation))]


# --- 14.3 loss_for_backward -----------------------------------------------------------------


def sum_over_samples(losses, samples, num_processes, accumulation):
    return losses.sum() / samples


def forgets_accumulation(losses, samples, num_processes, accumulation):
    return losses.sum() * num_processes / samples


def forgets_ddp(losses, samples, num_processes, accumulation):
    return losses.sum() * accumulation / samples


def plain_mean(losses, samples, num_processes, accumulation):
    return losses.mean()


def total(losses, samples, num_processes, accumulation):
    return losses.sum()


def by_its_own_count(losses, samples, num_processes, accumulation):
    return losses.sum() * num_processes * accumulation / len(losses)


def sum_undone(losses, samples, num_processes, accumulation):
    return losses.sum() * num_processes * accumulation


def a_number(losses, samples, num_processes, accumulation):
    return losses.sum().item() * num_processes * accumulation / samples


def sample_by_sample(losses, samples, num_processes, accumulation):
    return losses * num_processes * accumulation / samples


def twice_the_processes(losses, samples, num_processes, accumulation):
    return losses.sum() * num_processes**2 * accumulation / samples


# Right.
def weighs_its_mean(losses, samples, num_processes, accumulation):
    return losses.mean() * (len(losses) / samples) * (num_processes * accumulation)


def by_a_dot_product(losses, samples, num_processes, accumulation):
    weight = num_processes * accumulation / samples
    return losses @ torch.full_like(losses, weight).detach()


# --- 14.4 exact_accuracy --------------------------------------------------------------------


def hits_of(model, loader):
    model.eval()
    return [(model(x).argmax(1) == y) for x, y in loader]


def gathers_all_rows(accelerator, model, loader):
    return torch.cat([accelerator.gather(h) for h in hits_of(model, loader)]).float().mean().item()


def reduces_first(accelerator, model, loader):
    means = [accelerator.gather(h.float().mean()) for h in hits_of(model, loader)]
    return torch.cat([m.reshape(-1) for m in means]).mean().item()


def gathers_means_for_metrics(accelerator, model, loader):
    model.eval()
    means = []
    for x, y in loader:
        mean = (model(x).argmax(1) == y).float().mean()
        means.append(accelerator.gather_for_metrics(mean).reshape(-1))
    return torch.cat(means).mean().item()


def its_own_rows(accelerator, model, loader):
    return torch.cat(hits_of(model, loader)).float().mean().item()


def forgets_eval(accelerator, model, loader):
    hits = []
    for x, y in loader:
        hits.append(accelerator.gather_for_metrics(model(x).argmax(1) == y))
    return torch.cat(hits).float().mean().item()


def counts_hits(accelerator, model, loader):
    model.eval()
    hits = [accelerator.gather_for_metrics(model(x).argmax(1) == y) for x, y in loader]
    return torch.cat(hits).sum().item()


def by_padded_rows(accelerator, model, loader):
    model.eval()
    right = rows = 0
    for x, y in loader:
        right += accelerator.gather_for_metrics(model(x).argmax(1) == y).sum().item()
        rows += len(y) * accelerator.num_processes
    return right / rows


def more_than_all(accelerator, model, loader):
    right = sum(accelerator.gather(h).sum().item() for h in hits_of(model, loader))
    return right / len(loader.dataset)


# Right.
def by_sums(accelerator, model, loader):
    model.eval()
    right = rows = 0
    for x, y in loader:
        hits = accelerator.gather_for_metrics(model(x).argmax(1) == y)
        right, rows = right + int(hits.sum()), rows + len(hits)
    return right / rows


def gathers_both(accelerator, model, loader):
    model.eval()
    pairs = [accelerator.gather_for_metrics((model(x).argmax(1), y)) for x, y in loader]
    guesses, labels = (torch.cat(column) for column in zip(*pairs, strict=True))
    return (guesses == labels).double().mean()


WRONG = [
    ("scheduler_for", "ends_early", forgets_the_processes),
    ("scheduler_for", "too_slow", never_ends),
    ("scheduler_for", "one_short", last_step_at_zero),
    ("scheduler_for", "squared", rate_for_factor),
    ("scheduler_for", "beyond", below_zero),
    ("scheduler_for", "constant", always_one),
    ("scheduler_for", "other_line", cosine),
    ("scheduler_for", "no_scheduler", a_function),
    ("batch_and_steps", "one_process", batch_of_one),
    ("batch_and_steps", "divided", divides_the_batch),
    ("batch_and_steps", "split", always_times_processes),
    ("batch_and_steps", "no_accumulation", leaves_accumulation_out),
    ("batch_and_steps", "steps_of_one", steps_of_one_process),
    ("batch_and_steps", "micro_steps", counts_micro_steps),
    ("batch_and_steps", "batch_dropped", drops_the_tail),
    ("batch_and_steps", "group_dropped", drops_the_last_group),
    ("batch_and_steps", "part_of_a_step", parts_of_steps),
    ("batch_and_steps", "not_a_pair", only_the_batch),
    ("batch_and_steps", "batch", adds_up),
    ("batch_and_steps", "steps", one_step_more),
    ("loss_for_backward", "neither", sum_over_samples),
    ("loss_for_backward", "no_accumulation", forgets_accumulation),
    ("loss_for_backward", "no_processes", forgets_ddp),
    ("loss_for_backward", "tail", plain_mean),
    ("loss_for_backward", "sum", total),
    ("loss_for_backward", "own_count", by_its_own_count),
    ("loss_for_backward", "not_yet", sum_undone),
    ("loss_for_backward", "detached", a_number),
    ("loss_for_backward", "vector", sample_by_sample),
    ("loss_for_backward", "other", twice_the_processes),
    ("exact_accuracy", "padding", gathers_all_rows),
    ("exact_accuracy", "reduced_first", reduces_first),
    ("exact_accuracy", "local", its_own_rows),
    ("exact_accuracy", "train_mode", forgets_eval),
    ("exact_accuracy", "hits", counts_hits),
    ("exact_accuracy", "by_rows", by_padded_rows),
    ("exact_accuracy", "over_one", more_than_all),
]

# The same mistakes in other words.
ALSO_WRONG = [
    ("scheduler_for", "beyond", upwards_again),
    ("exact_accuracy", "reduced_first", gathers_means_for_metrics),
]

RIGHT = [
    ("scheduler_for", whole_steps),
    ("scheduler_for", torchs_line),
    ("scheduler_for", factor_by_factor),
    ("batch_and_steps", by_floats),
    ("batch_and_steps", by_counting),
    ("loss_for_backward", weighs_its_mean),
    ("loss_for_backward", by_a_dot_product),
    ("exact_accuracy", by_sums),
    ("exact_accuracy", gathers_both),
]

LINE = """\
def scheduler_for(optimizer, steps, num_processes):
    {how}
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)"""
LADDER = (
    "scheduler_for",
    LINE.format(how="factor = lambda k: max(0.0, 1 - k / steps)"),
    LINE.format(how="factor = lambda step: max(0.0, (steps - step) / steps)"),
)
