"""Models of the Llama family, as transformers computes them: parameters, activations, FLOP.

H. Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023, arXiv:2302.13971.
Counted operation by operation on transformers' `LlamaForCausalLM`; equal to what autograd saves.
Symbols: p = b·s positions of a micro-batch, h width, q and k widths of all queries and of all keys,
m inner width of the MLP, L layers, a heads, V vocabulary.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dtlib.config.values import HF
from dtlib.errors import BadInput, in_words
from dtlib.sim.activations import STREAM

LONGEST = 1024  # window that `dtlib train` takes if none is given
Shape = dict[str, int]


def shape_of(model: str) -> Shape:
    """Read the shape of the model `hf:FOLDER` from its config.json.

    Raises `BadInput` if there is none, or if it is of another family.
    """
    path = Path(model.removeprefix(HF)) / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_bytes())
        family = config["model_type"]
        if family != "llama" or config.get("attention_bias") or config.get("mlp_bias"):
            raise BadInput(
                f"sim has no formula for {model}, whose architecture is {family}; it knows llama"
                " without biases, and dtlib's own GPT."
            )
        heads, width = config["num_attention_heads"], config["hidden_size"]
        return {
            "layers": config["num_hidden_layers"], "heads": heads, "width": width,
            "keys": config["num_key_value_heads"], "inner": config["intermediate_size"],
            "head": config.get("head_dim") or width // heads, "vocab_size": config["vocab_size"],
            "context": config["max_position_embeddings"],
            "tied": int(bool(config.get("tie_word_embeddings"))),
        }  # fmt: skip
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{path} of model {model} cannot be read: {in_words(error)}.") from error


def widths(shape: Shape) -> tuple[int, int]:
    """Return q and k: the widths of all queries, and of all keys or values."""
    return shape["heads"] * shape["head"], shape["keys"] * shape["head"]


def block(shape: Shape, name: str = "h.0") -> list[tuple[str, tuple[int, ...]]]:
    """Return a block's parameters as `(name, sizes)`."""
    h, m, (q, k) = shape["width"], shape["inner"], widths(shape)
    weights = [
        ("q", (q, h)), ("k", (k, h)), ("v", (k, h)), ("o", (h, q)), ("gate", (m, h)),
        ("up", (m, h)), ("down", (h, m)), ("norm_1", (h,)), ("norm_2", (h,)),
    ]  # fmt: skip
    return [(f"{name}.{part}.weight", sizes) for part, sizes in weights]


def tensors(shape: Shape) -> list[tuple[str, tuple[int, ...]]]:
    """Return all parameters as `(name, sizes)`; a tied output layer is the embedding."""
    h, vocabulary = shape["width"], shape["vocab_size"]
    found: list[tuple[str, tuple[int, ...]]] = [("head.weight", (vocabulary, h))]
    if not shape["tied"]:
        found.insert(0, ("wpe.tokens", (vocabulary, h)))  # as positions, it enters no product
    for layer in range(shape["layers"]):
        found += block(shape, f"h.{layer}")
    return [*found, ("norm.weight", (h,))]


def block_activations(positions: int, shape: Shape, recipe: str) -> int:
    """Return the bytes that a block keeps for backward.

    A norm keeps its input in fp32, the input divided by its size, and its output, which autocast
    casts once for each of the products that take it (3 and 2).
    """
    stream, compute = STREAM[recipe]
    h, m, (q, k) = shape["width"], shape["inner"], widths(shape)
    casts = 5 if compute < stream else 2
    norms = h * (2 * 4 + 2 * stream + casts * compute) + 2 * 4
    products = (2 * q + 2 * k + 4 * m) * compute
    return positions * (norms + products + shape["heads"] * max(compute, 4))


def activations(batch: int, sequence: int, shape: Shape, recipe: str, checkpointing: str) -> int:
    """Return the bytes that forward keeps when backward begins, without logits."""
    stream, compute = STREAM[recipe]
    positions, h = batch * sequence, shape["width"]
    one = positions * h * stream if checkpointing == "full" else 0
    blocks = shape["layers"] * (one or block_activations(positions, shape, recipe))
    end = positions * (h * (4 + stream + compute) + 4)
    rotations = 2 * sequence * shape["head"] * (4 if compute < stream else compute)
    return blocks + end + 8 * positions + rotations


def flop(tokens: int, sequence: int, shape: Shape, checkpointing: str) -> tuple[int, int]:
    """Return the FLOP of forward and backward: of the model, and with recomputation."""
    q, _ = widths(shape)
    weights = sum(a * b for _, (a, b) in (t for t in block(shape) if len(t[1]) == 2))
    blocks = shape["layers"] * tokens * (2 * weights + 4 * sequence * q)
    model = 3 * (blocks + 2 * tokens * shape["width"] * shape["vocab_size"])
    return model, model + blocks * (checkpointing == "full")
