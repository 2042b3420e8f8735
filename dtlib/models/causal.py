"""A causal language model of Hugging Face's transformers, as the training loop calls a model.

`hf:FOLDER` is read by `AutoModelForCausalLM`. Symbols: b micro-batch, s sequence, V vocabulary.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from dtlib.data.pretrained import folder_of
from dtlib.errors import BadInput, Unavailable, in_words
from dtlib.models import drawn_from
from dtlib.models.chunked_loss import summed_loss

if TYPE_CHECKING:
    from transformers import PretrainedConfig

# The rates of dropout in a configuration, but not those of a classifier's head.
_RATES = re.compile(r"(?!classif|summary)\w*?(pdrop|dropout|dropout_(p|prob|rate))")
TOKENIZER_BESIDE = (
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "added_tokens.json",
    "special_tokens_map.json", "chat_template.jinja",
)  # fmt: skip
# Adapters of rank r are scaled by this number (alpha is SCALE · r).
SCALE = 2


class Causal(nn.Module):
    """A model of transformers as tokens [b, s] to logits [b, s, V].

    Windows of text are whole, so no token stands for padding and no mask is needed.

    Attributes
    ----------
    inner
        The model of transformers.
    plain
        Whether its logits are its last hidden states times a matrix and nothing else, so that the
        loss can be computed in chunks of logits.
    """

    def __init__(self, inner: Any, plain: bool) -> None:
        super().__init__()
        self.inner, self.plain = inner, plain

    def forward(self, tokens: Tensor, labels: Tensor | None = None) -> Tensor:
        """Return the logits; with labels [b, s], their summed loss without storing all logits."""
        if labels is None:
            return self.inner(input_ids=tokens, use_cache=False).logits
        hidden, weight = _hidden(self.inner, tokens), self.inner.get_output_embeddings().weight
        return summed_loss(hidden.flatten(0, 1), weight, labels.flatten())


def need(package: str, what: str) -> None:
    """Raise `Unavailable` with the command that installs a package, if it is missing."""
    if importlib.util.find_spec(package) is None:
        raise Unavailable(
            f"{what} needs {package}, which is not installed here; run `pip install {package}`."
        )


def described(model: str) -> PretrainedConfig:
    """Return the configuration of the language model of `hf:FOLDER`, without its weights.

    Raises
    ------
    BadInput
        The folder holds no model, or one that AutoModelForCausalLM does not load.
    Unavailable
        transformers is not installed, or no place has a model of that name.
    """
    folder = folder_of(model)
    need("transformers", f"model {model}")
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

    with _said_of(model):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    if config.is_encoder_decoder or type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise BadInput(
            f"model {model} is {_article(config.model_type)} model, which AutoModelForCausalLM does"
            " not load; give a model that predicts the next token."
        )
    weights = [path for kind in ("*.safetensors", "*.bin") for path in folder.glob(kind)]
    if not weights:
        raise BadInput(
            f"the folder of model {model} has a config.json but no weights (*.safetensors); give"
            " the whole folder that `save_pretrained` has written."
        )
    return config


def context_of(config: PretrainedConfig) -> int | None:
    """Return the most positions that a model was made for; None if it does not say."""
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def dropout_rates(config: PretrainedConfig) -> list[str]:
    """Return the names of the rates of dropout in a configuration."""
    return [
        name
        for name, value in config.get_text_config().to_dict().items()
        if _RATES.fullmatch(name) and isinstance(value, int | float)
    ]


def load(
    model: str,
    *,
    dropout: float | None = None,
    checkpointing: str = "none",
    lora: int | None = None,
    seed: int = 0,
) -> Causal:
    """Load a model with its weights in fp32, ready to be trained; every rank gets the same.

    Parameters
    ----------
    model
        `hf:FOLDER` or `hf:NAME`.
    dropout
        All of its rates of dropout; None leaves those of its configuration.
    checkpointing
        "none" or "full", which recomputes all of a block but its input.
    lora
        Rank of adapters that are trained beside the linear layers, which are then frozen.
    seed
        Decides the weights of adapters.

    Raises
    ------
    BadInput
        The weights do not fit the configuration, or a position's logits depend on later tokens.
    """
    config = described(model)
    for name in dropout_rates(config) if dropout is not None else ():
        setattr(config.get_text_config(), name, dropout)
    with _said_of(model):
        inner = _read(folder_of(model), config, model)
    causal = Causal(inner, plain=_probe(inner, model))
    if checkpointing == "full":
        if not getattr(inner, "supports_gradient_checkpointing", False):
            raise BadInput(f"model {model} has no activation checkpointing; leave it out.")
        inner.gradient_checkpointing_enable({"use_reentrant": False})
    if lora:
        with drawn_from(seed):
            _adapt(inner, lora, dropout or 0.0)
    return causal.train()


def _adapt(inner: Any, rank: int, dropout: float = 0.0) -> Any:
    """Add adapters to a model, in place, and return peft's view of it.

    E. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021, arXiv:2106.09685.
    """
    from peft import LoraConfig, get_peft_model

    adapters = LoraConfig(
        task_type="CAUSAL_LM", r=rank, lora_alpha=SCALE * rank, lora_dropout=dropout,
        target_modules="all-linear",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of GPT-2's transposed layers, which it then handles
        return get_peft_model(inner, adapters)


def write(model: str, weights: Mapping[str, Tensor], folder: Path, lora: int | None = None) -> None:
    """Write a trained model with its tokenizer, so that `from_pretrained(folder)` loads both.

    Parameters
    ----------
    model
        `hf:FOLDER` or `hf:NAME`, from which the run started.
    weights
        The tensors of a checkpoint, by their names in `Causal`.
    folder
        Where the files go; those with the same names are replaced.
    lora
        Rank of the run's adapters. They are merged into the model, and also written by themselves.

    Raises
    ------
    BadInput
        The model is no longer there, or is another one.
    """
    causal = load(model)
    adapted = _adapt(causal.inner, lora) if lora else None
    own = causal.state_dict()
    with torch.no_grad():
        for name, tensor in weights.items():
            if name not in own or own[name].shape != tensor.shape:
                raise BadInput(
                    f"model {model} has changed since the run: {name} of the checkpoint does not"
                    " fit it; put back the model that the run started from."
                )
            own[name].copy_(tensor)
    source = folder_of(model)
    with tempfile.TemporaryDirectory(dir=folder) as made, _without_bars():
        inner = causal.inner.eval()
        if adapted is not None:
            adapted.save_pretrained(folder / "adapter")
            inner = adapted.merge_and_unload()
        inner.save_pretrained(made)
        for name in TOKENIZER_BESIDE:
            if (source / name).is_file():
                shutil.copy(source / name, made)
        for path in Path(made).iterdir():
            path.replace(folder / path.name)


def _read(folder: Path, config: PretrainedConfig, model: str) -> Any:
    from transformers import AutoModelForCausalLM

    with _without_bars():
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=torch.float32, local_files_only=True,
            trust_remote_code=False, output_loading_info=True,
        )  # fmt: skip
    inner, found = loaded
    missing = sorted(found["missing_keys"])
    if missing:
        raise BadInput(
            f"the weights of model {model} lack {len(missing)} tensors of its architecture, the"
            f" first is {missing[0]}; give a folder whose weights belong to its config.json."
        )
    return inner


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """Keep transformers from drawing progress bars, one for each rank."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@torch.no_grad()
def _probe(inner: Any, model: str) -> bool:
    """Refuse a model whose positions see later tokens; tell whether its head is a plain matrix."""
    tokens = torch.arange(5).remainder(inner.config.get_text_config().vocab_size)[None]
    changed = tokens.clone()
    changed[0, -1] = 0
    logits = inner(input_ids=tokens, use_cache=False).logits
    other = inner(input_ids=changed, use_cache=False).logits
    # one product of another size may be summed in another order
    if not torch.allclose(logits[:, :-1], other[:, :-1], rtol=1e-3, atol=1e-4):
        raise BadInput(
            f"model {model} is not causal: its prediction at one position changes with a later"
            " token; give a model that predicts the next token."
        )
    head = inner.get_output_embeddings()
    if not isinstance(head, nn.Linear) or head.bias is not None:
        return False
    product = _hidden(inner, tokens) @ head.weight.t()
    return product.shape == logits.shape and torch.allclose(product, logits, rtol=1e-3, atol=1e-4)


def _hidden(inner: Any, tokens: Tensor) -> Tensor:
    """Return the states [b, s, h] that the output layer gets."""
    return inner.base_model(input_ids=tokens, use_cache=False)[0]


@contextlib.contextmanager
def _said_of(model: str) -> Iterator[None]:
    """Turn the errors of transformers, which are of many classes, into a sentence."""
    try:
        yield
    except (BadInput, MemoryError):
        raise
    except Exception as error:
        said = re.split(r"(?<=[.:])\s", in_words(error))[0].rstrip(".:")[:200]
        raise BadInput(
            f"transformers cannot load model {model}: {said}; give a folder that"
            " `save_pretrained` has written."
        ) from error


def _article(noun: str) -> str:
    return f"{'an' if noun[:1] in 'aeio' else 'a'} {noun}"
