"""What a step launches: operations counted, and a ResNet-18's kernels as FLOP and bytes."""

import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dtlib.sim.tensors import resnet_convolutions

BYTES = 2  # of a number in 16 bits


class Calls(TorchDispatchMode):
    """Count the operations that torch carries out inside a `with`; views compute nothing."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        """Count the operation, then do it."""
        self.count += not operation.is_view
        return operation(*args, **(kwargs or {}))


def seconds_of(call, times=200):
    """Seconds of one `call`, as the best of five series; what disturbs one does not count."""
    found = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(times):
            call()
        found.append((time.perf_counter() - start) / times)
    return min(found)


def speed_of_a_product(device):
    """FLOP/s of a matrix product: in fp32 on one thread of this CPU, or in bf16 on this GPU."""
    if device == "cpu":
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as the runs have
        size, a = 768, torch.randn(768, 768)
        took = seconds_of(lambda: a @ a, 5)
        torch.set_num_threads(threads)
    else:
        size, a = 8192, torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

        def product():
            torch.matmul(a, a)
            torch.cuda.synchronize()

        took = seconds_of(product, 5)
    return 2 * size**3 / took


def kernels(batch, fused=False):
    """(FLOP, bytes) of the kernels of a ResNet-18's step on `batch` pictures, simulated.

    For each convolution three products (forward, and backward for the weights and for the input)
    and, unless `fused` into these, a norm in both directions and, except behind a shortcut, a
    ReLU. Each kernel reads and writes its whole tensors. A norm, which also needs means over them,
    reads twice: forward its input, backward its input and the gradient of its output. A ReLU's
    backward reads its output and that gradient. Additions, the loss and the update are left out.
    """
    found = []
    for name, inputs, outputs, kernel, side in resnet_convolutions(64):
        pictures = batch * side * side
        halves = inputs != outputs and name != "stem.0"  # the input is twice as high and wide
        flop = 2 * pictures * outputs * inputs * kernel * kernel
        whole, read = pictures * outputs, pictures * inputs * (4 if halves else 1)
        product = flop, BYTES * (read + whole + inputs * outputs * kernel * kernel)
        norms, relus = not fused, not fused and "shortcut" not in name
        found += [product, *norms * [(0.0, 3 * BYTES * whole)], *relus * [(0.0, 2 * BYTES * whole)]]
        found += [*relus * [(0.0, 3 * BYTES * whole)], *norms * [(0.0, 5 * BYTES * whole)]]
        found += [product, product]
    return found
