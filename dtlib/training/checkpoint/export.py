"""Export a run's weights for other programs, as safetensors."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtlib.config.files import writable_folder, write_atomically
from dtlib.config.values import HF
from dtlib.errors import BadInput
from dtlib.models import causal, gpt
from dtlib.sim import shapes
from dtlib.training.checkpoint.checkpoints import Checkpoints, place_of

if TYPE_CHECKING:
    from torch import Tensor


def export(run: Path | str, folder: Path | str) -> Path:
    """Write the weights of a run's last complete checkpoint as `model.safetensors`.

    A model of transformers is written by its own `save_pretrained`, with its tokenizer;
    adapters are merged into it, and also lie in `FOLDER/adapter`, for `peft`. A GPT of
    dtlib's gets transformers' names and a `config.json` next to the weights, so that
    `GPT2LMHeadModel.from_pretrained(folder)` loads it; other models keep the names they have here.
    If `pad_vocab_to` padded GPT-2's vocabulary, the padding is left out; with another tokenizer,
    it stays, and `config.json` records the multiple as `pad_vocab_to`.

    Parameters
    ----------
    run
        The run's folder, or the address of its checkpoints.
    folder
        Where the files go; it is created if it doesn't exist.

    Returns
    -------
    Path
        The file of weights.

    Raises
    ------
    BadInput
        The run has no checkpoint, or the folder is a run's own or can't be written to.
    """
    from safetensors.torch import save

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of is printed below
        loaded = Checkpoints(place_of(run)).latest()
    if loaded is None:
        raise BadInput(f"{run} holds no checkpoint; give the folder that `dtlib train` printed.")
    weights, config = loaded.shared["strategy"]["model"], loaded.shared["config"]
    if (Path(folder) / "metrics.jsonl").exists():
        raise BadInput(f"{folder} is the folder of a run; choose another FOLDER for the weights.")
    folder = writable_folder(Path(folder), "FOLDER")
    for note in loaded.notes:
        print(note[0].upper() + note[1:], file=sys.stderr)
    replaced = " in place of those that are there" * (folder / "model.safetensors").exists()
    print(f"Exporting the weights of step {loaded.step}{replaced}.", file=sys.stderr)
    if config["model"].startswith(HF):
        causal.write(config["model"], weights, folder, config.get("lora"))
        return folder / "model.safetensors"
    if config["task"] == "text":
        weights = without_padding(weights, config)
        described = json.dumps(describe_gpt2(weights, config), indent=2)
        write_atomically(folder / "config.json", described + "\n")
        weights = gpt.to_hf_state_dict(weights)
    whole = {name: tensor.contiguous() for name, tensor in weights.items()}
    write_atomically(folder / "model.safetensors", save(whole, {"format": "pt"}))
    return folder / "model.safetensors"


def without_padding(weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights without vocabulary entries that no token of GPT-2's tokenizer uses."""
    kept = dict(weights)
    if config.get("pad_vocab_to") and config["tokenizer"] == "gpt2":
        kept["wte.weight"] = kept["wte.weight"][: shapes.GPT2_VOCABULARY]
    return kept


def describe_gpt2(weights: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of transformers' GPT2Config, read from the weights."""
    vocab_size, width = weights["wte.weight"].shape
    padded = config.get("pad_vocab_to") and config["tokenizer"] != "gpt2"
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": vocab_size,
        "n_positions": weights["wpe.weight"].shape[0],
        "n_embd": width,
        "n_layer": len({name.split(".")[1] for name in weights if name.startswith("h.")}),
        "n_head": gpt.shape(config["model"]).heads,
        **dict.fromkeys(("embd_pdrop", "resid_pdrop", "attn_pdrop"), config["dropout"]),
        **dict.fromkeys(("bos_token_id", "eos_token_id")),
        **({"pad_vocab_to": config["pad_vocab_to"]} if padded else {}),
    }
