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
