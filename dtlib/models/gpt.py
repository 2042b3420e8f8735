"""GPT with GPT-2's shapes (Radford et al. 2019), from `nano` for a laptop to gpt2-xl.

Parameters have the names of GPT-2's published checkpoints (`wte`, `wpe`, `h.0.attn.c_attn`, …), so
that Hugging Face's state dicts load. Symbols: b micro-batch, s sequence, h width, L layers,
a heads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dtlib.errors import BadInput, did_you_mean
from dtlib.models import drawn_from
from dtlib.models.chunked_loss import summed_loss
from dtlib.models.recompute import recomputed
from dtlib.sim import shapes


@dataclass(frozen=True)
class GPTConfig:
    """The shape of a GPT; the defaults are GPT-2's smallest (124M)."""

    vocab_size: int = shapes.GPT2_VOCABULARY
    context: int = 1024
    layers: int = 12
    heads: int = 12
    width: int = 768
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if min(self.vocab_size, self.context, self.layers, self.heads, self.width) < 1:
            raise BadInput(f"every size of a GPT must be at least 1, but this is {self}.")
        if self.width % self.heads:
            raise BadInput(
                f"width {self.width} must be a multiple of the number of heads, {self.heads}."
            )
        if not 0 <= self.dropout < 1:
            raise BadInput(f"dropout {self.dropout} must be at least 0 and below 1.")


SHAPES = shapes.GPT
_WRAPPED = re.compile(r"^((module|_orig_mod)\.)*(transformer\.)?")


def shape(name: str, **changes: Any) -> GPTConfig:
    """Return the configuration called `name`, with `changes` (such as `vocab_size`) applied.

    Raises
    ------
    BadInput
        If there is no such shape; the message lists the existing ones.
    """
    if name not in SHAPES:
        hint = did_you_mean(name, SHAPES)
        raise BadInput(f"GPT shape {name!r} is unknown: choose from {', '.join(SHAPES)}.{hint}")
    return GPTConfig(**{**SHAPES[name], **changes})


class Attention(nn.Module):
    """Causal self-attention with `a` heads: [b, s, h] to [b, s, h]."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads, self.dropout = config.heads, config.dropout  # under tensor parallelism its own
        self.c_attn = nn.Linear(config.width, 3 * config.width)
        self.c_proj = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        b, s, _ = x.shape
        # [b, s, 3h] -> query, key, value, each [b, a, s, h/a]
        q, k, v = self.c_attn(x).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        # Causal only: every position sees at least itself, so no softmax row is fully masked.
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    """Two linear layers with GPT-2's tanh-approximated GELU between: [b, s, h] to [b, s, h]."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.width, 4 * config.width)
        self.c_proj = nn.Linear(4 * config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    """Attention and MLP, each behind a layer norm and around a residual connection."""

    def __init__(self, config: GPTConfig, checkpointing: str = "none") -> None:
        super().__init__()
        self.checkpointing = checkpointing
        self.ln_1, self.attn = nn.LayerNorm(config.width), Attention(config)
        self.ln_2, self.mlp = nn.LayerNorm(config.width), MLP(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        # in here, so that whatever gathers a sharded block's weights still wraps the whole block
        return recomputed(self.checkpointing, self._compute, x)

    def _compute(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.attn(self.ln_1(x)))
        return x + self.drop(self.mlp(self.ln_2(x)))


class GPT(nn.Module):
    """A decoder-only transformer whose output layer is its token embedding (tied).

    Parameters
    ----------
    config : GPTConfig
        The shape.
    seed : int
        Only this decides the weights: normal with deviation 0.02, divided by sqrt(2L) for the
        projections that add to the residual stream (GPT-2's rule).
    checkpointing : str
        What blocks keep for backward: a kind of `recomputed`.
    """

    def __init__(self, config: GPTConfig, *, seed: int = 0, checkpointing: str = "none") -> None:
        super().__init__()
        self.config = config
        with drawn_from(seed):
            self.wte = nn.Embedding(config.vocab_size, config.width)
            self.wpe = nn.Embedding(config.context, config.width)
            self.drop = nn.Dropout(config.dropout)
            self.h = nn.ModuleList(Block(config, checkpointing) for _ in range(config.layers))
            self.ln_f = nn.LayerNorm(config.width)
            self._initialise()

    def _initialise(self) -> None:
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith("c_proj.weight")
                scale = 1 / math.sqrt(2 * self.config.layers) if residual else 1.0
                nn.init.normal_(parameter, std=0.02 * scale)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Tensor:
        """Map tokens [b, s] (int64) to logits [b, s, vocab_size]; s is at most `context`.

        With labels [b, s], return their summed loss instead, without negative labels and without
        ever holding all logits. This happens in here because a sharded model's weights are gathered
        here.
        """
        s = tokens.shape[1]
        if s > self.config.context:
            raise BadInput(
                f"a sequence of {s} tokens exceeds the context of {self.config.context}."
            )
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(s, device=tokens.device)))
        for block in self.h:
            x = block(x)
        x = self.ln_f(x)
        if labels is not None:
            return summed_loss(x.flatten(0, 1), self.wte.weight, labels.flatten())
        return F.linear(x, self.wte.weight)

    def load_hf_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load the state dict of transformers' GPT2LMHeadModel or GPT2Model, in place.

        Its Conv1D layers keep weights as [in, out]; ours are nn.Linear's [out, in]. Every key is
        used or refused, with two exceptions that add nothing to this model: an `lm_head` that
        equals the embedding, and the causal masks of older checkpoints (`attn.bias`,
        `attn.masked_bias`). Prefixes that DDP and torch.compile add to a name are removed.

        Raises
        ------
        BadInput
            If a parameter is missing, unknown or has another shape, a mask is not causal, or the
            output layer is not the embedding; the message names the keys.
        """
        mine: dict[str, Tensor] = {}
        for key, value in state.items():
            name = _WRAPPED.sub("", key)
            if not isinstance(value, Tensor):
                kind = type(value).__name__
                raise BadInput(f"{key!r} of this state dict is a {kind}, not a tensor; remove it.")
            if name in mine:
                raise BadInput(f"this state dict has {name} twice, once as {key!r}; keep one.")
            mine[name] = value.t() if _is_conv1d(name) and value.dim() == 2 else value
        head, embedding = mine.pop("lm_head.weight", None), mine.get("wte.weight")
        if head is not None and embedding is not None and not _equal(head, embedding):
            raise BadInput(
                "lm_head.weight of this state dict is not its wte.weight, but the output layer of"
                " this model is its embedding (tied); load a checkpoint whose output layer is tied."
            )
        for layer in range(self.config.layers):
            _drop_masks(mine, f"h.{layer}.attn")
        try:
            self.load_state_dict(mine)
        except RuntimeError as error:
            lines = (line.strip().rstrip(". ") for line in str(error).splitlines()[1:])
            raise BadInput(
                f"this state dict does not fit {self.config}: {'; '.join(lines)}."
            ) from error


def to_hf_state_dict(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state dict of `GPT` under the names and in the layout of GPT2LMHeadModel.

    This is the inverse of `load_hf_state_dict`; the output layer is left out, since transformers
    also ties it to the embedding.
    """
    return {
        f"transformer.{name}": value.t() if _is_conv1d(name) else value
        for name, value in state.items()
    }


def _drop_masks(state: dict[str, Tensor], attention: str) -> None:
    """Drop a layer's causal mask, and the number that replaces the scores that it hides."""
    mask, hidden = (state.pop(f"{attention}.{name}", None) for name in ("bias", "masked_bias"))
    if mask is not None:
        causal = torch.ones(mask.shape[-2:], device=mask.device).tril() if mask.dim() >= 2 else None
        if causal is None or not bool((mask == causal).all()):
            raise BadInput(f"{attention}.bias of this state dict is not a causal mask; remove it.")
    if hidden is not None and not (hidden.numel() == 1 and float(hidden) <= -1e4):
        raise BadInput(f"{attention}.masked_bias of this state dict hides nothing; remove it.")


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other.to(one.device, one.dtype))


def _is_conv1d(name: str) -> bool:
    return name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))
