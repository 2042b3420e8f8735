"""Predictions about models of transformers, against what their own code keeps and computes."""

import json

import pytest
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from dtlib import cli
from dtlib.errors import BadInput
from dtlib.sim import activations, llama, tensors
from dtlib.sim.estimate import Setup, estimate
from tests.sim.test_activations import saved_bytes
from tests.sim.test_estimate import measured_peak, whole_loss

B, S = 3, 7


def built(folder, tied: bool = True, width: int = 48):
    """Save a tiny Llama whose sizes all differ, and return it with its shape."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=50, hidden_size=width, intermediate_size=100, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=10, max_position_embeddings=64,
        tie_word_embeddings=tied, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return model.train(), llama.shape_of(f"hf:{folder}")


@pytest.mark.parametrize("recipe", ["fp32", "autocast", "mixed"])
def test_a_llama_keeps_what_is_predicted(recipe, tmp_path):
    model, shape = built(tmp_path)
    model = model.to(torch.bfloat16 if recipe == "mixed" else torch.float32)
    tokens = torch.randint(0, 50, (B, S))

    def forward() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=recipe == "autocast"):
            logits = model(input_ids=tokens, use_cache=False).logits.flatten(0, 1)
            F.cross_entropy(logits.float() if recipe == "mixed" else logits, tokens.flatten())

    loss = activations.logits(B * S, 50, recipe)[0] + 8 * B * S + 4
    matrices = [tensors.elements(sizes) for _, sizes in llama.tensors(shape) if len(sizes) == 2]
    copies = 2 * sum(matrices) if recipe == "autocast" else 0
    # labels that are the input are one tensor, and cross-entropy keeps it once
    kept = llama.activations(B, S, shape, recipe, "none") + loss + copies - 8 * B * S
    assert saved_bytes(model, forward) == kept


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_and_flop_are_those_of_the_real_model(tied, tmp_path):
    model, shape = built(tmp_path, tied)
    assert tensors.count(llama.tensors(shape)) == sum(p.numel() for p in model.parameters())
    tokens = torch.randint(0, 50, (B, S))
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counted:
        model(input_ids=tokens, use_cache=False).logits.sum().backward()
    assert llama.flop(B * S, S, shape, "none") == (counted.get_total_flops(),) * 2


def test_peak_is_that_of_a_real_step(tmp_path):
    """The same bounds as for dtlib's own GPT: gradients inside one MLP come on top."""
    model, shape = built(tmp_path)
    tokens = torch.randint(0, 50, (B, 64))
    loss_sum = whole_loss(lambda t: model(input_ids=t, use_cache=False).logits, tokens, tokens)
    measured = measured_peak(loss_sum, model)
    setup = Setup(f"hf:{tmp_path}", "single", micro_batch=B, max_length=64)
    assert setup.vocab_size == 50
    most = estimate(setup).peak()[1]
    assert most <= measured <= most + 4 * shape["inner"] * 4 * B * 64


def test_the_command_reads_a_folder_and_refuses_another_architecture(tmp_path, capsys):
    built(tmp_path)
    assert cli.main(["sim", "memory", "--model", f"hf:{tmp_path}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["setup"]["max_length"] is None
    setup = Setup(f"hf:{tmp_path}", "fsdp", ranks=2, checkpointing="full")
    assert setup.sequence == 64
    assert "recomputed" in {row.kind for row in estimate(setup).rows}
    for settings in ({"checkpointing": "selective"}, {"attention": "materialised"}, {"dropout": 1}):
        with pytest.raises(BadInput, match="is counted for dtlib's own GPT"):
            Setup(f"hf:{tmp_path}", **settings)
    (tmp_path / "config.json").write_text('{"model_type": "bloom"}')
    with pytest.raises(BadInput, match=r"no formula for .*, whose architecture is bloom"):
        Setup(f"hf:{tmp_path}")
    (tmp_path / "config.json").unlink()
    with pytest.raises(BadInput, match=r"config.json of model .* cannot be read: there is no such"):
        Setup(f"hf:{tmp_path}")
