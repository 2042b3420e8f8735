"""Predicted activations against the bytes that autograd saves on the real models, byte for byte."""

import gc

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from dtlib.models.chunked_loss import summed_loss
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


def gpt_saved(config: GPTConfig, b: int, s: int, attention: str, recipe: str = "fp32"):
    """Build a GPT, run its forward and its loss, and return what autograd keeps."""
    model = GPT(config).to({"mixed": torch.bfloat16, "fp64": torch.float64}.get(recipe))
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


def kept_by_forward(config: GPTConfig, b: int, s: int, attention: str, recipe: str, kind: str):
    """Bytes that are alive once forward is over, logits, weights and tokens apart."""
    model = GPT(config, checkpointing=kind)
    model.to({"mixed": torch.bfloat16, "fp64": torch.float64}.get(recipe, torch.float32))
    tokens = torch.randint(0, config.vocab_size, (b, s))
    with Live() as live, sdpa_kernel(KERNEL[attention]):
        logits = model(tokens)
    gc.collect()
    own = {t.untyped_storage()._cdata for t in [tokens, logits, *model.parameters()]}
    return sum(size for key, (storage, size) in live.seen.items()
               if key not in own and not storage.expired())  # fmt: skip


@pytest.mark.parametrize("attention", list(KERNEL))
@pytest.mark.parametrize("recipe", ["fp32", "mixed", "fp64"])
@pytest.mark.parametrize("kind", ["full", "selective"])
def test_gpt_with_checkpointing_keeps_what_is_predicted(kind, recipe, attention):
    """Selective recomputation keeps what it chooses out of autograd's sight, so all is counted."""
    b, s = 2, 16
    config = GPTConfig(vocab_size=40, context=16, layers=3, heads=4, width=32)
    predicted = activations.gpt(s, b, 3, 32, 4, recipe, attention, kind) - 8 * b * s  # the tokens
    if recipe == "mixed":  # a CPU keeps the last norm's statistics in bf16, where a GPU has fp32
        predicted -= 2 * b * s * 2
    assert kept_by_forward(config, b, s, attention, recipe, kind) == predicted


def test_what_comes_back_when_a_block_is_recomputed():
    whole = activations.gpt_block(16, 2, 32, 4, "fp32", "materialised")
    size, sbh = (16, 2, 32, 4, "fp32"), 16 * 2 * 32 * 4
    assert activations.gpt_recomputed(*size, "materialised", "full") == whole
    # what the four products read: of the norms (1 + 1), the second norm's (1) and GELU's (4)
    again = 7 * sbh + 2 * activations.statistics(16, 2, 4)
    assert activations.gpt_recomputed(*size, "flash", "selective") == again
    # under stage 3 what two of them gave, too: query, key and value (3) and GELU's input (4)
    found = activations.gpt_recomputed(*size, "flash", "selective", products=False)
    assert found == again + 7 * sbh
    assert activations.gpt_recomputed(*size, "flash", "none") == 0


@pytest.mark.parametrize("recipe", ["fp32", "mixed", "fp64"])
@pytest.mark.parametrize(("n", "v", "h"), [(64, 1000, 8), (60, 1000, 200), (640, 1000, 30)])
def test_a_loss_in_chunks_takes_what_is_predicted(monkeypatch, n, v, h, recipe):
    """It keeps that and its own 0-d sum. At most, logsumexp takes a chunk's logits out of sight."""
    monkeypatch.setattr(activations, "CHUNK", 16 * v)
    dtype = {"mixed": torch.bfloat16, "fp64": torch.float64}.get(recipe, torch.float32)
    hidden, weight = (torch.randn(k, h, dtype=dtype, requires_grad=True) for k in (n, v))
    labels = torch.zeros(n, dtype=torch.int64)
    own = (n + v) * h * dtype.itemsize + 8 * n
    with Live() as live:
        loss = summed_loss(hidden, weight, labels)
    gc.collect()
    alive = sum(size for storage, size in live.seen.values() if not storage.expired())
    kept, most = activations.chunked_loss(n, v, h, recipe)
    assert alive - own == kept + n * h * dtype.itemsize + loss.itemsize
    small = loss.itemsize + 16 * (1 + 8 + 2 * loss.itemsize)  # of a chunk: counts, index, norms
    assert live.most - own - small <= most <= live.most - own + 16 * v * loss.itemsize


def test_the_loss_is_in_chunks_above_the_limit_alone_and_never_in_fp16():
    classes = activations.CHUNK // 1024
    assert not activations.is_chunked(1024, classes, "bf16")
    assert activations.is_chunked(1025, classes, "bf16")
    assert not activations.is_chunked(1025, classes, "fp16")


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
