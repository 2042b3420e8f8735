"""The kernels of the course "from one laptop to a cluster".

`import dtlib` is quick: torch and the frameworks load when something that needs them is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dtlib.errors import BadInput, DtlibError, Stopped, Unavailable

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.ranks.launcher import RankFailed, launch
    from dtlib.training.record import Run
    from dtlib.training.start import train

__version__ = "0.1.0"
__all__ = [
    "BadInput",
    "DtlibError",
    "RankFailed",
    "Run",
    "RunConfig",
    "Stopped",
    "Unavailable",
    "launch",
    "train",
]

_HOME = {
    "RankFailed": "dtlib.ranks.launcher",
    "Run": "dtlib.training.record",
    "RunConfig": "dtlib.config",
    "launch": "dtlib.ranks.launcher",
    "train": "dtlib.training.start",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dtlib' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
