"""The two models of the course: a ResNet for small pictures and a GPT with GPT-2's shapes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Draw random numbers in the block from `seed` alone, and restore the global generator.

    This way every rank builds the same weights, whatever it drew before.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
