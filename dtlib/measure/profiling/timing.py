"""Time a call with a clock that waits for the device and leaves the first calls out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtlib.errors import BadInput
from dtlib.measure.timing import StepTimer, synchronizer

if TYPE_CHECKING:
    import torch


def seconds_of(
    function: Callable[[], Any],
    repeats: int = 5,
    *,
    warmup: int = 1,
    device: torch.device | None = None,
) -> list[float]:
    """Time `repeats` calls, after `warmup` calls that are not timed.

    Parameters
    ----------
    function
        Called without arguments.
    repeats, warmup
        Calls that are timed, and before them calls that are not.
    device
        The device whose queue must be empty when the clock is read; by default the GPU, if any.

    Returns
    -------
    list of float
        Seconds of each timed call; `statistics.median` turns them into one number.

    Raises
    ------
    BadInput
        When no call is left to time.
    """
    import torch

    if repeats < 1 or warmup < 0:
        raise BadInput(f"repeats is {repeats} and warmup {warmup}; they must be at least 1 and 0.")
    if device is None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    timer = StepTimer(warmup, synchronize=synchronizer(device))
    for _ in range(warmup + repeats):
        with timer:
            function()
    return timer.timed
