"""On the path of a job: each training step sleeps a while, before it is noted.

So a run of a few steps outlives what Slurm does every half minute, on a machine of any speed, and
takes no more CPU than it did. The numbers stay the same.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import time
from importlib.machinery import ModuleSpec
from typing import Any

SECONDS = 0.2


class Finder(importlib.abc.MetaPathFinder):
    """Finds `dtlib.training.recorder` as always, and makes its `Recorder.step` late."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != "dtlib.training.recorder":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def late(module: Any) -> None:
            execute(module)
            step = module.Recorder.step

            def slow(*args: Any) -> None:
                time.sleep(SECONDS)
                step(*args)

            module.Recorder.step = slow

        spec.loader.exec_module = late  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Finder())
