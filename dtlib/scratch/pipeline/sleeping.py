"""A pipeline whose stages sleep: idle time as on GPUs, on a machine with fewer cores than ranks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from dtlib.scratch.pipeline.instructions import Instruction
from dtlib.scratch.pipeline.worker import Pipeline


class SleepingPipeline(Pipeline):
    """Sleep in every computation, so that it takes a known time whatever else runs.

    Parameters
    ----------
    *args, **kwargs
        As for `Pipeline`.
    seconds
        For each kind of computation, by the name of its class, how long it takes at least.
    """

    def __init__(self, *args: Any, seconds: Mapping[str, float], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seconds = seconds

    def carry_out(self, line: Instruction) -> None:
        end = time.perf_counter() + self.seconds.get(type(line).__name__, 0.0)
        super().carry_out(line)
        time.sleep(max(0.0, end - time.perf_counter()))
