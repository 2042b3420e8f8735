"""Data parallel that communicates while it computes: a bucket is sent as soon as it is full.

A hook on every parameter runs when its gradient is complete. The hook of a bucket's last gradient
starts that bucket's all-reduce and does not wait for it, so backward continues. Buckets are sent in
the same order on all ranks, whichever is full first, since an all-reduce has no address: it is
matched by its place in the order of calls.

S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13
(2020) 3005-3018, sections 3.2.3 and 4.2.3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from dtlib.errors import BadInput, DtlibError
from dtlib.scratch.data_parallel.buckets import CAP_BYTES, assign_buckets
from dtlib.scratch.data_parallel.naive import same_start, trainable


def start_all_reduce(tensor: torch.Tensor) -> Any:
    """Start to sum a tensor over all ranks, in place; call `.wait()` on the result to finish."""
    return dist.all_reduce(tensor, async_op=True)


class Bucket:
    """Some parameters, one flat buffer for their gradients, and how full it is."""

    def __init__(self, params: list[nn.Parameter]) -> None:
        self.params = params
        self.flat = params[0].new_zeros(sum(p.numel() for p in params))
        # A view has its parameter's strides, since fused optimizers step through both together.
        self.views = {
            p: part.as_strided(p.shape, torch.empty_like(p).stride())
            for p, part in zip(params, self.flat.split([p.numel() for p in params]), strict=True)
        }
        self.missing = set(params)
        self.work: Any = None


class OverlappedDataParallel:
    """Average gradients over all ranks while backward runs.

    Train with `model` as usual, and call `wait()` between the last backward and the optimizer's
    step. At the start every rank gets rank 0's parameters and buffers.

    Parameters
    ----------
    model
        Equal in shape on all ranks. Its gradients become views into the buckets' buffers.
    cap_bytes
        The most bytes of gradients in a bucket; a larger parameter gets a bucket of its own.
    find_unused
        Let a rank that did not use a parameter contribute 0, at the cost of one small message per
        step; a parameter that no rank used keeps no gradient. Otherwise unused is an error.
    all_reduce
        Starts an all-reduce and returns what can be waited for: torch's own, or a `DelayedLink`'s.
    """

    def __init__(
        self,
        model: nn.Module,
        cap_bytes: int = CAP_BYTES,
        *,
        find_unused: bool = False,
        all_reduce: Callable[[torch.Tensor], Any] = start_all_reduce,
    ) -> None:
        same_start(model)
        self.names = {p: name for name, p in model.named_parameters()}
        self.buckets = [Bucket(params) for params in assign_buckets(trainable(model), cap_bytes)]
        self.find_unused, self.all_reduce = find_unused, all_reduce
        self.launched, self.syncing = 0, True
        self.home = {p: bucket for bucket in self.buckets for p in bucket.params}
        for p in self.home:
            p.register_post_accumulate_grad_hook(self._gradient_is_there)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Use around every micro-batch's backward but the last: gradients add up on this rank."""
        self.syncing = False
        try:
            yield
        finally:
            self.syncing = True

    def wait(self) -> None:
        """Finish the step's communication: afterwards every gradient is the mean over all ranks.

        Raises
        ------
        DtlibError
            When backward gave some parameters no gradient and `find_unused` is off.
        """
        unused = [p for bucket in self.buckets for p in bucket.params if p in bucket.missing]
        if unused and not self.find_unused:
            names = ", ".join(self.names[p] for p in unused)
            raise DtlibError(
                f"rank {dist.get_rank()}: backward gave no gradient to {names}: freeze what the "
                "loss does not use (requires_grad_(False)), or set find_unused=True."
            )
        for p in unused:
            self._put(p, torch.zeros_like(p))
        for bucket in self.buckets:
            bucket.work.wait()
            bucket.missing, bucket.work = set(bucket.params), None
        self.launched = 0
        if self.find_unused:
            self._forget_what_no_rank_used(set(unused))

    def _gradient_is_there(self, p: torch.Tensor) -> None:
        if self.syncing:
            self._put(p, p.grad)

    def _put(self, p: Any, gradient: Any) -> None:
        """Put a gradient, divided by N, into its bucket, and send the buckets that are full."""
        bucket = self.home[p]
        if gradient.layout != torch.strided:
            raise BadInput(
                f"rank {dist.get_rank()}: {self.names[p]} has a sparse gradient, which an "
                "all-reduce cannot sum: create its layer with sparse=False."
            )
        if p not in bucket.missing:
            raise DtlibError(
                f"rank {dist.get_rank()}: a second backward came before wait(): put no_sync() "
                "around every micro-batch but the last."
            )
        view = bucket.views[p]
        torch.mul(gradient, 1 / dist.get_world_size(), out=view)
        p.grad = view
        bucket.missing.remove(p)
        while self.launched < len(self.buckets) and not self.buckets[self.launched].missing:
            full = self.buckets[self.launched]
            full.work = self.all_reduce(full.flat)
            self.launched += 1

    def _forget_what_no_rank_used(self, unused: set[Any]) -> None:
        flags = [int(p not in unused) for p in self.home]
        used = torch.tensor(flags, device=self.buckets[0].flat.device)
        dist.all_reduce(used)
        for p, ranks in zip(self.home, used.tolist(), strict=True):
            if not ranks:
                p.grad = None
