"""The picture of lesson 00: split, sum, step."""

from dtlib.learn.drawing import box, canvas, key, ranks, send


def draw_step(n=4, samples=16):
    """Draw one data-parallel step of n ranks."""
    each = samples // n
    figure, axes = canvas(
        f"{n} ranks split the batch, sum their gradients and take the same step",
        alt=f"{n} rows, one for each rank. Each rank takes {each} of the {samples} samples and "
        "computes its own gradient. All gradients enter one all_reduce, and each rank gets the "
        "same mean back. With it every rank takes the same step, so all have the same weights.",
        size=(7, 3),
    )
    ranks(axes, n, width=10.2)
    for r in range(n):
        box(axes, 0.1, r, 2.1, "other", f"{each} samples")
        box(axes, 2.5, r, 1.7, "gradients", "its own")
        send(axes, (4.2, r), (5.1, r))
        send(axes, (6.0, r), (6.9, r))
        box(axes, 6.9, r, 1.5, "gradients", "mean")
        box(axes, 8.6, r, 1.5, "weights", "same")
    box(axes, 5.1, (n - 1) / 2, 0.9, "outline", height=n - 0.3)
    axes.text(5.55, (n - 1) / 2, "all_reduce", rotation=90, ha="center", va="center")
    key(figure, ["gradients", "communication", "weights"])
    return figure


def draw_losses(curves):
    """Losses of two runs by step, as marks that lie in one another where they agree."""
    names, steps = list(curves), len(next(iter(curves.values())))
    figure, axes = canvas(
        "The losses of both runs agree in every step",
        alt=f"Loss by step for {' and '.join(names)}: each cross lies in a circle, "
        f"from {curves[names[0]][0]:.2f} in the first step to {curves[names[0]][-1]:.2f}.",
        size=(6, 3),
    )
    marks = ({"marker": "o", "mfc": "none", "ms": 9}, {"marker": "x", "ms": 6})
    for name, mark in zip(names, marks, strict=True):
        axes.plot(curves[name], linestyle="", label=name, **mark)
    axes.set(xlabel="step", ylabel="loss, nats per token")
    axes.set_xticks(range(0, steps, max(1, steps // 5)))
    axes.legend(frameon=False)
    return figure
