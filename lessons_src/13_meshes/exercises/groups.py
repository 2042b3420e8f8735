"""Exercise 13.1: whom a rank talks to on each axis of a mesh."""

from collections.abc import Mapping

from dtlib.errors import counted
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import as_lists
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Wrong
from dtlib.scratch.mesh import Mesh

AXES = ("data", "pipeline", "tensor")
# words of the solution
T, P, D = "rank % tensor", "rank // tensor % pipeline", "rank // (tensor * pipeline)"
NUMBER = "(d * pipeline + p) * tensor + t"

groups_of = solution("groups_of", globals())


def case(rank, data, pipeline, tensor):
    words = f"rank {rank} of data {data} × pipeline {pipeline} × tensor {tensor}"
    return words, (rank, data, pipeline, tensor)


def read(got):
    """The ranks of each axis in order, by axis."""
    if got is None:
        raise Wrong("none")
    if not isinstance(got, Mapping):
        raise Wrong("axes", got=f"a {type(got).__name__}")
    if {*got} != {*AXES}:
        raise Wrong("axes", got="the keys " + (", ".join(map(str, got)) or "of no axis"))
    found = {}
    for axis in AXES:
        ranks = as_lists(got[axis])
        if isinstance(ranks, list) and ranks and all(isinstance(one, list) for one in ranks):
            raise Wrong("all_groups", axis=axis, got=str(ranks)[:40])
        if not isinstance(ranks, list) or not all(isinstance(one, (int, float)) for one in ranks):
            raise Wrong("not_ranks", axis=axis, got=str(ranks)[:40])
        if any(one % 1 for one in ranks):
            raise Wrong("no_whole_number", axis=axis, got=words_of(ranks))
        if len({*ranks}) < len(ranks):
            raise Wrong("rank_twice", axis=axis, got=words_of(ranks))
        found[axis] = sorted(ranks)
    return found


def words_of(ranks):
    return (
        "[" + ", ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in ranks) + "]"
    )


def _numbered(rank, sizes, number):
    """The groups on a mesh whose ranks are numbered in another way."""
    places = [(d, p, t) for d in range(sizes[0]) for p in range(sizes[1]) for t in range(sizes[2])]
    own = next(place for place in places if number(*place, *sizes) == rank)
    return {
        axis: [number(*place, *sizes) for place in places
               if all(a == b for j, (a, b) in enumerate(zip(place, own, strict=True)) if j != k)]
        for k, axis in enumerate(AXES)
    }  # fmt: skip


def numbered(number):
    """A mistake: ranks are numbered by another rule."""
    return lambda rank, *sizes: _numbered(rank, sizes, number)


def same_coordinate(rank, data, pipeline, tensor):
    """All ranks that have the same coordinate on the axis, in place of those that differ there."""
    mesh = Mesh(data, pipeline, 1, tensor)
    own = mesh.coordinates(rank)
    return {axis: [k for k in range(mesh.ranks) if mesh.coordinates(k)[axis] == own[axis]]
            for axis in AXES}  # fmt: skip


def in_a_row(rank, data, pipeline, tensor):
    """Each group is a block of neighbours."""
    sizes = {"data": data, "pipeline": pipeline, "tensor": tensor}
    return {axis: [rank // n * n + k for k in range(n)] for axis, n in sizes.items()}


def from_here(rank, data, pipeline, tensor):
    """The groups begin at the rank itself."""
    strides = {"data": (pipeline * tensor, data), "pipeline": (tensor, pipeline),
               "tensor": (1, tensor)}  # fmt: skip
    return {axis: [rank + k * stride for k in range(n)] for axis, (stride, n) in strides.items()}


def without_itself(*given):
    return {
        axis: [one for one in ranks if one != given[0]] for axis, ranks in groups_of(*given).items()
    }


def renamed(*names):
    """A mistake: the right groups under each other's names."""
    return lambda *given: dict(zip(names, groups_of(*given).values(), strict=True))


def beyond(got, data, pipeline, tensor):
    """A rank that the mesh does not have."""
    last = data * pipeline * tensor - 1
    off = ((axis, one) for axis in AXES for one in got[axis] if not 0 <= one <= last)
    axis, one = next(off, ("", None))
    return one is not None and {"axis": axis, "one": one}


def elsewhere(got, want, data, pipeline, tensor):
    """A group of the right axis in which the rank is not."""
    mesh = Mesh(data, pipeline, 1, tensor)
    off = (axis for axis in AXES if got[axis] != want[axis] and got[axis] in mesh.groups(axis))
    return next(({"axis": axis, "got": words_of(got[axis])} for axis in off), False)


def left_out(got, want, rank):
    """A group that is right but for the rank itself."""
    found = (axis for axis in AXES if sorted([*got[axis], rank]) == want[axis])
    return next(({"axis": axis, "got": words_of(got[axis])} for axis in found), False)


def facts(got, want, data, pipeline, tensor):
    axis = next((axis for axis in reversed(AXES) if got[axis] != want[axis]), "tensor")
    sizes = {"data": data, "pipeline": pipeline, "tensor": tensor}
    return {"axis": axis, "got": words_of(got[axis]), "size": counted(sizes[axis], "rank"),
            "count": len(got[axis]), "last": data * pipeline * tensor - 1,
            "one": max(got[axis], default=-1)}  # fmt: skip


EXERCISE = Answer(
    groups_of,
    read=read,
    cases=[
        case(1, 2, 1, 2), case(5, 2, 2, 2), case(9, 2, 3, 2), case(19, 3, 2, 4), case(0, 1, 1, 1),
    ],
    mistakes=[
        ("data_first", numbered(lambda d, p, t, nd, np, nt: (t * np + p) * nd + d)),
        ("data_inside", numbered(lambda d, p, t, nd, np, nt: (p * nd + d) * nt + t)),
        ("pipeline_first", numbered(lambda d, p, t, nd, np, nt: (d * nt + t) * np + p)),
        ("same_coordinate", same_coordinate),
        ("in_a_row", in_a_row),
        ("from_here", from_here),
        Mistake("beyond", {"range(tensor)": "range(tensor + 1)"}, when=beyond),
        Mistake("without_itself", without_itself, when=left_out),
        ("renamed", renamed("tensor", "pipeline", "data")),
        ("renamed", renamed("pipeline", "data", "tensor")),
        ("rank_0", lambda rank, *sizes: groups_of(0, *sizes)),
        ("not_wrapped", {P: "rank // tensor"}),
        Mistake("elsewhere", {"at(d, k, t)": "at(0, k, t)"}, when=elsewhere),
        ("elsewhere", {"at(d, p, k)": "at(0, p, k)"}),
        ("elsewhere", {"at(d, p, k)": "at(d, 0, k)"}),
        ("elsewhere", {"at(k, p, t)": "at(k, 0, t)"}),
        ("elsewhere", {"at(k, p, t)": "at(k, p, 0)"}),
        ("elsewhere", {"at(d, k, t)": "at(d, k, 0)"}),
        ("stride", {"at(k, p, t)": "k * tensor + t"}),
        ("stride", {"at(k, p, t)": "k * pipeline + t"}),
        ("coordinates", lambda rank, data, pipeline, tensor: {
            "data": [rank // (tensor * pipeline)], "pipeline": [rank // tensor % pipeline],
            "tensor": [rank % tensor]}),
        ("places", lambda rank, data, pipeline, tensor: {
            "data": list(range(data)), "pipeline": list(range(pipeline)),
            "tensor": list(range(tensor))}),
        ("one_too_few", {"range(tensor)": "range(tensor - 1)"}),
    ],
    facts=facts,
    other="other_ranks",
)  # fmt: skip
