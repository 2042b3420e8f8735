"""The ledger: bytes that a rank holds and sends in one training step, measured.

    with ledger.watch(model, optimizer) as page:
        ...one step...
    print(page.table())

It measures torch, DeepSpeed and the strategies built by hand in the same way, and it holds no
formula: what *should* be there is `dtlib.sim.memory`'s to say. What sees what:

- parameters, gradients, optimizer, fp32 copy, padding: a census of the storages of what a strategy
  says it holds (`census`);
- activations: autograd's saved-tensor hooks (`saved`), which do not see what is recomputed under
  activation checkpointing;
- communication: storages that are handed to collectives, while they live; not the backend's own;
- other: every other tensor that Python's garbage collector knows, the data set for one;
- all at once: the CUDA allocator, or on a CPU torch's profiler (`allocator`);
- collectives and messages: torch's dispatcher (`collectives`), where CommDebugMode looks too;
- what the backend makes of them: the flight recorder (`flight`), without messages on gloo.

The wire bytes of a ring are derived from the payload, and marked so.
"""

from dtlib.measure.ledger.census import KINDS
from dtlib.measure.ledger.page import Page
from dtlib.measure.ledger.watching import watch

__all__ = ["KINDS", "Page", "watch"]
