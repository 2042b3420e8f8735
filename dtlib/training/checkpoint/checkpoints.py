"""Save checkpoints from all ranks at once, and find the one to resume from."""

from __future__ import annotations

import contextlib
import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from dtlib.errors import BadInput, DtlibError, counted, in_words, unusable
from dtlib.ranks import dist
from dtlib.ranks.waiting import wait_for_all
from dtlib.training.checkpoint.bucket import Bucket, is_address
from dtlib.training.checkpoint.content import refuse_foreign
from dtlib.training.checkpoint.disk import Disk
from dtlib.training.checkpoint.folders import Folder, Marker, Storage

T = TypeVar("T")


@dataclass(frozen=True)
class Loaded:
    """A checkpoint in memory.

    Attributes
    ----------
    step
        Steps done when it was saved.
    shared
        The state that all ranks have in common.
    rank_state
        The state that this rank saved for itself; None if the run had fewer ranks then.
    path
        The checkpoint's folder, or its address on S3.
    world_size
        Number of ranks that saved it.
    metric
        The metric that it was saved with.
    notes
        Sentences that the user should read: which checkpoints were skipped, and why.
    """

    step: int
    shared: dict[str, Any]
    rank_state: dict[str, Any] | None
    path: Path | str
    world_size: int
    metric: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the checkpoint's folder."""
        return str(self.path).rpartition("/")[2]


class Checkpoints:
    """The checkpoints of one run, in one folder that all ranks share, or on S3.

    `save`, `latest` and `best` are collective: every rank of the world calls them. The last two
    checkpoints and the one with the lowest metric are kept.
    """

    def __init__(self, where: Path | str) -> None:
        self._storage = storage_at(where)

    def save(
        self,
        step: int,
        shared: Mapping[str, Any],
        rank_state: Mapping[str, Any],
        metric: float | None = None,
    ) -> Path | str:
        """Write one checkpoint; once this returns on any rank, all ranks can load it.

        Parameters
        ----------
        step
            Steps done so far.
        shared
            The state that all ranks have in common; only rank 0's is written, others may pass `{}`.
        rank_state
            The state of this rank alone, such as `rng_state()`.
        metric
            Decides which checkpoint is the best one: lower is better, as for a loss.

        Returns
        -------
        Path or str
            The folder of the checkpoint, or its address on S3.

        Raises
        ------
        DtlibError
            A rank could not write; earlier checkpoints are unchanged.
        """
        storage = self._storage
        draft = _on_rank_0(lambda: storage.begin(step))
        try:
            written = _together(lambda: _write_own(storage, draft, shared, rank_state))
            name = _on_rank_0(lambda: self._publish(step, draft, written, metric))
        except DtlibError:
            if dist.is_main():
                with contextlib.suppress(DtlibError):  # the first error says more
                    storage.clean()  # the disk may be full
            raise
        return storage.path(name)

    def latest(self) -> Loaded | None:
        """Load the last complete checkpoint, or return None if there are no checkpoints.

        A damaged one is skipped for the one before it, with a warning that says what is wrong.

        Raises `BadInput` when there are checkpoints, but none is complete.
        """
        return self._load_first(self._storage.folders)

    def best(self) -> Loaded | None:
        """Load the complete checkpoint with the lowest metric; see `latest`."""

        def ranked() -> list[Folder]:
            folders = self._storage.folders()
            whole = [each for each in folders if each.what_is_wrong(read=False) is None]
            return sorted(whole, key=Folder.metric)

        return self._load_first(ranked)

    def _load_first(self, folders: Callable[[], list[Folder]]) -> Loaded | None:
        # Rank 0 chooses for all: on a slow file system, ranks might choose different ones.
        name, marker, notes = _on_rank_0(lambda: self._choose(folders()))
        if name is None or marker is None:
            return None
        found = Folder(marker.step, 0, name, self._storage)
        path = found.path()
        world = dist.world()
        own = f"rank{world.rank}.pt"
        if marker.world_size < world.world_size:
            notes.append(
                f"the checkpoint {path} was saved by {counted(marker.world_size, 'rank')} and is "
                f"loaded by {world.world_size}: ranks {marker.world_size} and up have no state of "
                "their own in it."
            )
        if dist.is_main():
            for note in notes:
                warnings.warn(note, stacklevel=3)
        shared = found.tensors("shared.pt")
        rank_state = found.tensors(own) if own in marker.files else None
        size, metric = marker.world_size, marker.metric
        return Loaded(marker.step, shared, rank_state, path, size, metric, tuple(notes))

    def _choose(self, folders: list[Folder]) -> tuple[str | None, Marker | None, list[str]]:
        torn: list[str] = []
        for folder in folders:
            wrong = folder.what_is_wrong(read=True)
            if wrong is None:
                marker, pairs = folder.marker, zip(folders, torn, strict=False)
                notes = [f"the checkpoint {one.path()} is skipped: {why}." for one, why in pairs]
                return folder.name, marker, notes
            torn.append(wrong)
        if torn:
            raise BadInput(
                f"no checkpoint in {self._storage.where} is complete (torn: {len(torn)} of "
                f"{len(torn)}; the last one, {folders[0].name}: {torn[0]}): put that file back from"
                f" a backup, or start the run in another {self._storage.setting}; this folder can"
                " stay as it is."
            )
        return None, None, []

    def _publish(
        self, step: int, draft: str, written: list[dict[str, Any]], metric: float | None
    ) -> str:
        files = {name: told for own in written for name, told in own.items()}
        there = self._storage.sizes(draft)
        for name in files:
            if name not in there:
                raise DtlibError(
                    f"rank 0 does not see {self._storage.path(draft, name)}, which another rank"
                    " wrote: the run's folder must be one that all nodes share."
                )
        number = None if metric is None or not math.isfinite(metric) else float(metric)
        marker = Marker(step, len(written), number, files)
        name = self._storage.publish(draft, json.dumps(asdict(marker), indent=2) + "\n")
        self._storage.prune()
        return name


def storage_at(where: Path | str) -> Storage:
    """Return the storage at a folder, or at an address such as `s3://bucket/prefix`.

    Raises `BadInput` for any other address, and `Unavailable` when S3 needs a package.
    """
    return Bucket(str(where)) if is_address(str(where)) else Disk(Path(where))


def place_of(run: Path | str) -> Path | str:
    """Return where the checkpoints of a run lie, given its folder, or that place itself."""
    folder = Path(run)
    if is_address(str(run)) or not (folder / "config.json").exists():
        return run if is_address(str(run)) else folder / "checkpoints"
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return settings.get("checkpoints") or folder / "checkpoints"


def check_place(where: str, *, resume: bool) -> None:
    """Refuse, before a run starts, a place where its checkpoints can't lie.

    Raises
    ------
    BadInput
        The place is no folder or bucket, can't be written to, or holds checkpoints of a run that
        is not resumed.
    Unavailable
        S3 needs a package, credentials or a server that are not to be had here.
    """
    storage = Bucket(where, attempts=1) if is_address(where) else Disk(Path(where))
    if storage.folders() and not resume:
        raise BadInput(
            f"{where} already holds a run's checkpoints: add --resume to resume it, or choose"
            " other --checkpoints."
        )
    storage.check()


def _write_own(
    storage: Storage, draft: str, shared: Mapping[str, Any], rank_state: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Write this rank's file, and on rank 0 the shared one; return sizes and hashes by name."""
    parts: dict[str, Mapping[str, Any]] = {f"rank{dist.world().rank}.pt": rank_state}
    if dist.is_main():
        parts["shared.pt"] = shared
    for name, content in parts.items():
        refuse_foreign(content, name.removesuffix(".pt"))
    return {name: storage.write(draft, name, dict(part)) for name, part in parts.items()}


def _together(do: Callable[[], T]) -> list[T]:
    """Call `do` on every rank, return all results by rank; a failure is raised on every rank.

    Otherwise the other ranks would wait for a rank whose disk is full.
    """
    dist.barrier()  # a missing rank runs into the time-out here; `do` has no time limit
    try:
        mine: tuple[T | None, DtlibError | None] = do(), None
    except DtlibError as error:
        mine = None, error
    except Exception as error:  # torch raises RuntimeError for a full disk, Python OSError
        if isinstance(error, PermissionError) and error.filename:
            mine = None, unusable(error)
        else:
            said = f"rank {dist.world().rank} failed at a checkpoint: {in_words(error)}."
            mine = None, DtlibError(said)
    wait_for_all()
    every = dist.gather_objects(mine)
    for _, failed in every:
        if failed is not None:
            raise failed
    return [result for result, _ in every]  # type: ignore[misc]


def _on_rank_0(do: Callable[[], T]) -> T:
    """Call `do` on rank 0 alone, return its result on every rank; a failure is raised on all."""
    results = _together(lambda: do() if dist.is_main() else None)
    return results[0]  # type: ignore[return-value]
