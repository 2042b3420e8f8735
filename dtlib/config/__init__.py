"""What a person sets: the one configuration, its values and flags, and the plan of its batches."""

from __future__ import annotations

from dtlib.config.files import read_yaml
from dtlib.config.run_config import RunConfig
from dtlib.config.values import CHOICES, DEFAULTS, RUNS

__all__ = ["CHOICES", "DEFAULTS", "RUNS", "RunConfig", "read_yaml"]
