"""More answers to `mesh_norm`, for the tests alone."""

import torch
import torch.distributed as dist

from ..exercises.norm import COUNTED, mesh_norm


def gathers_everything(parameters, tensor, pipeline):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, parameters)
    return mesh_norm(parameters, tensor, pipeline)


def sends_gradients(parameters, tensor, pipeline):
    for _, gradient, _ in parameters[:2]:
        dist.all_reduce(gradient.clone(), group=tensor)
    return mesh_norm(parameters, tensor, pipeline)


# Right.
def in_shares(parameters, tensor, pipeline):
    """What is whole counts for 1/T on each of T ranks."""
    square = torch.zeros((), dtype=torch.float64)
    for kind, gradient, again in parameters:
        if not again:
            share = 1 if kind == "cut" else dist.get_world_size(tensor)
            square += gradient.norm() ** 2 / share
    for group in (pipeline, tensor):
        dist.all_reduce(square, group=group)
    return square.item() ** 0.5


def whole_afterwards(parameters, tensor, pipeline):
    """Over tensor what is cut alone, then what is whole is added."""
    mine = [(kind, gradient) for kind, gradient, again in parameters if not again]
    cut = torch.tensor([float((g**2).sum()) for kind, g in mine if kind == "cut"] or [0.0])
    square = cut.double().sum()
    dist.all_reduce(square, group=tensor)
    square = square + sum((g**2).sum() for kind, g in mine if kind == "whole")
    dist.all_reduce(square, group=pipeline)
    return square.sqrt()


def as_objects(parameters, tensor, pipeline):
    """Sends one number, pickled."""
    mine = [g.square().sum().item() for kind, g, again in parameters
            if not again and (kind == "cut" or dist.get_rank(tensor) == 0)]  # fmt: skip
    total = sum(mine)
    for group in (tensor, pipeline):
        parts = [None] * dist.get_world_size(group)
        dist.all_gather_object(parts, total, group=group)
        total = sum(parts)
    return total**0.5


ALSO_WRONG = [
    ("sends_gradients", sends_gradients),
    ("changed", {"square += gradient.square().sum()": "square += gradient.square_().sum()"}),
    ("mean", {".sqrt()": ".sqrt() / dist.get_world_size() ** 0.5"}),
    ("whole_again", {f" and ({COUNTED})": ""}),
    ("cut_once", {COUNTED: "not dist.get_rank(tensor)"}),
    ("value", lambda parameters, tensor, pipeline: 1.0),
    ("raised", lambda parameters, tensor, pipeline: parameters[3]),
    ("kind", lambda parameters, tensor, pipeline: [1.0]),
]
ALSO_RIGHT = [in_shares, whole_afterwards, as_objects]
