"""How many bytes of tensors are alive at once."""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Live(TorchDispatchMode):
    """Notes the most bytes that are alive at once, of the tensors that operations return.

    Those that are held before count too; storages of fewer than `least` bytes do not.
    """

    def __init__(self, held=(), least: int = 0) -> None:
        super().__init__()
        self.most, self.least, self.seen = 0, least, {}
        for tensor in held:
            self.add(tensor)

    def add(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage.nbytes() >= self.least:
            self.seen[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor)
        self.seen = {key: pair for key, pair in self.seen.items() if not pair[0].expired()}
        self.most = max(self.most, sum(size for _, size in self.seen.values()))
        return out
