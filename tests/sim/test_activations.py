"""Predicted activations against the bytes that autograd saves on the real models, byte for byte."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from dtlib.models.gpt import GPT, GPTConfig
from dtlib.models.resnet import resnet18
from dtlib.sim import activations, shapes, tensors
from tests.sim import published
from tests.sim.alive import Live

KERNEL = {"flash": SDPBackend.FLASH_ATTENTION, "materialised": SDPBackend.MATH}
GIB = 2**30


def saved_bytes(model: nn.Module, forward) -> int:
    """Bytes of the storages that autograd keeps, each once, the model's own left out."""
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept: dict[int, torch.UntypedStorage] = {}  # held, so that no address is given out twice

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        forward()
    return sum(storage.nbytes() for storage in kept.values())


def gpt_saved(config: GPTConfig, b: int, s: int, attention: str, recipe: str = "fp32", wrap=None):
    """Build a GPT, run its forward and its loss, and return what autograd keeps."""
    model = GPT(config).to({"mixed": torch.bfloat16, "fp64": torch.float64}.get(recipe))
    if wrap:
        wrap(model)
    tokens, labels = torch.randint(0, config.vocab_size, (2, b, s))

    def forward() -> torch.Tensor:
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=recipe == "autocast")
        with autocast, sdpa_kernel(KERNEL[attention]):
            logits = model(tokens).flatten(0, -2)
            if recipe == "mixed":
                logits = logits.float()
            return F.cross_entropy(logits, labels.flatten(), reduction="sum")

    return saved_bytes(model, forward)


def loss_bytes(config: GPTConfig, b: int, s: int, recipe: str) -> int:
    """What cross-entropy keeps: log-probabilities, labels (int64) and how many there are (0-d)."""
    element = 8 if recipe == "fp64" else 4
    return activations.logits(b * s, config.vocab_size, recipe)[0] + 8 * b * s + element


def weight_copies(config: GPTConfig) -> int:
    """Bytes of the bf16 copies that autocast makes of the matrices, and autograd keeps."""
    everything = tensors.gpt(config.layers, config.width, config.context, config.vocab_size)
    matrices = [sizes for name, sizes in everything if len(sizes) == 2 and name != "wpe.weight"]
    return 2 * sum(map(tensors.elements, matrices))


@pytest.mark.parametrize("recipe", ["fp32", "autocast", "mixed", "fp64"])
@pytest.mark.parametrize("attention", list(KERNEL))
@pytest.mark.parametrize(
    ("b", "s", "layers", "heads", "width"), [(3, 16, 2, 4, 32), (2, 7, 3, 2, 24)]
)
def test_gpt_keeps_what_is_predicted(b, s, layers, heads, width, attention, recipe):
    config = GPTConfig(vocab_size=40, context=16, layers=layers, heads=heads, width=width)
    predicted = activations.gpt(s, b, layers, width, heads, recipe, attention)
    predicted += loss_bytes(config, b, s, recipe)
    if recipe == "autocast":
        predicted += weight_copies(config)
    if recipe == "mixed":  # a CPU keeps the norms' statistics in bf16, where a GPU has fp32
        predicted -= (2 * layers + 1) * 2 * b * s * 2
    assert gpt_saved(config, b, s, attention, recipe) == predicted


def checkpoint_blocks(model: GPT) -> None:
    """As `--activation-checkpointing full` does."""
    for block in model.h:
        block.checkpointing = "full"


def checkpoint_attention(model: GPT) -> None:
    """Recompute the inside of attention, as selective checkpointing does."""
    for block in model.h:
        inner, attn = block.attn.forward, block.attn

        def forward(x, attn=attn, inner=inner):
            b, s, h = x.shape
            q, k, v = (
                attn.c_attn(x).view(b, s, 3, attn.heads, h // attn.heads).permute(2, 0, 3, 1, 4)
            )
            y = checkpoint(
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                q, k, v, use_reentrant=False,
            )  # fmt: skip
            return attn.c_proj(y.transpose(1, 2).reshape(b, s, h))

        block.attn.forward = forward


@pytest.mark.parametrize("attention", list(KERNEL))
@pytest.mark.parametrize(
    ("kind", "wrap"), [("full", checkpoint_blocks), ("selective", checkpoint_attention)]
)
def test_gpt_with_checkpointing_keeps_what_is_predicted(kind, wrap, attention):
    b, s = 2, 16
    config = GPTConfig(vocab_size=40, context=16, layers=3, heads=4, width=32)
    predicted = activations.gpt(s, b, 3, 32, 4, "fp32", attention, kind)
    predicted += loss_bytes(config, b, s, "fp32")
    assert gpt_saved(config, b, s, attention, wrap=wrap) == predicted


def test_what_comes_back_when_a_block_is_recomputed():
    whole = activations.gpt_block(16, 2, 32, 4, "fp32", "materialised")
    size = (16, 2, 32, 4, "fp32", "materialised")
    assert activations.gpt_recomputed(*size, "full") == whole
    # scores and probabilities of 4 heads, 16 × 16, of 2 sequences, in fp32; no flash logarithms
    assert activations.gpt_recomputed(*size, "selective") == 4 * 16 * 16 * 2 * 4
    assert activations.gpt_recomputed(*size, "none") == 0


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("width", [8, 16])
def test_resnet_keeps_what_is_predicted(width, norm):
    b, model = 3, resnet18(width, norm)
    pictures, labels = torch.rand(b, 3, 32, 32), torch.zeros(b, dtype=torch.int64)
    measured = saved_bytes(model, lambda: F.cross_entropy(model(pictures), labels))
    convolutions = tensors.resnet_convolutions(width)
    predicted = activations.resnet(b, convolutions, "fp32", 8 * width, norm)
    assert measured == predicted + activations.logits(b, 10, "fp32")[0] + 8 * b + 4


def test_most_that_the_loss_takes_is_three_times_its_logits():
    positions, classes = 64, 1000
    hidden = torch.randn(positions, 8, requires_grad=True)
    weight = torch.randn(classes, 8)
    size = 4 * positions * classes
    with Live(least=size) as live:
        # the logits themselves are gone once the loss has them, as in the loop of dtlib
        F.cross_entropy(hidden @ weight.T, torch.zeros(positions, dtype=torch.int64)).backward()
    assert live.most == 3 * size
    assert activations.logits(positions, classes, "fp32") == (size, 3 * size)


def test_figures_of_korthikanti():
    """Figure 1 (GiB of activations a GPU) and the ratios of figure 7 (percent), to its last digit.

    Korthikanti et al. 2022; tensor-parallel 8, sequence 2048. The first stage of a pipeline keeps
    as many micro-batches in flight as there are stages, so it holds L layers' worth all the same.
    """
    models = {"22B": (6144, 48, 64, 4), "175B": (12288, 96, 96, 1)}
    percent = {"22B": (66.84, 49.42, 16.18, 7.64), "175B": (62.04, 56.53, 18.49, 8.71)}
    for name, (width, _, heads, batch) in models.items():
        sizes = (2048, batch, width, heads, 8)
        base = published.korthikanti_bytes(*sizes)
        forms = ("sequence", "selective", "both", "full")
        shares = [100 * published.korthikanti_bytes(*sizes, form) / base for form in forms]
        assert shares == pytest.approx(percent[name], abs=0.6), name  # read off a figure
    width, layers, heads, batch = models["22B"]
    sizes = (2048, batch, width, heads, 8)
    assert round(layers * published.korthikanti_bytes(*sizes) / GIB, 2) == 59.25
    assert round(layers * published.korthikanti_bytes(*sizes, "both") / GIB, 2) == 9.56


def test_our_count_with_dropout_is_korthikantis_34():
    """But for the norms' statistics, the flash logarithms, and 5as/h that flash does not keep."""
    s, b, h, a = 1024, 8, 768, 12
    small = 2 * activations.statistics(s, b, 2) + 4 * a * s * b
    ours = activations.gpt_block(s, b, h, a, "mixed", "flash", dropout=True)
    assert ours - small == published.korthikanti_bytes(s, b, h, a, 1, "selective") == 34 * s * b * h
    # GPT-2 124M at micro-batch 8: 717 MB a layer with materialised attention
    assert round(published.korthikanti_bytes(s, b, h, a) / 1e6) == 717


def test_logits_of_gpt2_are_as_large_as_its_model_states():
    kept, _ = activations.logits(8 * 1024, shapes.GPT2_VOCABULARY, "mixed")
    assert round(kept / 1e9, 2) == 1.65
