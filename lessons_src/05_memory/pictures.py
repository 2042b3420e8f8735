"""The pictures of lesson 05: what fills a card, and what a block keeps."""

from dtlib.learn import charts
from dtlib.learn.drawing import INK, LOOKS, bare, box, canvas, key

# Operations of a block, what each keeps in units of h numbers a position, and the tensor's name.
ATTENTION = (("norm", 1, "x"), ("qkv", 1, "in"), ("attention", 3, "q, k, v"), ("out", 1, "in"))
MLP = (("norm", 1, "x"), ("up", 1, "in"), ("GELU", 4, "its input"), ("down", 4, "its input"))


def draw_question(weights, peak, card=11.0):
    """Draw GB of a model's weights, and all that its step holds, against a card."""
    figure, axes = canvas(
        f"To train {weights:.1f} GB of weights takes more than {card:g} GB. What is the rest?",
        alt=f"A bar of {weights:.1f} GB for the weights alone. Beside it the bar of a training "
        f"step: {peak:.1f} GB, of which the weights are a small part at the bottom; it ends above "
        f"the line of a card with {card:g} GB.",
        size=(7, 2.9),
    )
    bars = {"the weights": {"weights": weights}}
    bars["a training step"] = {"weights": weights, "other": peak - weights}
    charts.stacks(axes, bars, "GB", limit=(card, f"{card:g} GB free"))
    return figure


def draw_block():
    """Draw the operations of a block, and beneath them what each keeps, as wide as it is large."""
    halves = [sum(size for _, size, _ in half) for half in (ATTENTION, MLP)]
    figure, axes = canvas(
        f"A block keeps {sum(halves)}h numbers per position, {halves[1]}h of them in its MLP",
        alt="The operations of a block from left to right, and beneath each what it keeps, as wide "
        "as it is large. Attention half: norm keeps h numbers, the layer that makes q, k and v "
        "keeps h, attention keeps q, k and v, 3h, the output layer keeps h. MLP half: norm keeps "
        "h, up keeps h, GELU keeps its input, 4h, and down keeps its input, 4h. The additions "
        "keep nothing.",
        size=(7, 2.5),
    )
    gap = 1.1
    bare(axes, sum(halves) + 2 * gap, 2)
    place = 0.0
    for operations in (ATTENTION, MLP):
        for name, size, tensor in operations:
            small = size == 1
            box(axes, place, 0, size, "outline", "" if small else name)
            box(axes, place, 1, size, "activations", "h" if small else f"{size}h: {tensor}")
            if small:
                axes.text(place + 0.5, 0, name, rotation=90, ha="center", va="center")
            place += size
        axes.text(place + gap / 2, 0, "+", ha="center", va="center")
        place += gap
    axes.set_yticks([0, 1], ["operation", "keeps"])
    axes.tick_params(axis="y", length=0)
    key(figure, ["activations"])
    return figure


KINDS = ("weights", "optimizer", "gradients", "activations")


def draw_events(held, border, peaks):
    """MB of each of `KINDS` over the events of two steps, the second from `border`, and peaks."""
    highest = max(map(sum, zip(*held, strict=True)))
    figure, axes = canvas(
        "Activations rise in forward and fall in backward",
        alt="MB held over the events of two steps, stacked: weights, optimizer, gradients, and "
        f"activations, which rise and fall in each step; at most {highest:.0f} MB together. "
        f"Dashed: the allocator's peaks, {peaks[0]:.0f} and {peaks[1]:.0f} MB.",
        size=(7, 3.4),
    )
    events = range(len(held[0]))
    areas = axes.stackplot(events, *held, colors=[LOOKS[kind].colour for kind in KINDS])
    for area, kind in zip(areas, KINDS, strict=True):
        area.set(hatch=LOOKS[kind].hatch, edgecolor=INK, linewidth=0.5)
    for begin, end, top in ((0, border - 1, peaks[0]), (border, events[-1], peaks[1])):
        axes.hlines(top, begin, end, INK, "dashed")
    axes.annotate("the allocator's peak", (0, peaks[0]), (0, 3), textcoords="offset points")
    axes.set(xlabel="events of step 1, then of step 2", ylabel="MB", ylim=(0, 1.15 * max(peaks)))
    key(figure, KINDS)
    return figure


def draw_activations(curves):
    """MB of activations over the events of a step, by name of the run."""
    tops = {name: max(line) for name, line in curves.items()}
    with_it, without = tops["yours"], tops["plain"]
    figure, axes = canvas(
        f"With checkpointing the activations reach {with_it:.2g} MB instead of {without:.2g}",
        alt="Activations in MB over the events of one step: "
        + "; ".join(f"{name} reaches {top:.3g} MB" for name, top in tops.items())
        + ".",
        size=(7, 3.2),
    )
    charts.lines(axes, {name: (range(len(line)), line) for name, line in curves.items()})
    axes.set(xlabel="events of one step", ylabel="activations, MB")
    return figure
