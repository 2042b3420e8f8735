"""Pictures of lesson 13: the groups of a mesh, and who holds which slice of a model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from dtlib.learn.drawing import bare, box, canvas, key, ranks
from dtlib.scratch.mesh import Mesh

from .mesh_runs import AXES

MEANS = {
    "tensor": "one layer's matrices, cut",
    "pipeline": "the layers, one after another",
    "data": "the same weights, other samples",
}


def draw_question() -> Any:
    """A model that needs four of eight ranks."""
    figure, axes = canvas(
        "A model needs four GPUs, and you have eight in two nodes. Who shares what?",
        "Two nodes of four GPUs, numbered 0 to 7. The weights of a model are as wide as four GPUs.",
        size=(7, 2),
    )
    bare(axes, 17.5, 2.4)
    for node in range(2):
        box(axes, 0.2 + 8.9 * node, 1, 8.1, "outline")
        for k in range(4):
            box(axes, 0.5 + 8.9 * node + 1.95 * k, 1, 1.7, "other", str(4 * node + k))
        axes.text(4.25 + 8.9 * node, 1.75, f"node {node}", ha="center", va="center")
    box(axes, 4.7, 0, 8.0, "weights", "one model")
    return figure


def draw_groups(mesh: Mesh, per_node: int = 4) -> Any:
    """For each axis its groups, a row each; ranks to the right, node after node."""
    said = "; ".join(
        f"{axis}: " + ", ".join(str(group) for group in mesh.groups(axis)) for axis in AXES
    )
    groups = {axis: mesh.groups(axis) for axis in reversed(AXES)}
    most = max(map(len, groups.values()))
    figure, several = canvas(
        "Groups of tensor lie inside a node, groups of data reach from node to node",
        f"The groups of a mesh of {mesh}, with {per_node} ranks in a node. {said}.",
        size=(7, 0.9 + 3 * (0.45 + 0.3 * most)), rows=len(AXES),
    )  # fmt: skip
    for axes, (axis, rows) in zip(several, groups.items(), strict=True):
        bare(axes, mesh.ranks, len(rows))
        axes.set_title(f"{axis}: {MEANS[axis]}", loc="left")
        for row, group in enumerate(rows):
            for rank in group:
                box(axes, rank + 0.2, row, 0.6, "communication", str(rank))
            for one, other in itertools.pairwise(group):
                axes.plot([one + 0.8, other + 0.2], [row, row], color="#000000", linewidth=1)
        for node in range(per_node, mesh.ranks, per_node):
            axes.axvline(node, color="#000000", linestyle=":", linewidth=1)
    return figure


def draw_slices(meshes: Sequence[Mesh], layers: int = 2) -> Any:
    """Which samples and which slice of which layer each rank of a few meshes has."""
    figure, several = canvas(
        "Four ranks, three meshes: every rank has other samples or another slice",
        "A panel for each mesh. " + " ".join(_in_words(mesh, layers) for mesh in meshes),
        size=(7, 1.0 + 1.75 * len(meshes)), rows=len(meshes),
    )  # fmt: skip
    for axes, mesh in zip(several, meshes, strict=True):
        ranks(axes, mesh.ranks, 4.2 + 3.4 * layers)
        axes.set_title(str(mesh), loc="left")
        for rank in range(mesh.ranks):
            at = mesh.coordinates(rank)
            cut = _part(at["tensor"], mesh.tensor)
            box(axes, 0.2, rank, 3.2, "activations", part=_part(at["data"], mesh.data))
            for layer in range(layers):
                here = layer * mesh.pipeline // layers == at["pipeline"]
                part = cut if here else (0, 0)
                box(axes, 4.2 + 3.4 * layer, rank, 3, "weights", part=part)
    words = {"activations": "samples", "weights": "layer 0, layer 1", "outline": "on other ranks"}
    key(figure, list(words), words)
    return figure


def _part(k: int, n: int) -> tuple[float, float]:
    return k / n, (k + 1) / n


def _in_words(mesh: Mesh, layers: int) -> str:
    said = []
    for rank in range(mesh.ranks):
        at = mesh.coordinates(rank)
        own = [k for k in range(layers) if k * mesh.pipeline // layers == at["pipeline"]]
        said.append(
            f"rank {rank} has part {at['data']} of {mesh.data} of the samples, and part "
            f"{at['tensor']} of {mesh.tensor} of layers {own}"
        )
    return f"{mesh}: " + "; ".join(said) + "."
