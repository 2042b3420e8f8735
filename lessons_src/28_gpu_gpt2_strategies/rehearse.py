"""A family of small runs in a few launches: runs with the same number of ranks share processes.

`family.carry_out` gives every run its own processes, so that a run that dies takes no other with
it, and each begins with fresh memory. Use this module where a run takes less time than its
processes take to start, as in a rehearsal.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtlib.config import RunConfig
from dtlib.errors import BadInput, Unavailable
from dtlib.ranks import launcher
from dtlib.study.family import Outcome, Planned
from dtlib.training import start
from dtlib.training.record import Run


def together(out: Path, plans: Sequence[Planned]) -> list[Outcome]:
    """Carry out runs, those with the same number of ranks in one launch, and return the outcomes.

    Parameters
    ----------
    out
        Folder of the runs; a run that is already done there is not run again.
    plans
        The runs; each states its number of ranks.

    Returns
    -------
    list of Outcome
        In the order of `plans`: done, unavailable or refused.

    Raises
    ------
    RankFailed, Stopped
        When a run fails or is stopped; those after it in the same launch are not run.
    """
    found = {planned.name: _before(out / planned.name, planned) for planned in plans}
    by_ranks: dict[int | None, list[RunConfig]] = {}
    for planned in plans:
        if found[planned.name] is None:
            config = _config(out / planned.name, planned)
            by_ranks.setdefault(config.ranks, []).append(config)
    for ranks, configs in by_ranks.items():
        first = configs[0]
        launcher.launch(
            _in_turn, configs, ranks=ranks, device=first.device, threads=first.threads,
            timeout=max(config.timeout for config in configs), show=False,
        )  # fmt: skip
    return [
        found[planned.name] or Outcome(planned, Run.load(out / planned.name)) for planned in plans
    ]


def _before(folder: Path, planned: Planned) -> Outcome | None:
    """Return the outcome of a run that is done or cannot run; None for one that has to run."""
    if (folder / "summary.json").exists():
        return Outcome(planned, Run.load(folder))
    try:
        start.prepare(_config(folder, planned))
    except Unavailable as error:
        return Outcome(planned, None, "unavailable", str(error))
    except BadInput as error:
        return Outcome(planned, None, "refused", str(error))
    return None


def _config(folder: Path, planned: Planned) -> RunConfig:
    """The run's configuration in this folder, where it resumes if it was interrupted."""
    begun = (folder / "config.json").exists()
    often = planned.config.checkpoint_every or 0  # a table needs no weights
    own: dict[str, Any] = {"out": str(folder), "resume": begun, "checkpoint_every": often}
    return dataclasses.replace(planned.config, **own)


def _in_turn(configs: Sequence[RunConfig]) -> None:
    for config in configs:
        start.train(config)
        gc.collect()  # engines are in reference cycles, and would count as the next run's memory
