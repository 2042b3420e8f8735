"""Dynamic loss scaling: keep fp16 gradients above the smallest number that fp16 has.

fp16 reaches from 6·10⁻⁸ to 65504. The loss is multiplied by a scale before backward, which scales
every gradient too, and gradients are divided by the scale before they are used. Too large a scale
makes infinities: such a step is skipped and the scale is halved. After a number of good steps in a
row the scale is doubled, to stay as large as it can.

Loss scaling, with a constant scale: P. Micikevicius et al., "Mixed Precision Training", ICLR 2018,
section 3.2. The rule for the scale is that of torch's `GradScaler`
(https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling).
"""

from __future__ import annotations

import torch
import torch.distributed

from dtlib.errors import BadInput, DtlibError
from dtlib.ranks import dist


class LossScaler:
    """Scale a loss, and keep the optimizer and the scale correct when gradients overflow.

    A step is `scale(loss).backward()`, `unscale_(optimizer)`, then any clip, which must see the
    true gradients, `step(optimizer)` and `update()`. With `hysteresis` 1 and one optimizer it
    equals torch's `GradScaler`, number for number.

    Parameters
    ----------
    init_scale
        The first scale. Powers of two lose no bits.
    growth_factor, backoff_factor
        What the scale is multiplied by after `growth_interval` good steps in a row, and after a
        bad one.
    growth_interval
        Steps, at least 1.
    hysteresis
        How many bad steps it takes until the scale first backs off; the count starts again when
        the scale has grown (from DeepSpeed, whose default is 2).
    skip_limit
        More bad steps in a row than this are an error; by default there is no limit.
    sharded
        Whether each rank has gradients of its own, as with ZeRO: ranks then agree on a skip, at
        the cost of a message. With data parallel all have the same gradients and agree anyway.

    Attributes
    ----------
    value
        The scale.
    skipped
        Bad steps so far.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        *,
        hysteresis: int = 1,
        skip_limit: int | None = None,
        sharded: bool = False,
    ) -> None:
        if growth_factor <= 1 or not 0 < backoff_factor < 1 or growth_interval < 1:
            raise BadInput(
                f"a scale grows by a factor above 1, not {growth_factor:g}, every 1 or more steps, "
                f"not {growth_interval}, and backs off by one below 1, not {backoff_factor:g}."
            )
        self.value, self.growth_interval = _fp32(init_scale), growth_interval
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.hysteresis = self.patience = hysteresis
        self.skip_limit, self.sharded = skip_limit, sharded
        self.good = self.bad = self.skipped = 0  # good and bad: in a row
        self.overflow: bool | None = None  # not known before unscale_

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss to call `backward()` on."""
        return loss * self.value

    @torch.no_grad()
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, in place, once per step.

        Raises
        ------
        DtlibError
            When it was already called in this step.
        """
        if self.overflow is not None:
            raise DtlibError("gradients are unscaled once per step: call update() at its end.")
        params = (p for group in optimizer.param_groups for p in group["params"])
        gradients = [p.grad for p in params if p.grad is not None]
        self.overflow = self._agreed(not all(bool(g.isfinite().all()) for g in gradients))
        for gradient in gradients:
            gradient.mul_(_fp32(1 / self.value))

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Take the optimizer's step unless a gradient overflowed; return whether it was taken.

        A learning-rate schedule must not advance after a step that was not taken.
        """
        if self.overflow is None:
            self.unscale_(optimizer)
        if not self.overflow:
            optimizer.step()
        return not self.overflow

    def update(self) -> None:
        """End the step: lower the scale, or let it grow.

        Raises
        ------
        DtlibError
            When more than `skip_limit` steps in a row were bad, or `unscale_` was not called.
        """
        if self.overflow is None:
            raise DtlibError("update() has seen no gradients: call step() or unscale_() first.")
        overflow, self.overflow = self.overflow, None
        if not overflow:
            self.bad, self.good = 0, self.good + 1
            if self.good == self.growth_interval:
                self.good, self.patience = 0, self.hysteresis
                self._multiply(self.growth_factor)
            return
        self.good, self.bad, self.skipped = 0, self.bad + 1, self.skipped + 1
        if self.patience > 1:
            self.patience -= 1
        else:
            self._multiply(self.backoff_factor)
        if self.skip_limit is not None and self.bad > self.skip_limit:
            raise DtlibError(
                f"{self.bad} steps in a row overflowed and the loss scale is down to "
                f"{self.value:g}: use bf16, or a smaller learning rate."
            )

    def _multiply(self, factor: float) -> None:
        scaled = _fp32(self.value * factor)
        if scaled != float("inf"):
            self.value = scaled

    def _agreed(self, overflow: bool) -> bool:
        if not self.sharded or not dist.in_world():
            return overflow
        flag = torch.tensor(float(overflow), device=_device_of_collectives())
        torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX)
        return bool(flag)


def _device_of_collectives() -> torch.device:
    """NCCL takes only GPU tensors; gloo takes no tensors of Apple's GPU."""
    here = dist.world()
    return here.device if "nccl" in (here.backend or "") else torch.device("cpu")


def _fp32(number: float) -> float:
    """Round as a scale that is kept in fp32 is rounded."""
    return torch.tensor(number, dtype=torch.float32).item()
