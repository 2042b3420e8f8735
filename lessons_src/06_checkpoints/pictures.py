"""Pictures of checkpoints: what a kill leaves to redo, and who holds and writes what."""

from __future__ import annotations

from typing import Any

from dtlib.learn.drawing import bare, box, canvas, key, ranks, send

STATE = "model, optimizer, schedule, scaler,\nsampler, random state, step"


def draw_question() -> Any:
    """Draw a run that is killed after its checkpoint, and what the resumed run needs.

    Returns
    -------
    dtlib.learn.drawing.Picture
    """
    figure, axes = canvas(
        "A kill costs the steps after the checkpoint; resuming needs each of seven parts",
        alt="A run takes 17 steps, saves, takes 6 more and is killed. The resumed run starts at"
        " step 17 from the file, which holds seven parts: model, optimizer, schedule, scaler,"
        " sampler, random state and the number of steps. Its steps 18 to 40 should have the same"
        " bits as those of a run that was never killed.",
        size=(7, 2.8),
    )
    bare(axes, 40, 3)
    box(axes, 0, 0, 17, "weights", "steps 1 to 17")
    box(axes, 17, 0, 6, "waiting", "lost")
    axes.text(23.4, 0, "killed", va="center")
    box(
        axes,
        10,
        1,
        20,
        "outline",
        STATE,
    )
    box(axes, 17, 2, 23, "weights", "the same steps 18 to 40?")
    send(axes, (17, 0.3), (17, 0.7), "save")
    send(axes, (18, 1.3), (18, 1.7), "resume")
    return figure


def draw_held(n: int = 4) -> Any:
    """Draw a whole checkpoint, gathered and written by rank 0, beside a sharded one.

    Returns
    -------
    dtlib.learn.drawing.Picture
    """
    figure, panels = canvas(
        "Whole: all ranks gather, one writes. Sharded: each rank writes what it holds",
        alt=f"{n} ranks in rows, twice. Left, whole: every rank gathers all shards, and rank 0"
        " alone writes one file. Right, sharded: each rank writes its own quarter into its file.",
        size=(7, 2.9), columns=2,
    )  # fmt: skip
    for sharded, axes in enumerate(panels):
        ranks(axes, n, width=6.5)
        for r in range(n):
            box(axes, 0, r, 2.4, "weights", part=(r / n, (r + 1) / n) if sharded else (0, 1))
            if sharded or r == 0:
                send(axes, (2.5, r), (3.9, r), "")
                part = (r / n, (r + 1) / n) if sharded else (0, 1)
                box(axes, 4, r, 2.4, "optimizer", part=part)
    key(figure, ["weights", "optimizer"], {"weights": "in memory", "optimizer": "in a file"})
    return figure
