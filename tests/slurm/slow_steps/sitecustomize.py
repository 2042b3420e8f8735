"""On the path of a job: each training step sleeps a while, before it is noted.

So a run of a few steps outlives what Slurm does every half minute, on a machine of any speed, and
takes no more CPU than it did. The numbers stay the same. With SLOW_SAVE=8 in its environment each
checkpoint takes 8 seconds more, too.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import time
from importlib.machinery import ModuleSpec
from typing import Any

LATE = {  # what sleeps, in which module, and for how many seconds
    "dtlib.training.recorder": ("Recorder", "step", 0.2),
    "dtlib.training.checkpoint.checkpointer": (
        "Checkpointer", "save", float(os.environ.get("SLOW_SAVE", "0")),
    ),
}  # fmt: skip


class Finder(importlib.abc.MetaPathFinder):
    """Finds these modules as always, and makes a method of each late."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name not in LATE:
            return None
        owner, method, seconds = LATE.pop(name)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def late(module: Any) -> None:
            execute(module)
            on_time = getattr(getattr(module, owner), method)

            def slow(*args: Any, **kwargs: Any) -> Any:
                time.sleep(seconds)
                return on_time(*args, **kwargs)

            setattr(getattr(module, owner), method, slow)

        spec.loader.exec_module = late  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Finder())
