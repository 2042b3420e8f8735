"""The load of experts, measured on real ranks: lesson 13's picture and table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dtlib.learn.drawing import box, canvas, key
from dtlib.models import gpt
from dtlib.scratch import experts as ex
from dtlib.scratch.gradients import sum_gradients
from dtlib.sim.experts import capacity, served

from .mesh_runs import Table

WIDTH, TOKENS, FACTOR, STEPS = 16, 64, 1.25, 60


@dataclass(frozen=True)
class Load:
    """Of rank 0: how many of its tokens have chosen each expert, before and after training."""

    before: list[int]
    after: list[int]
    dropped: tuple[int, int]

    @property
    def capacity(self) -> int:
        return capacity(TOKENS, len(self.before), 1, FACTOR)


def run(ranks: int = 2, count: int = 4) -> Load:
    """Train the router of a mixture with nothing but the balance loss, on real ranks."""
    from dtlib.ranks.launcher import launch

    found: Load = launch(_on_rank, count, ranks=ranks, device="cpu", show=False)[0]
    return found


def _on_rank(count: int) -> Load:
    torch.manual_seed(13)
    scores = nn.Linear(WIDTH, count, bias=False)
    with torch.no_grad():
        scores.weight[0] += 0.5  # tokens have a mean above 0, so that many prefer expert 0
    config = gpt.GPTConfig(heads=1, width=WIDTH)
    mixture = ex.Mixture(scores, [gpt.MLP(config) for _ in range(count)], factor=FACTOR)
    x = torch.randn(1, TOKENS, WIDTH) + 0.3
    optimizer = torch.optim.Adam(ex.shared(mixture), lr=0.02)
    accounts = []
    for _ in range(STEPS):
        mixture(x)
        accounts.append(mixture.account)
        optimizer.zero_grad()
        ex.balance_of(mixture).backward()
        sum_gradients(ex.shared(mixture))
        optimizer.step()
    first, last = accounts[0], accounts[-1]
    return Load(first.load.tolist(), last.load.tolist(), (first.dropped, last.dropped))


def table(load: Load) -> Table:
    """What becomes of the tokens of each expert."""
    rows: list[list[Any]] = []
    for name, tokens in (("before", load.before), ("after", load.after)):
        for expert, (kept, dropped, empty) in enumerate(served(tokens, load.capacity)):
            rows.append([name, expert, tokens[expert], kept, dropped, empty])
    columns = ["", "expert", "chose it", "kept", "dropped", "empty places"]
    return (rows, columns, f"{TOKENS} tokens of rank 0; an expert takes {load.capacity} of a rank")


def draw_load(load: Load) -> Any:
    """Bars of kept and dropped tokens for each expert, before and after."""
    panels = {"before": load.before, "after": load.after}
    said = "; ".join(f"{name}: {tokens}" for name, tokens in panels.items())
    figure, several = canvas(
        f"The balance loss spreads the tokens: {load.dropped[0]} are dropped before, "
        f"{load.dropped[1]} after",
        f"How many of {TOKENS} tokens chose each expert. {said}. Above {load.capacity}, the "
        "capacity, they are dropped.",
        size=(7, 3), columns=2, sharey=True,
    )  # fmt: skip
    for axes, (name, tokens) in zip(several, panels.items(), strict=True):
        _bars(axes, tokens, load.capacity)
        axes.set_title(name, loc="left")
    several[0].set_ylabel("tokens of rank 0")
    key(figure, ["activations", "waiting"], {"activations": "kept", "waiting": "dropped"})
    return figure


def _bars(axes: Any, tokens: Sequence[int], most: int) -> None:
    for k, (kept, dropped, _) in enumerate(served(tokens, most)):
        box(axes, k - 0.35, kept / 2, 0.7, "activations", height=kept)
        box(axes, k - 0.35, kept + dropped / 2, 0.7, "waiting", height=dropped)
    axes.axhline(most, color="#000000", linewidth=1, linestyle=":")
    axes.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(0, 1.1 * TOKENS))
    axes.set_xticks(range(len(tokens)), [f"expert {k}" for k in range(len(tokens))])
