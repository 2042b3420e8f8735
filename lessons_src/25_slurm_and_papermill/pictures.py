"""Lesson 25's pictures: from the login node to the ranks, and scripts that are told to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtlib.learn.drawing import INK, bare, box, canvas, send

from .practice_cluster import Ended

MARKS = {
    "told": ("v", "the training gets the signal"),
    "checkpoint": ("s", "the checkpoint is written"),
    "requeue": ("^", "the job is requeued"),
    "end": ("x", "the training ends by itself"),
}


def draw_question() -> Any:
    """Who starts whom, on which machine, and which shell replaces which variable."""
    figure, axes = canvas(
        "Which of these programs replaces a variable, and on which node?",
        "On the login node you call sbatch. Slurm later runs the batch script once, in a bash on "
        "node 0. That bash replaces $SLURM_NODEID there, by 0, and calls srun. srun starts one "
        "task on node 0 and one on node 1, each a bash, which replaces $SLURM_NODEID by 0 and by "
        "1. Each of them starts a torchrun, and each torchrun starts two ranks: 0 and 1 on node "
        "0, 2 and 3 on node 1.",
        size=(7.4, 3.3),
    )
    bare(axes, 12.6, 4.2)
    axes.set_yticks([0.3, 1.5, 3], ["login node", "node 0 (n1)", "node 1 (n2)"])
    axes.tick_params(axis="y", length=0)
    box(axes, 0.1, 0.3, 1.7, "outline", "sbatch")
    box(axes, 0.1, 1.5, 2.6, "outline", "script: bash")
    box(axes, 3.5, 1.5, 1.0, "outline", "srun")
    send(axes, (0.95, 0.7), (0.95, 1.1), "the queue", kind="outline")
    send(axes, (2.75, 1.5), (3.45, 1.5), kind="outline")
    for node, row in enumerate((1.5, 3)):
        send(axes, (4.55, 1.5), (5.25, row), kind="outline")
        box(axes, 5.3, row, 1.8, "outline", "task: bash")
        send(axes, (7.15, row), (7.75, row), kind="outline")
        box(axes, 7.8, row, 1.8, "outline", "torchrun")
        for rank in (2 * node, 2 * node + 1):
            place = row + 0.62 * (rank % 2) - 0.31
            send(axes, (9.65, row), (10.45, place), kind="outline")
            box(axes, 10.5, place, 1.7, "other", f"rank {rank}", height=0.5)
        axes.text(5.3, row + 0.62, f"$SLURM_NODEID → {node}".replace("$", r"\$"), color=INK,
                  ha="left", va="center")  # fmt: skip
    axes.text(0.1, 2.12, r"\$SLURM_NODEID → 0", color=INK, va="center")
    return figure


def draw_told(scripts: Mapping[str, Ended]) -> Any:
    """What each script does after its job was told to stop: a row a script, marks for events."""
    said, last = [], 0.0
    for name, ended in scripts.items():
        events = [f"{words} at {ended.when(what):.2f} s" for what, (_, words) in MARKS.items()
                  if ended.when(what) is not None]  # fmt: skip
        over = ended.when("over") or 0.0
        said.append(f"{name}: {', '.join([*events, f'the script ends at {over:.2f} s'])}")
        last = max(last, over)
    saved = [name for name, ended in scripts.items()
             if None not in (ended.when("checkpoint"), ended.when("requeue"))]  # fmt: skip
    figure, axes = canvas(
        f"Told to stop, {_and(saved)} the checkpoint and requeue{'s' * (len(saved) < 2)} the job",
        f"A bar for the time in which each script runs, in seconds after the signal. "
        f"{'; '.join(said)}.",
        size=(7.4, 3.2),
    )
    bare(axes, last + 0.3, len(scripts))
    axes.set_yticks(range(len(scripts)), [name.replace(", ", ",\n") for name in scripts])
    axes.tick_params(axis="y", length=0)
    shown = {}
    for row, ended in enumerate(scripts.values()):
        box(axes, -0.2, row, (ended.when("over") or 0.0) + 0.2, "outline", height=0.5)
        for what, (mark, words) in MARKS.items():
            if (at := ended.when(what)) is not None:
                (shown[words],) = axes.plot(at, row, mark, ms=9, color=INK, fillstyle="none")
    axes.plot([0, 0], [-0.5, len(scripts) - 0.5], ":", color=INK)
    axes.spines["bottom"].set_visible(True)
    axes.set(xlim=(-0.15, last + 0.3), xticks=range(int(last) + 1),
             xlabel="seconds after the signal; bar: the script runs")  # fmt: skip
    figure.legend(shown.values(), shown.keys(), loc="outside lower left", ncols=2)
    return figure


def _and(names: Sequence[str]) -> str:
    """Whose scripts write it: "only yours writes"."""
    verb = "write" if len(names) > 1 else "writes"
    return f"only {' and '.join(names)} {verb}" if names else "no script writes"
