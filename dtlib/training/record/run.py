"""A run's records, and its row in a table."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from dtlib.errors import BadInput, counted
from dtlib.training.record.lines import read_lines, read_object

COLUMNS = (
    "study", "task", "model", "strategy", "precision", "nodes", "gpus_per_node", "world_size",
    "global_batch", "micro_batch", "accumulation", "bucket_cap_mb", "workers", "repeat",
    "warmup_steps", "timed_steps", "step_time_s", "epoch_time_s", "throughput", "throughput_unit",
    "memory_allocated_bytes", "memory_reserved_bytes", "memory_peak_bytes",
    "payload_bytes_per_step", "comm_share", "data_share", "gpu_util", "mfu", "loss", "metric",
    "seed", "commit", "host", "device", "job_id", "measured_or_simulated",
)  # fmt: skip
"""Columns of a table of runs, in order; `warmup_steps` are the steps left out of the timing."""

# A setting with a column's name but another meaning: it is the warm-up of the lr schedule.
_NOT_FROM_CONFIG = {"warmup_steps"}


@dataclasses.dataclass(frozen=True)
class Run:
    """A run and its results.

    Attributes
    ----------
    folder
        The folder with its records.
    config
        Its settings.
    summary
        Its results; empty until the run is done.
    history
        The lines of `metrics.jsonl`, one dict per step.
    evaluations
        The lines of `evaluations.jsonl`, one dict per evaluation, the last one at the end.
    """

    folder: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    history: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]

    @classmethod
    def load(cls, folder: Path | str) -> Run:
        """Read a run from its folder.

        Raises
        ------
        BadInput
            There is no run in `folder`, or its records can't be read.
        """
        folder = Path(folder)
        if not (folder / "config.json").exists():
            raise BadInput(
                f"the folder {folder} holds no run (it has no config.json): give the folder that "
                "`dtlib train` printed."
            )
        summary = folder / "summary.json"
        return cls(
            folder=folder,
            config=read_object(folder / "config.json"),
            summary=read_object(summary) if summary.exists() else {},
            history=read_lines(folder / "metrics.jsonl"),
            evaluations=read_lines(folder / "evaluations.jsonl"),
        )

    @property
    def loss(self) -> float:
        """The last step's global mean loss, before its update.

        Raises
        ------
        BadInput
            The run is not done.
        """
        if "loss" not in self.summary:
            raise BadInput(
                f"the run in {self.folder} is not done (recorded: "
                f"{counted(len(self.history), 'step')}): resume it with --resume."
            )
        return float(self.summary["loss"])

    def row(self) -> dict[str, Any]:
        """One row of a table: a value, or None, for each of `COLUMNS`."""
        row = {name: self.config.get(name) for name in COLUMNS if name not in _NOT_FROM_CONFIG}
        row["device"] = None  # the setting ("auto") isn't the device that it ran on
        found = {name: value for name, value in self.summary.items() if value is not None}
        return {name: found.get(name, row.get(name)) for name in COLUMNS}
