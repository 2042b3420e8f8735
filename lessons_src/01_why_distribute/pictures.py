"""Pictures of lesson 01: the question, bytes against a card, and four ways to use four GPUs.

The last is drawn from a table of rules, one for each way: which quarter of the weights a GPU keeps,
which it borrows, and which samples of the batch it sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dtlib.learn import charts
from dtlib.learn.drawing import LOOKS, bare, box, canvas, send

GPUS = 4  # and layers, columns of a layer, and samples of the batch: one for each
KEEPS, BORROWS, NOT_HERE = "keeps", "borrows", "not here"


@dataclass(frozen=True)
class Way:
    """One way to spread training.

    Attributes
    ----------
    keeps
        A GPU's part of the weights: "all", a "column" of each layer, or a "layer".
    borrows
        Whether it fetches the rest, layer by layer, while it computes.
    own_samples
        Whether it works on its own share of the batch, rather than on all of it.
    sends, when
        What travels between GPUs, and how often.
    """

    name: str
    keeps: str
    borrows: bool
    own_samples: bool
    sends: str
    when: str

    def weight(self, gpu: int, layer: int, column: int) -> str:
        """Whether a GPU keeps or borrows one piece of one layer, or does not have it."""
        mine = {"all": True, "column": column == gpu, "layer": layer == gpu}[self.keeps]
        return KEEPS if mine else BORROWS if self.borrows else NOT_HERE

    def works_on(self, gpu: int, sample: int) -> bool:
        """Whether a GPU sees a sample."""
        return sample == gpu if self.own_samples else True

    def kept(self, gpu: int = 0) -> int:
        """How many of the 16 pieces of the weights a GPU keeps."""
        cells = [(layer, column) for layer in range(GPUS) for column in range(GPUS)]
        return sum(self.weight(gpu, *cell) == KEEPS for cell in cells)


WAYS = (
    Way("data", "all", False, True, "gradients (all-reduce)", "once a step"),
    Way("tensor", "column", False, False, "activations (all-reduce)", "in every layer"),
    Way("pipeline", "layer", False, False, "activations to the next", "at every cut"),
    Way("sharded", "column", True, True, "weights and gradients", "in every layer"),
)


def rows(parameters: float, bytes_each: float = 16) -> list[list[Any]]:
    """The picture as a table.

    Parameters
    ----------
    parameters
        Ψ, for the GB of states on each GPU.
    bytes_each
        Bytes of states per parameter.
    """
    return [
        [
            way.name,
            f"{way.kept()} of {GPUS * GPUS} pieces" + (", borrows the rest" if way.borrows else ""),
            round(parameters * bytes_each * way.kept() / GPUS**2 / 1e9, 1),
            f"1 of {GPUS} samples" if way.own_samples else f"all {GPUS} samples",
            way.sends,
            way.when,
        ]
        for way in WAYS
    ]


COLUMNS = ["parallel", "each GPU keeps", "states, GB", "works on", "sends", "when"]


def draw() -> Any:
    """Draw a row of GPUs for each way: its weights as a grid of layers, its samples beneath."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        len(WAYS), GPUS, figsize=(6.4, 8.2), layout="constrained", squeeze=False
    )
    for way, line in zip(WAYS, panels, strict=True):
        for gpu, panel in enumerate(line):
            _gpu(panel, way, gpu)
        line[0].set_ylabel(way.name, fontsize=12)
    for gpu, panel in enumerate(panels[0]):
        panel.set_title(f"GPU {gpu}", fontsize=10)
    _legend(figure)
    figure.suptitle(
        "Data copies the model, tensor cuts each layer,\npipeline deals out layers, sharded borrows"
    )
    return figure


# Told by hatch and letter as well as by colour.
_LOOK = {KEEPS: (LOOKS["weights"].colour, ""), BORROWS: ("#dbe6f2", "///"), NOT_HERE: ("white", "")}


def _gpu(panel: Any, way: Way, gpu: int) -> None:
    from matplotlib.patches import Rectangle

    panel.set(xlim=(-0.1, GPUS + 0.1), ylim=(GPUS + 1.7, -0.1), aspect="equal")
    panel.set_xticks([])
    panel.set_yticks([])
    for layer in range(GPUS):
        for column in range(GPUS):
            colour, hatch = _LOOK[way.weight(gpu, layer, column)]
            panel.add_patch(
                Rectangle((column, layer), 1, 1, facecolor=colour, hatch=hatch, edgecolor="#777777")
            )
    for sample in range(GPUS):
        here = way.works_on(gpu, sample)
        panel.add_patch(
            Rectangle(
                (sample, GPUS + 0.5), 1, 1, facecolor="#f2c879" if here else "white",
                edgecolor="#777777",
            )
        )  # fmt: skip
        if here:
            panel.text(sample + 0.5, GPUS + 1, str(sample), ha="center", va="center", fontsize=8)


def _legend(figure: Any) -> None:
    from matplotlib.patches import Patch

    looks = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="#777777", label=f"weights: {name}")
        for name, (colour, hatch) in _LOOK.items()
    ]
    looks.append(Patch(facecolor="#f2c879", edgecolor="#777777", label="samples it works on"))
    figure.legend(handles=looks, loc="outside lower center", ncols=2, fontsize=9, frameon=False)


def draw_question() -> Any:
    """Draw what has to pass through one GPU."""
    figure, axes = canvas(
        "One GPU, a model and its data: when is it done, does it fit, what does it cost?",
        alt="A box of 2 trillion tokens and a box of 7 billion parameters with arrows into one GPU "
        "of 80 GB and 312 TFLOP/s. Out of it comes a trained model; the days, the GB and the price "
        "are question marks.",
        size=(7, 2.2),
    )
    bare(axes, 10, 3)
    box(axes, 0, 0, 3, "other", "2 trillion tokens")
    box(axes, 0, 2, 3, "weights", "7 billion parameters")
    box(axes, 4.3, 1, 2.6, "outline", "one GPU:\n80 GB\n312 TFLOP/s", height=1.7)
    box(axes, 8, 1, 2, "weights", "trained")
    send(axes, (3, 0), (4.3, 0.7), kind="outline")
    send(axes, (3, 2), (4.3, 1.3), kind="outline")
    send(axes, (6.9, 1), (8, 1), kind="outline")
    axes.text(7.45, 0.2, "? days\n? money", ha="center", va="center")
    axes.text(5.6, 2.25, "? GB of 80", ha="center", va="center")
    return figure


def draw_states(memory: float, sizes: tuple[float, ...] = (1e9, 3e9, 7e9, 13e9)) -> Any:
    """Draw GB of model states in mixed precision with Adam, against a GPU's memory in bytes."""
    card = memory / 1e9
    figure, axes = canvas(
        f"{card:.1f} GB hold the states of at most {card / 16:.1f} billion parameters",
        alt="; ".join(
            f"{size / 1e9:g} billion parameters: {2 * size / 1e9:g} GB of weights, as much for the "
            f"gradients, {12 * size / 1e9:g} GB for the optimizer" for size in sizes
        ) + f". A line at {card:.1f} GB is the memory of the GPU.",
        size=(7, 3),
    )  # fmt: skip
    bars = {
        f"{size / 1e9:g}·10⁹": {
            "weights": 2 * size / 1e9, "gradients": 2 * size / 1e9, "optimizer": 12 * size / 1e9,
        }
        for size in sizes
    }  # fmt: skip
    charts.stacks(axes, bars, "GB of states", limit=(card, "one GPU"))
    axes.set_xlabel("parameters")
    return figure
