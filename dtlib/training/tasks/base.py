"""What the loop needs from a task: micro-batches, a summed loss, an exact evaluation."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import functional as F

from dtlib.config.values import HF
from dtlib.data import IMAGES, text
from dtlib.data.batches import IGNORE, order, split
from dtlib.data.places import is_folder_name
from dtlib.errors import BadInput, refuse_unknown
from dtlib.ranks import dist
from dtlib.sim import shapes
from dtlib.strategies.micro_batches import Batch
from dtlib.strategies.precision import sums_dtype, weights_dtype

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.config.plan import BatchPlan
    from dtlib.ranks.dist import World
    from dtlib.strategies.base import Strategy

NAMES: dict[str, dict[str, Iterable[str]]] = {
    "model": {"images": shapes.RESNET, "text": shapes.GPT},
    "data": {"images": IMAGES, "text": text.NAMES},
}


class Share(NamedTuple):
    """This rank's share of a global batch: the indices, and the slice of each micro-batch."""

    step: int
    indices: torch.Tensor
    parts: list[slice]


class Task(ABC):
    """A model, its training data and how well it does on data it has not seen.

    Attributes
    ----------
    model
        On the CPU, in fp32, with weights drawn from the seed alone: the same on every rank.
    train_size
        Number of samples (pictures, windows of text) in the training data.
    sample, units_per_sample, unit
        What a sample is called, and what a throughput counts: a window's tokens, "tokens/s".
    vocab_size
        Entries of a text's vocabulary; None for pictures.
    metric, held_out_loss
        Names of two of the evaluation's figures: the one that tables show, and the one that
        decides which checkpoint is the best.
    """

    model: torch.nn.Module
    train_size: int
    sample: str
    units_per_sample: int = 1
    unit: str
    vocab_size: int | None = None
    metric: str
    held_out_loss: str

    def __init__(self, config: RunConfig, world: World) -> None:
        self.config = config
        self.world = world
        self.dtype = weights_dtype(config.precision)

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Refuse a configuration that this task can't run, before any rank starts."""
        for key, names in NAMES.items():
            value, own = getattr(config, key), names[config.task]
            for other in names:
                if value in names[other] and value not in own and not is_folder_name(value):
                    raise BadInput(
                        f"{key} {value} belongs to the task {other}; for {config.task}, choose"
                        f" from {', '.join(own)}."
                    )
        if (config.model or "").startswith(HF):
            if config.task != "text":
                raise BadInput(
                    f"model {config.model} is a language model; train it by `dtlib train text`."
                )
        elif config.model is not None:
            refuse_unknown("model", config.model, NAMES["model"][config.task])

    @classmethod
    @abstractmethod
    def check_data(cls, config: RunConfig) -> int:
        """Refuse unusable data before any rank starts; return the number of training samples.

        Raises `BadInput`.
        """

    @classmethod
    def refuse_few(cls, size: int, plan: BatchPlan) -> None:
        """Refuse training data that are smaller than one global batch."""
        if size < plan.global_batch:
            raise BadInput(
                f"the training data hold {size} {cls.sample}, fewer than the global"
                f" batch of {plan.global_batch}; use a smaller global batch, or more data."
            )

    @abstractmethod
    def train_batches(self, shares: Iterable[Share]) -> Iterator[Batch]:
        """Yield the micro-batches of each share, on the device."""

    @abstractmethod
    def evaluation_batches(self) -> int:
        """Return the evaluation's number of batches, which does not depend on the ranks."""

    @abstractmethod
    def evaluation_batch(self, number: int) -> Batch:
        """Return batch `number` of the evaluation, on the device."""

    @abstractmethod
    def figures(self, loss: float, accuracy: float) -> dict[str, Any]:
        """Return the evaluation's results by name, from its mean loss and accuracy."""

    def extras(self) -> dict[str, Any]:
        """Return what rank 0 adds to the summary once training is over."""
        return {}

    def steps_per_epoch(self, plan: BatchPlan) -> int:
        """Return how many whole global batches an epoch has; the remaining samples are dropped.

        Raises `BadInput` when there are none.
        """
        self.refuse_few(self.train_size, plan)
        return self.train_size // plan.global_batch

    def steps(self, plan: BatchPlan, first: int) -> Iterator[list[Batch]]:
        """Yield this rank's micro-batches for each step from `first` on, forever."""
        batches = self.train_batches(self.shares(plan, first))
        while True:
            yield list(itertools.islice(batches, plan.accumulation))

    def shares(self, plan: BatchPlan, first: int) -> Iterator[Share]:
        """Yield this rank's share of each step from `first` on, forever.

        It depends on (seed, step) alone: the samples are ordered into *global* batches, and each
        rank cuts out its parts, so one rank and four see the same samples, resumed or not.
        """
        parts = [plan.micro_slice(a, self.world.rank) for a in range(plan.accumulation)]
        per_epoch = self.steps_per_epoch(plan)
        for epoch in itertools.count(first // per_epoch):
            shuffled = order(self.train_size, self.config.seed, epoch).split(plan.global_batch)
            begin = max(first, epoch * per_epoch)
            for step in range(begin, (epoch + 1) * per_epoch):
                yield Share(step, shuffled[step % per_epoch], parts)

    def loss_sum(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the summed cross-entropy in nats (0-d) of logits [..., classes], labels [...]."""
        return F.cross_entropy(
            logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORE, reduction="sum"
        )

    def training_loss(
        self, model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        """Return the summed loss of the model on a micro-batch."""
        return self.loss_sum(model(inputs), labels)

    def is_chunked(self, positions: int) -> bool:
        """Tell whether the loss over `positions` predictions is computed in chunks of logits."""
        del positions
        return False

    def count(self, labels: torch.Tensor) -> torch.Tensor:
        """Return how many labels count (0-d tensor)."""
        return (labels != IGNORE).sum()

    def evaluate(self, strategy: Strategy) -> dict[str, Any]:
        """Score every held-out sample once, with any number of ranks; return the same on all.

        The ranks share out whole batches, and then sums and counts are added up, so no means of
        ranks are averaged. Ranks that share their samples score the same batches, and one of them
        counts. Every rank scores the same number of batches, because a sharded model gathers its
        weights in each; a rank that has run out repeats the first batch with all labels ignored,
        which adds nothing.
        """
        device = self.world.device
        sums = torch.zeros(3, dtype=sums_dtype(device), device=device)
        batches, ranks = self.evaluation_batches(), strategy.plan.mesh.data_size
        own = split(batches, strategy.data_rank, ranks).tolist()
        with strategy.evaluating() as score:
            for turn in range(-(-batches // ranks)):
                inputs, labels = self.evaluation_batch(own[turn] if turn < len(own) else 0)
                if turn >= len(own):
                    labels = torch.full_like(labels, IGNORE)
                logits = score(inputs)
                if logits is None:  # a later stage of a pipeline has them, and counts
                    continue
                hits = (logits.argmax(-1) == labels).sum()
                sums += torch.stack([self.loss_sum(logits, labels), self.count(labels), hits])
        loss, count, hits = dist.sum_over_ranks(sums, strategy.speaks).tolist()
        return self.figures(loss / count, hits / count)
