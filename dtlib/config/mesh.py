"""How the ranks of a run are arranged: `--mesh data=2,tensor=2`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from dtlib.errors import BadInput, counted, did_you_mean

DATA = ("replicate", "data")  # the axes along which ranks get other samples


@dataclass(frozen=True)
class Mesh:
    """The number of ranks along each axis, from the outermost to the innermost.

    Ranks are counted along the innermost axis first, so ranks that differ only in their tensor
    coordinate are neighbours: tensor parallelism sends most often, and neighbours share a node. The
    order is that of Llama 3 (arXiv:2407.21783, section 3.3.2), whatever the order in which a user
    names the axes.

    Attributes
    ----------
    replicate
        Copies of the model under fsdp; each is shared by the ranks of the axes that follow.
    data
        Ranks that get other samples.
    pipeline
        Stages of consecutive layers.
    context
        Parts of a sequence.
    tensor
        Parts of each matrix.
    """

    replicate: int = 1
    data: int = 1
    pipeline: int = 1
    context: int = 1
    tensor: int = 1

    @classmethod
    def of(cls, given: str | Mapping[str, Any]) -> Mesh:
        """Read `data=2,tensor=2`, or a mapping such as YAML's; an axis left out has size 1.

        Raises `BadInput` for an unknown axis, an axis given twice, or a size that is no whole
        number of at least 1.
        """
        if isinstance(given, Mapping):
            pairs = [*given.items()]
        elif isinstance(given, str):
            pairs = [word.partition("=")[::2] for word in given.split(",")]
        else:
            raise BadInput(f"mesh is {given!r}; it must be like data=2,tensor=2.")
        sizes: dict[str, int] = {}
        for name, size in ((str(name).strip(), str(size).strip()) for name, size in pairs):
            if name not in AXES:
                hint = did_you_mean(name, AXES)
                raise BadInput(f"mesh has no axis {name!r}; its axes are {', '.join(AXES)}.{hint}")
            if name in sizes:
                raise BadInput(f"mesh has the axis {name} twice; give it once.")
            if not size.isdecimal() or len(size) > 9 or int(size) < 1:
                raise BadInput(
                    f"the mesh's axis {name} is {size or 'empty'}; it must be a whole number of at"
                    f" least 1, as in {name}=2."
                )
            sizes[name] = int(size)
        return cls(**sizes)

    @property
    def sizes(self) -> dict[str, int]:
        """Axis to its number of ranks, outermost first."""
        return dataclasses.asdict(self)

    @property
    def size(self) -> int:
        """The number of all ranks."""
        return prod(self.sizes.values())

    @property
    def data_size(self) -> int:
        """The number of ranks that get different samples: the data-parallel size."""
        return self.replicate * self.data

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return a rank's place on each axis, counted from 0."""
        found: dict[str, int] = {}
        for axis, size in reversed(self.sizes.items()):
            rank, found[axis] = divmod(rank, size)
        return found

    def along(self, ranks: Iterable[int]) -> str:
        """Return the axes along which ranks differ, as in `data × tensor`; "" for a single rank."""
        places = [self.coordinates(rank) for rank in ranks]
        return " × ".join(axis for axis in AXES if len({place[axis] for place in places}) > 1)

    def data_rank(self, rank: int) -> int:
        """Return which of the `data_size` shares of a batch a rank gets."""
        own = self.coordinates(rank)
        return own["replicate"] * self.data + own["data"]

    def speaks(self, rank: int) -> bool:
        """Return whether a rank's counts and losses enter the sums over all ranks.

        Of the ranks that share their samples one does, the last on every other axis: the last stage
        of a pipeline is the one that has the loss.
        """
        own = self.coordinates(rank)
        return all(own[axis] == size - 1 for axis, size in self.sizes.items() if axis not in DATA)

    def refuse_ranks(self, ranks: int) -> None:
        """Refuse a number of ranks that this mesh does not have."""
        if ranks != self.size:
            sizes = [str(size) for size in self.sizes.values() if size > 1]
            product = f"{' × '.join(sizes)} = {self.size}" if len(sizes) > 1 else self.size
            raise BadInput(
                f"mesh {self} has {product} rank{'s' * (self.size > 1)}, but the run has"
                f" {counted(ranks, 'rank')}; make the product of its axes {ranks}, or leave out"
                " ranks."
            )

    def __str__(self) -> str:
        named = [f"{axis}={size}" for axis, size in self.sizes.items() if size > 1]
        return ",".join(named) or "data=1"


AXES = tuple(field.name for field in dataclasses.fields(Mesh))


def written(given: Any) -> str | None:
    """Return a mesh in its one spelling, or None; raises `BadInput` like `Mesh.of`."""
    return None if given is None else str(Mesh.of(given))


def arranged(settings: Mapping[str, Any], world_size: int) -> Mesh:
    """Return how the ranks of a run with these settings are arranged.

    Raises `BadInput` when the mesh that they name has another number of ranks.
    """
    group, own = settings["shard_ranks"], settings["strategy"]
    if settings["mesh"] is not None:
        mesh = Mesh.of(settings["mesh"])
        mesh.refuse_ranks(world_size)
        return mesh
    if group is not None and world_size % group == 0:
        return Mesh(replicate=world_size // group, data=group)
    return Mesh(**{own if own in AXES else "data": world_size})
