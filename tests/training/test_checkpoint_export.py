"""A run's weights in other programs' hands: safetensors, and transformers' GPT-2."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch

from dtlib.cli import main
from dtlib.config import RunConfig
from dtlib.errors import BadInput
from dtlib.models import gpt, resnet
from dtlib.training.checkpoint import Checkpoints
from dtlib.training.checkpoint.content import rng_state
from dtlib.training.checkpoint.export import export


def save(run: Path, model: torch.nn.Module, config: RunConfig, step: int = 3) -> None:
    state = {"model": model.state_dict(), "optimizer": {}, "steps": 3}
    shared = {"strategy": state, "config": dataclasses.asdict(config.resolved("cpu"))}
    Checkpoints(run / "checkpoints").save(step, shared, {"rng": rng_state()})


def test_transformers_loads_an_exported_gpt_and_computes_the_same(tmp_path, capsys):
    from transformers import GPT2LMHeadModel

    model = gpt.GPT(gpt.shape("nano", vocab_size=11), seed=3)
    save(tmp_path / "run", model, RunConfig("text", model="nano"))
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "out" / "model.safetensors")

    theirs, report = GPT2LMHeadModel.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert theirs.lm_head.weight is theirs.transformer.wte.weight
    tokens = torch.randint(11, (2, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, logits = model(tokens), theirs.eval()(tokens).logits
    # both add up 128 products in fp32, in kernels of their own
    torch.testing.assert_close(logits, ours, rtol=1e-5, atol=1e-5)
    back = gpt.GPT(gpt.shape("nano", vocab_size=11), seed=4)
    back.load_hf_state_dict(theirs.state_dict())
    assert all(
        torch.equal(p, q) for p, q in zip(back.parameters(), model.parameters(), strict=True)
    )


def test_a_padded_vocabulary_is_exported_as_gpt2s_own_or_named(tmp_path):
    from transformers import GPT2LMHeadModel

    shape = {"layers": 1, "heads": 4, "width": 8, "context": 8}
    for tokenizer, rows, exported in (("gpt2", 50_304, 50_257), ("trained", 128, 128)):
        model = gpt.GPT(gpt.GPTConfig(vocab_size=rows, **shape), seed=3)
        config = RunConfig("text", model="nano", tokenizer=tokenizer, pad_vocab_to=128)
        save(tmp_path / tokenizer, model, config)
        theirs = GPT2LMHeadModel.from_pretrained(
            export(tmp_path / tokenizer, tmp_path / "o").parent
        )
        assert theirs.config.vocab_size == theirs.lm_head.weight.shape[0] == exported
        assert torch.equal(theirs.lm_head.weight, model.wte.weight[:exported])
        assert getattr(theirs.config, "pad_vocab_to", None) == (128 if exported == rows else None)


def test_an_exported_resnet_keeps_its_names_and_bits(tmp_path):
    from safetensors.torch import load_file

    model = resnet.resnet18(8)
    save(tmp_path / "run", model, RunConfig("images", width=8))
    found = load_file(export(tmp_path / "run", tmp_path / "out"))
    assert found.keys() == model.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())
    assert not (tmp_path / "out" / "config.json").exists()


def test_a_damaged_checkpoint_is_named_and_the_step_that_is_exported(tmp_path, capsys):
    config, run, out = RunConfig("images", width=8), tmp_path / "run", tmp_path / "out"
    save(run, resnet.resnet18(8), config)
    save(run, resnet.resnet18(8), config, step=4)
    (run / "checkpoints/step-00000004/shared.pt").write_bytes(b"")
    assert main(["export", str(run), str(out)]) == 0
    damaged, exported = capsys.readouterr().err.splitlines()
    assert re.match("The checkpoint .*step-00000004 is skipped: shared.pt has 0 bytes", damaged)
    assert exported == "Exporting the weights of step 3."
    assert main(["export", str(run), str(out)]) == 0
    assert "step 3 in place of those that are there." in capsys.readouterr().err
    (out / "metrics.jsonl").touch()
    with pytest.raises(BadInput, match="is the folder of a run; choose another FOLDER"):
        export(run, out)


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"holds no checkpoint; give the folder that `dtlib train`"):
        export(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
