"""Who talks to whom on a mesh: each rank has a place on every axis, and is in a group along each.

Ranks are numbered like the elements of an array whose last axis runs fastest. The last axis has
neighbouring ranks, so it stays inside a node as long as possible; it belongs to the kind of
parallelism that sends most. The order here is that of Llama 3: A. Grattafiori et al., "The Llama 3
Herd of Models", arXiv:2407.21783, section 3.3.2.

Plain functions on numbers and dicts, no imports: they also run in the browser.
"""

AXES = ("data", "pipeline", "context", "tensor")  # outermost first


def size(axes, mesh):
    """Ranks in a group along `axes`; with all axes, the ranks of the mesh."""
    product = 1
    for axis in axes:
        product *= mesh[axis]
    return product


def offsets(axes, mesh, order=AXES):
    """The group of rank 0 along `axes`, ascending; every other group is this one, shifted.

    `mesh` is a dict of axis and size; `order` names the axes, outermost first.
    """
    found, stride = [0], 1
    for axis in reversed(order):
        if axis in axes:
            found = [step * stride + rank for step in range(mesh[axis]) for rank in found]
        stride *= mesh[axis]
    return found


def groups(axes, mesh, order=AXES):
    """All groups along `axes`: ranks that differ in their places on these axes alone.

    Each is a list of ranks, ascending; together they contain every rank once.
    """
    others = [axis for axis in order if axis not in axes]
    along = offsets(axes, mesh, order)
    return [[first + rank for rank in along] for first in offsets(others, mesh, order)]


def nodes_spanned(axes, mesh, ranks_per_node, order=AXES):
    """The most nodes over which a group along `axes` spreads; from 2 on, it leaves the node.

    Ranks fill one node after the other.
    """
    most = 0
    for group in groups(axes, mesh, order):
        most = max(most, len({rank // ranks_per_node for rank in group}))
    return most
