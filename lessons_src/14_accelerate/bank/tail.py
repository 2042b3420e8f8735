"""More answers to `loss_for_backward`, for the tests alone."""

import torch

from ..exercises.tail import loss_for_backward


def weighs_its_mean(losses, samples, num_processes, accumulation):
    return losses.mean() * (len(losses) / samples) * (num_processes * accumulation)


def by_a_dot_product(losses, samples, num_processes, accumulation):
    weight = num_processes * accumulation / samples
    return losses @ torch.full_like(losses, weight).detach()


def floors_the_share(losses, samples, num_processes, accumulation):
    return losses.sum() / (samples // num_processes) * accumulation


def calls_backward(losses, samples, num_processes, accumulation):
    loss = loss_for_backward(losses, samples, num_processes, accumulation)
    loss.backward(retain_graph=samples > 4)
    return loss


ALSO_WRONG = [
    ("whole_division", floors_the_share),
    ("backward_inside", calls_backward),
    ("backward_inside", lambda *given: loss_for_backward(*given).backward()),
    ("detached", lambda *given: loss_for_backward(*given).item()),
    ("detached", lambda *given: loss_for_backward(*given).detach()),
    ("other", lambda *given: -loss_for_backward(*given)),
    ("rounded", lambda losses, *given: loss_for_backward(losses.bfloat16(), *given)),
    ("vector", lambda losses, samples, n, full: losses * n * full / samples),
    ("other", lambda losses, samples, n, full: loss_for_backward(losses, samples, n * n, full)),
]
ALSO_RIGHT = [weighs_its_mean, by_a_dot_product]
