"""What the task text takes from a model of transformers: its window, tokenizer, vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtlib.config.values import DEFAULTS, HF
from dtlib.data import open_text, pretrained
from dtlib.errors import BadInput
from dtlib.models import causal, gpt

if TYPE_CHECKING:
    from dtlib.config import RunConfig

LONGEST = 1024  # the default window; a model may have been made for a million positions


def model_of(config: RunConfig) -> str:
    """Return the model, which by default is the same on every device."""
    return config.model or DEFAULTS["text"]["model"]["other"]


def is_of_transformers(config: RunConfig) -> bool:
    """Tell whether transformers loads the run's model."""
    return model_of(config).startswith(HF)


def check(config: RunConfig) -> None:
    """Refuse settings that only one kind of language model has, before any rank starts.

    Raises `BadInput`, and `Unavailable` for a package that is missing.
    """
    model = model_of(config)
    if not is_of_transformers(config):
        if config.lora:
            raise BadInput(
                f"lora {config.lora} adds adapters to weights that are trained already, and {model}"
                " begins with random ones; use --model hf:FOLDER."
            )
        return
    found = causal.described(model)
    if config.lora:
        causal.need("peft", f"lora {config.lora}")
    if config.activation_checkpointing == "selective":
        raise BadInput(
            f"activation_checkpointing selective knows the blocks of dtlib's own GPT; for {model},"
            " use full or none."
        )
    if config.dropout and not causal.dropout_rates(found):
        raise BadInput(f"model {model} has no dropout, so leave out dropout {config.dropout}.")


def window(config: RunConfig) -> int:
    """Return the tokens in a window of text: `max_length`, otherwise the model's context.

    Raises `BadInput` for more than the model's positions, or if it does not say how many it has.
    """
    model, wanted = model_of(config), config.max_length
    if is_of_transformers(config):
        most = causal.context_of(causal.described(model))
        default = most and min(most, LONGEST)
    else:
        most = default = gpt.shape(model).context
    if most and wanted and wanted > most:
        raise BadInput(
            f"max_length {wanted} exceeds the context of {model}, which is {most} tokens; use at"
            f" most {most}."
        )
    chosen = wanted or default
    if not chosen:
        raise BadInput(f"model {model} does not say how many positions it has; give max_length.")
    return chosen


def tokenizer_of(config: RunConfig) -> str | None:
    """Return the tokenizer that a run asks for, otherwise the one beside its model."""
    if config.tokenizer is None and is_of_transformers(config):
        folder = pretrained.folder_of(model_of(config))
        return str(folder) if pretrained.own_tokenizer(folder) else None
    return config.tokenizer


def refuse_other_vocabulary(config: RunConfig, data: str) -> None:
    """Refuse text in other tokens than those of a model of transformers, before any rank starts.

    Raises `BadInput` with both numbers.
    """
    model = model_of(config)
    entries = causal.described(model).get_text_config().vocab_size
    own = pretrained.own_tokenizer(pretrained.folder_of(model))
    if own and config.pad_vocab_to:
        raise BadInput(
            f"model {model} comes with its vocabulary of {entries:,} entries, so leave out"
            f" pad_vocab_to {config.pad_vocab_to}."
        )
    if own and data == "grammar":
        raise BadInput(
            f"text from the grammar has one token per word, but model {model} has a tokenizer of"
            f" its own, of {own.vocab_size:,} tokens; use --data wikitext2, shakespeare, or a"
            " folder."
        )
    made = open_text(data, tokenizer=tokenizer_of(config), seed=config.seed).tokenizer
    pretrained.refuse_other_vocabulary(model, entries, own, made, config.pad_vocab_to)
