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
from dtlib.models import causal, gpt
from dtlib.sim import activations
from dtlib.training.tasks import from_transformers
from dtlib.training.tasks.base import Batch, Share, Task

if TYPE_CHECKING:
    from dtlib.config import RunConfig
    from dtlib.ranks.dist import World

EVALUATION_TOKENS = 4096  # per batch; the logits of GPT-2's 50,257 tokens then take 0.8 GB


class Text(Task):
    """Windows of tokens [b, s] to logits [b, s, vocabulary]; the summary has the perplexity.

    Held-out text is cut into windows of s tokens that don't overlap. Every token except the text's
    first is predicted exactly once, only from the tokens before it in its window.
    """

    sample = "windows of text"
    unit = "tokens/s"
    metric = "valid_perplexity"
    held_out_loss = "valid_loss"
    plain = True  # logits are a matrix times the last hidden states

    def __init__(self, config: RunConfig, world: World) -> None:
        super().__init__(config, world)
        assert config.data is not None and config.model is not None
        context = from_transformers.window(config)
        size = None if config.num_samples is None else config.num_samples * context + 1
        tokenizer, column = from_transformers.tokenizer_of(config), config.text_column
        self.data = open_text(
            config.data, tokenizer=tokenizer, text_column=column, seed=config.seed, size=size
        )
        self.train = DeviceText(self.data.train, context, world.device)
        self.valid = DeviceText(self.data.valid, context, world.device)
        self.train_size = self.train.complete
        self.units_per_sample = context
        self.model, self.vocab_size = self._make(config)

    def _make(self, config: RunConfig) -> tuple[torch.nn.Module, int]:
        """Return the model, and the entries of its vocabulary."""
        assert config.model is not None
        more: dict[str, Any] = {
            "seed": config.seed, "checkpointing": config.activation_checkpointing,
        }  # fmt: skip
        if from_transformers.is_of_transformers(config):
            loaded = causal.load(config.model, dropout=config.dropout, lora=config.lora, **more)
            self.plain = loaded.plain
            return loaded, loaded.inner.config.get_text_config().vocab_size
        multiple = config.pad_vocab_to or 1
        entries = -(-self.data.tokenizer.vocab_size // multiple) * multiple
        shape = gpt.shape(config.model, vocab_size=entries, dropout=config.dropout)
        return gpt.GPT(shape, **more), entries

    @classmethod
    def check(cls, config: RunConfig) -> None:
        super().check(config)
        from_transformers.window(config)
        from_transformers.check(config)

    @classmethod
    def check_data(cls, config: RunConfig) -> int:
        data, wanted = config.data or DEFAULTS["text"]["data"], config.num_samples
        context = from_transformers.window(config)
        if from_transformers.is_of_transformers(config):
            from_transformers.refuse_other_vocabulary(config, data)
        tokens = check_text(data, from_transformers.tokenizer_of(config), config.text_column)
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
        precision = self.config.precision
        return self.plain and activations.is_chunked(positions, self.vocab_size, precision)

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
