"""More answers to `groups_of`, for the tests alone."""

import numpy as np
import torch

from ..exercises.groups import NUMBER, D, P, T, groups_of


# Right.
def by_counting(rank, data, pipeline, tensor):
    """Walks through the mesh in the order of its ranks."""
    places = [(d, p, t) for d in range(data) for p in range(pipeline) for t in range(tensor)]
    d, p, t = places[rank]
    return {
        "tensor": {places.index((d, p, k)) for k in range(tensor)},
        "pipeline": [places.index((d, k, t)) for k in range(pipeline)],
        "data": tuple(places.index((k, p, t)) for k in range(data)),
    }


def by_strides(rank, data, pipeline, tensor):
    found, stride = {}, 1
    for axis, size in (("tensor", tensor), ("pipeline", pipeline), ("data", data)):
        first = rank - rank // stride % size * stride
        found[axis] = range(first, first + size * stride, stride)
        stride *= size
    return found


def by_slices(rank, data, pipeline, tensor):
    """Slices of an array of all ranks, which is how most programs write it."""
    ranks = np.arange(data * pipeline * tensor).reshape(data, pipeline, tensor)
    d, p, t = np.argwhere(ranks == rank)[0]
    return {"data": ranks[:, p, t], "pipeline": {*ranks[d, :, t]},
            "tensor": torch.from_numpy(ranks[d, p, :])}  # fmt: skip


def shifted(by):
    return lambda *given: {a: [r + by for r in ranks] for a, ranks in groups_of(*given).items()}


ALSO_WRONG = [
    ("data_first", {T: "rank // (data * pipeline)", P: "rank // data % pipeline", D: "rank % data",
                    NUMBER: "(t * pipeline + p) * data + d"}),
    ("data_inside", {P: "rank // (tensor * data)", D: "rank // tensor % data",
                     NUMBER: "(p * data + d) * tensor + t"}),
    ("beyond", shifted(1)),
    ("other_ranks", lambda rank, *sizes: {axis: [rank] for axis in ("data", "pipeline", "tensor")}),
    ("without_itself", lambda *given: {a: list(r)[1:] for a, r in groups_of(*given).items()}),
    ("all_groups", lambda rank, data, pipeline, tensor: {
        "data": [[0, 1]], "pipeline": [[0]], "tensor": [[0, 1]]}),
    ("all_groups", lambda *given: {a: [ranks] for a, ranks in by_slices(*given).items()}),
    ("rank_twice", lambda *given: {a: [*r, given[0]] for a, r in groups_of(*given).items()}),
    ("not_ranks", lambda *given: {a: map(str, ranks) for a, ranks in groups_of(*given).items()}),
    ("axes", lambda *given: list(groups_of(*given).values())),
    ("axes", lambda *given: {"data": [0], "tensor": [0]}),
    ("not_ranks", lambda *given: {axis: len(ranks) for axis, ranks in groups_of(*given).items()}),
    ("no_whole_number", {T: "rank / tensor"}),
    ("none", lambda *given: print(groups_of(*given))),
    ("raised", lambda *given: groups_of(*given)["context"]),
]  # fmt: skip
ALSO_RIGHT = [by_counting, by_strides, by_slices]
LADDER = (
    """\
def groups_of(rank, data, pipeline, tensor):
    return {
        "data": [rank // data * data + k for k in range(data)],
        "pipeline": [rank // pipeline * pipeline + k for k in range(pipeline)],
        "tensor": [rank // tensor * tensor + k for k in range(tensor)],
    }""",
    """\
def groups_of(rank, data, pipeline, tensor):
    sizes = {"data": data, "pipeline": pipeline, "tensor": tensor}
    found = {}
    for axis in sizes:
        first = rank - rank % sizes[axis]
        found[axis] = list(range(first, first + sizes[axis]))
    return found""",
)
