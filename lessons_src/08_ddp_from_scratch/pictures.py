"""Lesson 08's pictures: its question, and the four ways as timelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.charts import lines
from dtlib.learn.drawing import INK, bare, box, canvas, key, ranks, send

from .timed import Timeline


def draw_question() -> Any:
    """Two ranks, half a batch each: what has to travel so that their weights stay the same."""
    figure, axes = canvas(
        "Each rank has half of the batch. What has to travel so that both end alike?",
        "Rank 0 and rank 1 each compute gradients from the same weights and their own half of the "
        "batch. Between the gradients and the step a message goes each way, with a question mark. "
        "Then both ranks have the same new weights.",
        size=(7, 2.2),
    )
    bare(axes, 10.2, 2)
    ranks(axes, 2, 10.2)
    for rank in (0, 1):
        box(axes, 0.1, rank, 1.6, "weights", "weights")
        box(axes, 2.0, rank, 1.6, "activations", "½ batch")
        box(axes, 3.9, rank, 2.0, "gradients", "gradients")
        box(axes, 8.3, rank, 1.8, "weights", "weights")
        send(axes, (7.3, rank), (8.25, rank), kind="outline")
    send(axes, (5.95, 0), (7.2, 0.95))
    send(axes, (5.95, 1), (7.2, 0.05))
    axes.text(7.5, 0.5, "?", fontsize=18, ha="center", va="center", color=INK)
    axes.text(9.2, 0.5, "=", fontsize=14, ha="center", va="center", color=INK)
    return figure


def draw_ways(runs: Mapping[str, Timeline]) -> Any:
    """One step of each way on rank 0: backward, and below it the messages on the link."""
    hidden = {way: round(100 * run.hidden) for way, run in runs.items()}
    best = max(hidden, key=lambda way: hidden[way])
    said = "; ".join(
        f"{way}: backward ends at {run.backward:.0f} ms, the last of {len(run.rows)} messages "
        f"arrives at {run.done:.0f} ms, {hidden[way]} % of the link's time is hidden"
        for way, run in runs.items()
    )
    figure, axes = canvas(
        f"Only {best} sends while backward runs: it hides {hidden[best]} % of the link's time",
        f"A bar of backward and the messages below it, for each way. {said}.",
        size=(7, 4.4),
    )
    bare(axes, 1.02 * max(run.done for run in runs.values()), 2 * len(runs))
    rows = [f"{way}: {lane}" for way in runs for lane in ("backward", "link")]
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(axis="y", length=0)
    for k, run in enumerate(runs.values()):
        box(axes, 0, 2 * k, run.backward, "backward", "backward")
        for _, leaves, arrives in run.rows:
            box(axes, leaves, 2 * k + 1, arrives - leaves, "communication", simulated=True)
        axes.plot([run.backward] * 2, [2 * k - 0.45, 2 * k + 1.45], ":", color=INK)
    first = next(iter(runs.values()))
    axes.annotate("backward ends", (first.backward, 0), (5, 0), textcoords="offset points",
                  va="center", color=INK)  # fmt: skip
    axes.spines["bottom"].set_visible(True)
    axes.xaxis.set_major_locator(_ticks())
    axes.set_xlabel("ms since backward began; the link is simulated")
    key(figure, ["backward", "communication"], {"communication": "a message on the link"})
    return figure


def _ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=8, steps=[1, 2, 5, 10])


def draw_buckets(swept: Sequence[tuple[int, int, float]], backward: float) -> Any:
    """Ms until all gradients are there, by the number of buckets; `swept` has (cap, count, ms)."""
    counts, done = [row[1] for row in swept], [row[2] for row in swept]
    best = counts[done.index(min(done))]
    figure, axes = canvas(
        f"{best} buckets are the best of these: fewer leave late, more pay α often",
        alt="Milliseconds from the start of backward until all gradients are there, simulated: "
        + ", ".join(f"{c} buckets {ms:.1f}" for c, ms in zip(counts, done, strict=True))
        + f"; backward itself ends after {backward:.1f} ms.",
        size=(6.4, 3),
    )
    axes.set(xscale="log", xlabel="buckets", ylabel="ms since backward began")
    rising = sorted(zip(counts, done, strict=True))
    curves = {
        "gradients there": ([count for count, _ in rising], [ms for _, ms in rising]),
        "backward": ((rising[0][0], rising[-1][0]), (backward, backward)),
    }
    axes.set(xticks=counts, xticklabels=counts, ylim=(0, 1.1 * max(done)))
    axes.minorticks_off()
    lines(axes, curves, simulated=["gradients there"])
    return figure
