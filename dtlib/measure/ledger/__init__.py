"""The ledger: bytes that a rank holds and sends in one training step, measured.

    with ledger.watch(model, optimizer) as page:
        ...one step...
    print(page.table())

It measures torch, DeepSpeed and the strategies built by hand in the same way, and contains no
formula: `dtlib.sim.memory` says what *should* be there. What is measured how:

- parameters, gradients, optimizer, fp32 copy, padding: by a census of the storages that a strategy
  says it holds (`census`);
- activations: by autograd's saved-tensor hooks (`saved`), which do not see what is recomputed under
  activation checkpointing;
- communication: storages that are passed to collectives, while they live; not the backend's own;
- other: every other tensor that Python's garbage collector knows, for instance the data set;
- everything together: by the CUDA allocator, or on a CPU by torch's profiler (`allocator`);
- collectives and messages: in torch's dispatcher (`collectives`), like CommDebugMode;
- what the backend makes of them: by the flight recorder (`flight`), without messages on gloo.

The wire bytes of a ring are derived from the payload, and are marked as derived.
"""

from dtlib.measure.ledger.census import KINDS
from dtlib.measure.ledger.page import Page
from dtlib.measure.ledger.watching import watch

__all__ = ["KINDS", "Page", "watch"]
