"""More answers to `sync_gradients`, for the tests alone."""

import torch
import torch.distributed as dist

from ..exercises.sync import MEAN, PARTIAL, SHARE


def whole_again(parameters, data, tensor):
    """Right, but `whole` goes round all ranks, though half of them have the same."""
    for kind, gradient in parameters:
        if kind == "cut":
            dist.all_reduce(gradient, group=data)
        else:
            dist.all_reduce(gradient)
        part = dist.get_world_size(tensor) if kind == "whole" else 1
        gradient /= dist.get_world_size(data) * part


def gathers(parameters, data, tensor):
    for kind, gradient in parameters:
        for group in (tensor, data):
            parts = [torch.empty_like(gradient) for _ in range(dist.get_world_size(group))]
            dist.all_gather(parts, gradient, group=group)
            if group is data:
                gradient.copy_(sum(parts) / len(parts))
            elif kind == "partial":
                gradient.copy_(sum(parts))


def always_flat(parameters, data, tensor):
    """Without sequence parallelism there is nothing `partial` to put together."""
    torch.cat([gradient.flatten() for kind, gradient in parameters if kind == "partial"])


def whole_averaged(parameters, data, tensor):
    """Right, but what is `whole` also goes round the tensor group, where all have the same."""
    for several, group, mean in (("whole", tensor, True), ("partial", tensor, False),
                                 ("", data, True)):  # fmt: skip
        chosen = [gradient for kind, gradient in parameters if several in ("", kind)]
        if chosen:
            dist.all_reduce_coalesced(chosen, group=group)
        for gradient in chosen if mean else ():
            gradient /= dist.get_world_size(group)


# Right.
def partial_in_one(parameters, data, tensor):
    """One sum over all ranks, where the tensor's ranks count and the data's are averaged."""
    for kind, gradient in parameters:
        dist.all_reduce(gradient, group=None if kind == "partial" else data)
        gradient.div_(dist.get_world_size(data))


def in_two_messages(parameters, data, tensor):
    """All `partial` ones in one message, then everything in another."""
    partial = [gradient for kind, gradient in parameters if kind == "partial"]
    everything = [gradient for _, gradient in parameters]
    for several, group in ((partial, tensor), (everything, data)):
        if not several:
            continue
        flat = torch.cat([gradient.flatten() for gradient in several])
        dist.all_reduce(flat, group=group)
        if group is data:
            flat /= dist.get_world_size(data)
        for gradient, part in zip(several, flat.split([g.numel() for g in several]), strict=True):
            gradient.copy_(part.view_as(gradient))


def with_avg(parameters, data, tensor):
    for kind, gradient in parameters:
        dist.all_reduce(gradient, dist.ReduceOp.AVG, group=data)
        if kind == "partial":
            dist.all_reduce(gradient, group=tensor)


def not_in_place(parameters, data, tensor):
    found = []
    for kind, gradient in parameters:
        total = gradient.clone()
        dist.all_reduce(total, group=data)
        found.append((kind, total / dist.get_world_size(data)))
    return found


ALSO_WRONG = [
    ("too_much", whole_again),
    ("too_much", gathers),
    ("too_much", whole_averaged),
    ("another", {SHARE: "gradient /= dist.get_world_size(data) ** 2"}),
    ("returned", not_in_place),
    ("raised", always_flat),
    ("summed", {SHARE: "gradient = gradient / dist.get_world_size(data)"}),
    ("partial_mean", {PARTIAL: 'if kind == "partial":\n            dist.all_reduce('
                               "gradient, dist.ReduceOp.AVG, group=tensor)\n        "}),
    ("over_everything", {PARTIAL: "", MEAN: "dist.all_reduce(gradient, dist.ReduceOp.AVG)",
                         SHARE: "pass"}),
    ("all_summed", {PARTIAL: "", MEAN: "dist.all_reduce(gradient)"}),
    ("raised", {MEAN: "gradient.all_reduce(data)"}),
]  # fmt: skip
ALSO_RIGHT = [partial_in_one, in_two_messages, with_avg]
