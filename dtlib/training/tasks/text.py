"""Text: a GPT that predicts the next token."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from dtlib.config.values import DEFAULTS
from dtlib.data import check_text, open_text
from dtlib.data.batches import DeviceText
from dtlib.data.text import GRAMMAR_TOKENS
from dtlib.errors import BadInput, counted
from dtlib.models import gpt
from dtlib.sim import activations
from dtlib.training.tasks.base import Batch, Share, Task

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.ranks.dist import World

EVALUATION_TOKENS = 4096  # per batch; the logits of GPT-2's 50,257 tokens then take 0.8 GB


def _model(config: RunConfig) -> str:
    """Return the model, which by default is the same on every device."""
    return config.model or DEFAULTS["text"]["model"]["other"]


class Text(Task):
    """Windows of tokens [b, s] to logits [b, s, vocabulary]; the summary has the perplexity.

    Held-out text is cut into windows of s tokens that don't overlap. Every token except the text's
    first is predicted exactly once, only from the tokens before it in its window.
    """

    sample = "windows of text"
    unit = "tokens/s"
    metric = "valid_perplexity"
    held_out_loss = "valid_loss"

    def __init__(self, config: RunConfig, world: World) -> None:
        super().__init__(config, world)
        assert config.data is not None and config.model is not None
        context = config.max_length or gpt.shape(config.model).context
        size = None if config.num_samples is None else config.num_samples * context + 1
        column, seed = config.text_column, config.seed
        self.data = open_text(
            config.data, tokenizer=config.tokenizer, text_column=column, seed=seed, size=size
        )
        self.train = DeviceText(self.data.train, context, world.device)
        self.valid = DeviceText(self.data.valid, context, world.device)
        self.train_size = self.train.complete
        self.units_per_sample = context
        multiple = config.pad_vocab_to or 1
        self.vocab_size = -(-self.data.tokenizer.vocab_size // multiple) * multiple
        shape = gpt.shape(config.model, vocab_size=self.vocab_size, dropout=config.dropout)
        checkpointing = config.activation_checkpointing
        self.model = gpt.GPT(shape, seed=config.seed, checkpointing=checkpointing)

    @classmethod
    def check(cls, config: RunConfig) -> None:
        super().check(config)
        model = _model(config)
        context = gpt.shape(model).context
        if config.max_length is not None and config.max_length > context:
            raise BadInput(
                f"max_length {config.max_length} exceeds the context of {model}, which is"
                f" {context} tokens; use at most {context}."
            )

    @classmethod
    def check_data(cls, config: RunConfig) -> int:
        data, wanted = config.data or DEFAULTS["text"]["data"], config.num_samples
        context = config.max_length or gpt.shape(_model(config)).context
        tokens = check_text(data, config.tokenizer, config.text_column)
        there = ((GRAMMAR_TOKENS["train"] if tokens is None else tokens) - 1) // context
        if tokens is not None and wanted is not None and wanted > there:
            remedy = f"use --num-samples {there}" if there else "use a smaller --max-length"
            raise BadInput(
                f"the text {data} has {counted(tokens, 'token')} to train on, enough for"
                f" {counted(there, 'window')} of {context} and not for num_samples"
                f" {wanted}; {remedy}, or provide more text."
            )
        return wanted or there

    def train_batches(self, shares: Iterable[Share]) -> Iterator[Batch]:
        for share in shares:
            for part in share.parts:
                yield self.train.batch(share.indices[part])

    def training_loss(
        self, model: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor
    ) -> torch.Tensor:
        if self.is_chunked(labels.numel()):
            return model(inputs, labels)
        return super().training_loss(model, inputs, labels)

    def is_chunked(self, positions: int) -> bool:
        assert self.vocab_size is not None
        return activations.is_chunked(positions, self.vocab_size, self.config.precision)

    def evaluation_batches(self) -> int:
        return -(-len(self.valid) // self._windows())

    def evaluation_batch(self, number: int) -> Batch:
        first = number * self._windows()
        last = min(first + self._windows(), len(self.valid))
        return self.valid.batch(torch.arange(first, last))

    def _windows(self) -> int:
        return max(1, EVALUATION_TOKENS // self.units_per_sample)

    def figures(self, loss: float, accuracy: float) -> dict[str, Any]:
        tokens = len(self.data.valid) - 1
        found = {
            "valid_loss": loss,
            "valid_perplexity": math.exp(min(loss, 700.0)),
            "valid_tokens": tokens,
            "protocol": f"{self.data.protocol}; windows of {self.units_per_sample} tokens",
        }
        if self.data.grammar is not None:
            # the grammar's own score on this text, which no model beats in the long run
            best = self.data.grammar.surprisals(self.data.valid.tolist())[1:].mean()
            found["entropy"] = self.data.grammar.entropy
            found["sampling_error"] = self.data.grammar.sampling_error(tokens)
            found["best_loss_on_this_text"] = float(best)
        return found


TASK = Text
