"""The two models of the course: a ResNet for small pictures and a GPT with GPT-2's shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Draw what happens inside from `seed` alone, and leave the global generator as it was.

    Every rank builds the same weights this way, whatever it drew before.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
