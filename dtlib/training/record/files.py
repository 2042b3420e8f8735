"""The files in a run's folder, written during training."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.config.files import write_atomically
from dtlib.training.record.lines import Lines, to_json
from dtlib.training.record.loggers import Logger, loggers_for, numbers_of
from dtlib.training.record.origin import origin

if TYPE_CHECKING:
    from dtlib.ranks.dist import World


class RunFiles:
    """The files of one rank in a run's folder.

    Parameters
    ----------
    folder
        The run's folder; the same one on all ranks.
    config
        All settings, JSON values only.
    world
        This rank's world. Rank 0 writes the shared files; every file of another rank has the rank
        in its name.
    resumed_from
        The checkpoint's number of steps, or None for a new run. Later lines are removed, so that
        no step appears twice.
    """

    def __init__(
        self,
        folder: Path | str,
        config: Mapping[str, Any],
        world: World,
        *,
        resumed_from: int | None = None,
    ) -> None:
        self.folder, self.world = Path(folder), world
        self.folder.mkdir(parents=True, exist_ok=True)
        self._started = _now()
        self._origin: dict[str, Any] = {}
        self._lines: dict[str, Lines] = {}  # by the name of the file
        self._loggers: list[Logger] = []
        rank, files = world.rank, [f"rank{world.rank}"]
        if rank == 0:
            self._origin = origin(world)
            write_atomically(self.folder / "config.json", to_json(dict(config), indent=2) + "\n")
            for stale in ("requeue", "summary.json"):
                (self.folder / stale).unlink(missing_ok=True)
            files += ["metrics", "evaluations"]
        for name in files:
            self._lines[name] = Lines(self.folder / f"{name}.jsonl", resumed_from)
        if rank == 0:  # they read the lines that are kept
            self._loggers = loggers_for(self.folder, config, resumed_from)
        self._log = (self.folder / f"rank{rank}.log").open("a" if resumed_from else "w")
        self.log(f"pid {os.getpid()} on {platform.node()}, rank {rank} of {world.world_size}")

    def step(self, step: int, **numbers: Any) -> None:
        """Add the numbers of the whole world after step `step`, counted from 1."""
        self._add("metrics", "train", step, numbers)

    def evaluation(self, step: int, **figures: Any) -> None:
        """Add the results of an evaluation by the whole world after step `step`."""
        self._add("evaluations", "evaluation", step, figures)

    def _add(self, file: str, kind: str, step: int, line: Mapping[str, Any]) -> None:
        if self.world.rank == 0:
            self._lines[file].add({"step": step, **line})
        for logger in self._loggers:
            logger.add(step, numbers_of(kind, line))

    def rank_step(self, step: int, **numbers: Any) -> None:
        """Add this rank's own numbers for step `step`."""
        self._lines[f"rank{self.world.rank}"].add({"step": step, **numbers})

    def log(self, sentence: str) -> None:
        """Add a sentence to this rank's log."""
        print(_now(), sentence, file=self._log, flush=True)

    def finish(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """Write `summary.json` on rank 0, including where it was measured, and close the files.

        Returns
        -------
        dict
            `summary` and the origin; the caller's values override those found here.
        """
        own = {"measured_or_simulated": "measured", "started": self._started, "ended": _now()}
        full = {**self._origin, **own, **summary}
        if self.world.rank == 0:
            write_atomically(self.folder / "summary.json", to_json(full, indent=2) + "\n")
        self.close()
        return full

    def requeue(self, step: int) -> None:
        """Mark in the folder that the run was stopped after `step` and should be resumed."""
        if self.world.rank == 0:
            write_atomically(self.folder / "requeue", f"stopped after step {step}\n")
            if "DTLIB_STOPPED" in os.environ:  # set by a job, which checks how far its runs got
                with Path(os.environ["DTLIB_STOPPED"]).open("a") as file:
                    file.write(f"{step} {self.folder.resolve()}\n")

    def close(self) -> None:
        """Close the files; safe to call twice."""
        for lines in self._lines.values():
            lines.file.close()
        self._log.close()
        while self._loggers:
            self._loggers.pop().close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
