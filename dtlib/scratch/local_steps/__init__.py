"""Data parallel that sends less: local SGD, DiLoCo, and PowerSGD's low-rank gradients."""

from dtlib.scratch.local_steps.compare import WAYS, compare
from dtlib.scratch.local_steps.diloco import DiLoCo
from dtlib.scratch.local_steps.local_sgd import LocalSGD
from dtlib.scratch.local_steps.power_sgd import PowerSGD

__all__ = ["WAYS", "DiLoCo", "LocalSGD", "PowerSGD", "compare"]
