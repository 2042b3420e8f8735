"""Count what makes the host wait for the device: numbers that it reads, and blocking copies.

A GPU works through a queue, which the host fills ahead. To read one number of a tensor the host
waits until the queue is empty, and then the GPU is idle until the next kernel is launched.
https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

COPIES = ("aten::_to_copy", "aten::copy_")
READS = (
    torch.Tag.data_dependent_output,  # `_local_scalar_dense`, which is `.item()`, and `equal`
    torch.Tag.dynamic_output_shape,  # `nonzero`, and whatever selects by a mask
)


class HostWaits(TorchDispatchMode):
    """Count the operations of a `with` block that would make the host wait for a GPU.

    It looks at operations and not at the device, so that a run on a CPU shows what the same code
    would do on a GPU. A copy to another device waits unless it is `non_blocking`.

    Attributes
    ----------
    counts
        Name of the operation to how often it was met.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._methods = _HostMethods(self.counts)

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled code run as it does without this mode, and not fall back to eager."""
        return True

    def __enter__(self) -> HostWaits:
        self._methods.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._methods.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(hasattr(kind, "to_local") for kind in types):
            return NotImplemented  # a DTensor takes itself apart first, and then comes here again
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        copied = name in COPIES and _blocks(name, args, kwargs or {}, result)
        read = any(tag in func.tags for tag in READS)
        if name == "aten::index":  # by a mask, and not by numbers
            read = any(index is not None and index.dtype == torch.bool for index in args[1])
        if copied or read:
            self.counts[name] += 1
        return result


class _HostMethods(TorchFunctionMode):
    """Counts what reads a tensor of a CPU past the dispatcher, as its memory is the host's."""

    METHODS = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.cpu)

    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.METHODS and args[0].device.type == "cpu":
            self.counts[func.__name__] += 1
        return func(*args, **(kwargs or {}))


def _blocks(name: str, args: Any, kwargs: dict[str, Any], result: torch.Tensor) -> bool:
    source = args[1] if name == "aten::copy_" else args[0]
    positional = args[2] if name == "aten::copy_" and len(args) > 2 else False
    return source.device != result.device and not kwargs.get("non_blocking", positional)
