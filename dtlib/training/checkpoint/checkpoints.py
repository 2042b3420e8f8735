"""Save checkpoints from all ranks at once, and find the one to resume from."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from dtlib.config.files import fsync_folder, write_atomically
from dtlib.errors import BadInput, DtlibError, counted, in_words, unusable
from dtlib.ranks import dist
from dtlib.ranks.waiting import wait_for_all
from dtlib.training.checkpoint.content import refuse_foreign
from dtlib.training.checkpoint.folders import (
    MARKER,
    TEMPORARY,
    Folder,
    Marker,
    free_name,
    list_folders,
    prune,
    read_tensors,
    remove_temporary,
    write_tensors,
)

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
        The checkpoint's folder.
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
    path: Path
    world_size: int
    metric: float | None = None
    notes: tuple[str, ...] = ()


class Checkpoints:
    """The checkpoints of one run, in one folder that all ranks share.

    `save`, `latest` and `best` are collective: every rank of the world calls them. The last two
    checkpoints and the one with the lowest metric are kept.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def save(
        self,
        step: int,
        shared: Mapping[str, Any],
        rank_state: Mapping[str, Any],
        metric: float | None = None,
    ) -> Path:
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
        Path
            The folder of the checkpoint.

        Raises
        ------
        DtlibError
            A rank could not write; earlier checkpoints are unchanged.
        """
        temporary = self.folder / f"{TEMPORARY}step-{step:08d}"
        _on_rank_0(lambda: _make_empty(self.folder, temporary))
        try:
            written = _together(lambda: _write_own(temporary, shared, rank_state))
            return Path(_on_rank_0(lambda: self._publish(step, temporary, written, metric)))
        except DtlibError:
            if dist.is_main():
                remove_temporary(self.folder)  # the disk may be full
            raise

    def latest(self) -> Loaded | None:
        """Load the last complete checkpoint, or return None if there are no checkpoints.

        A damaged one is skipped for the one before it, with a warning that says what is wrong.

        Raises `BadInput` when there are checkpoints, but none is complete.
        """
        return self._load_first(list_folders(self.folder))

    def best(self) -> Loaded | None:
        """Load the complete checkpoint with the lowest metric; see `latest`."""
        folders = [f for f in list_folders(self.folder) if f.what_is_wrong(read=False) is None]
        return self._load_first(sorted(folders, key=Folder.metric))

    def _load_first(self, folders: list[Folder]) -> Loaded | None:
        # Rank 0 chooses for all: on a slow file system, ranks might choose different ones.
        found, notes = _on_rank_0(lambda: self._choose(folders))
        if found is None:
            return None
        path, marker = found.path, found.marker()
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
        shared = read_tensors(path / "shared.pt")
        rank_state = read_tensors(path / own) if own in marker.files else None
        size, metric = marker.world_size, marker.metric
        return Loaded(marker.step, shared, rank_state, path, size, metric, tuple(notes))

    def _choose(self, folders: list[Folder]) -> tuple[Folder | None, list[str]]:
        notes: list[str] = []
        for folder in folders:
            wrong = folder.what_is_wrong(read=True)
            if wrong is None:
                return folder, notes
            notes.append(f"the checkpoint {folder.path} is skipped: {wrong}.")
        if notes:
            wrong = folders[0].what_is_wrong(read=True)
            raise BadInput(
                f"no checkpoint in {self.folder} is complete (torn: {len(notes)} of "
                f"{len(notes)}; the last one, {folders[0].path.name}: {wrong}): put that file back "
                "from a backup, or start the run in another --out; this folder can stay as it is."
            )
        return None, notes

    def _publish(
        self, step: int, temporary: Path, written: list[dict[str, Any]], metric: float | None
    ) -> str:
        files = {name: told for own in written for name, told in own.items()}
        for name in files:
            if not (temporary / name).is_file():
                raise DtlibError(
                    f"rank 0 does not see {temporary / name}, which another rank wrote: "
                    "the run's folder must be one that all nodes share."
                )
        number = None if metric is None or not math.isfinite(metric) else float(metric)
        marker = Marker(step, len(written), number, files)
        write_atomically(temporary / MARKER, json.dumps(asdict(marker), indent=2) + "\n")
        path = self.folder / free_name(self.folder, step)
        temporary.rename(path)
        fsync_folder(self.folder)
        prune(self.folder)
        return str(path)


def _make_empty(folder: Path, temporary: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    remove_temporary(folder)
    temporary.mkdir()


def _write_own(
    temporary: Path, shared: Mapping[str, Any], rank_state: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Write this rank's file, and on rank 0 the shared one; return sizes and hashes by name."""
    parts: dict[str, Mapping[str, Any]] = {f"rank{dist.world().rank}.pt": rank_state}
    if dist.is_main():
        parts["shared.pt"] = shared
    for name, content in parts.items():
        refuse_foreign(content, name.removesuffix(".pt"))
    return {name: write_tensors(temporary / name, dict(part)) for name, part in parts.items()}


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
