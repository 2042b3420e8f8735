"""The models: known sizes, known outputs, weights from the seed alone."""

import dataclasses
import math

import pytest
import torch
from torch.nn import functional as F

from dtlib.errors import BadInput
from dtlib.models.gpt import GPT, SHAPES, GPTConfig, shape, to_hf_state_dict
from dtlib.models.resnet import resnet18
from tests.sim.alive import Live

TINY = GPTConfig(vocab_size=61, context=16, layers=2, heads=4, width=32)


def count(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("width", "expected"), [(64, 11_173_962), (16, 701_466)])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_resnet_has_the_stated_number_of_parameters(width, norm, expected):
    with torch.device("meta"):
        assert count(resnet18(width, norm)) == expected


def test_resnet_keeps_the_full_side_through_the_first_stage():
    model = resnet18(8).eval()
    x = model.stem(torch.zeros(2, 3, 32, 32))
    sides = []
    for block in model.blocks:
        x = block(x)
        sides.append(x.shape[-1])
    assert sides == [32, 32, 16, 16, 8, 8, 4, 4]
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_resnet_runs_in_fp64_and_its_gradients_are_fp64():
    model = resnet18(8, "group", classes=7).double()
    logits = model(torch.randn(3, 3, 32, 32, dtype=torch.float64))
    logits.sum().backward()
    assert logits.shape == (3, 7)
    assert {p.grad.dtype for p in model.parameters()} == {torch.float64}


def test_group_norm_treats_each_picture_alone_and_batch_norm_does_not():
    pictures = torch.randn(4, 3, 32, 32, dtype=torch.float64)
    group, batch = (resnet18(8, norm).double() for norm in ("group", "batch"))
    # Not bit-equal: a convolution of two pictures may sum in another order than one of four.
    torch.testing.assert_close(group(pictures)[:2], group(pictures[:2]), rtol=1e-10, atol=1e-10)
    assert (batch(pictures)[:2] - batch(pictures[:2])).abs().max() > 1e-4


@pytest.mark.parametrize(
    "build", [lambda seed: resnet18(8, seed=seed), lambda s: GPT(TINY, seed=s)]
)
def test_weights_come_from_the_seed_alone(build):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = build(5)
    assert torch.equal(torch.get_rng_state(), before), "the global generator was moved"
    torch.manual_seed(2)
    two, other = build(5), build(6)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    weights = [p for p in one.parameters() if p.dim() > 1]
    others = [p for p in other.parameters() if p.dim() > 1]
    assert not any(torch.equal(a, b) for a, b in zip(weights, others, strict=True))


@pytest.mark.parametrize(("width", "norm"), [(12, "group"), (0, "batch"), (-8, "batch")])
def test_resnet_refuses_widths_that_groups_do_not_divide(width, norm):
    with pytest.raises(BadInput, match=rf"width {width} .* multiple of 8"):
        resnet18(width, norm)


def test_resnet_names_the_nearest_norm():
    with pytest.raises(BadInput, match="Did you mean 'batch'"):
        resnet18(norm="bach")


@pytest.mark.parametrize(("name", "expected"), [
    ("gpt2", 124_439_808),
    ("gpt2-medium", 354_823_168),
    ("gpt2-large", 774_030_080),
    ("gpt2-xl", 1_557_611_200),
])  # fmt: skip
def test_gpt_shapes_have_the_published_number_of_parameters(name, expected):
    with torch.device("meta"):
        assert count(GPT(shape(name))) == expected


def test_nano_is_small():
    with torch.device("meta"):
        model = GPT(shape("nano", vocab_size=78))
    # 12 L h² + 13 L h for the blocks, 2 h for the last norm, h for each position and each token.
    assert count(model) == 12 * 4 * 128**2 + 13 * 4 * 128 + 2 * 128 + (64 + 78) * 128


def hugging_face(config: GPTConfig) -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config.vocab_size, n_positions=config.context, n_embd=config.width,
            n_layer=config.layers, n_head=config.heads, bos_token_id=None, eos_token_id=None,
        )
    ).eval()  # fmt: skip
    for parameter in model.parameters():  # biases are zero at first and would hide a swap
        torch.nn.init.normal_(parameter, std=0.2)
    return model


@pytest.mark.parametrize("bare", [False, True], ids=["GPT2LMHeadModel", "GPT2Model"])
def test_gpt_gives_hugging_faces_logits(bare):
    theirs = hugging_face(TINY)
    state = theirs.transformer.state_dict() if bare else theirs.state_dict()
    # Older checkpoints also hold the causal mask.
    state["h.0.attn.bias"] = torch.ones(1, 1, 16, 16).tril()
    state["h.0.attn.masked_bias"] = torch.tensor(-1e4)
    ours = GPT(TINY).eval()
    ours.load_hf_state_dict(state)
    tokens = torch.randint(0, TINY.vocab_size, (3, 16))
    with torch.no_grad():
        expected = theirs(tokens).logits
        # fp32, two layers: operations of the two differ in order alone.
        torch.testing.assert_close(ours(tokens), expected, rtol=1e-5, atol=1e-5)


def test_gpt_refuses_the_state_of_another_shape():
    state = hugging_face(TINY).state_dict()
    other = GPTConfig(vocab_size=61, context=16, layers=2, heads=4, width=16)
    with pytest.raises(BadInput, match=r"does not fit .*size mismatch for wte"):
        GPT(other).load_hf_state_dict(state)


def foreign() -> dict[str, torch.Tensor]:
    return to_hf_state_dict(GPT(TINY, seed=3).state_dict())


def test_gpt_takes_a_state_that_ddp_and_compile_have_named():
    ours, state = GPT(TINY), foreign() | {"lm_head.weight": foreign()["transformer.wte.weight"]}
    ours.load_hf_state_dict({f"module._orig_mod.{key}": value for key, value in state.items()})
    torch.testing.assert_close(ours.state_dict(), GPT(TINY, seed=3).state_dict(), rtol=0, atol=0)


WTE = foreign()["transformer.wte.weight"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("lm_head.weight", WTE + 1e-3, r"lm_head\.weight .* is not its wte\.weight.*tied"),
        ("lm_head.weight", WTE[1:], r"lm_head\.weight .* is not its wte\.weight"),
        ("lm_head.bias", torch.zeros(60), r"Unexpected key.*lm_head\.bias"),
        ("score.weight", torch.zeros(2, 32), r"Unexpected key.*score\.weight"),
        ("transformer.h.0.crossattention.bias", torch.ones(1), r"h\.0\.crossattention\.bias"),
        ("transformer.h.7.attn.bias", torch.ones(16, 16).tril(), r"Unexpected.*h\.7\.attn\.bias"),
        ("transformer.h.0.attn.bias", torch.ones(16, 16), r"h\.0\.attn\.bias .* not a causal mask"),
        ("transformer.h.1.attn.masked_bias", torch.tensor(0.0), r"h\.1\.attn\.masked_bias"),
        ("wte.weight", WTE, r"has wte\.weight twice"),
        ("step", 3, r"'step' of this state dict is a int"),
    ],
)
def test_gpt_names_every_key_that_it_cannot_use(key, value, words):
    with pytest.raises(BadInput, match=words):
        GPT(TINY).load_hf_state_dict(foreign() | {key: value})


def test_gpt_starts_at_the_loss_of_one_that_knows_nothing():
    model = GPT(shape("nano", vocab_size=500))
    tokens = torch.randint(0, 500, (8, 65), generator=torch.Generator().manual_seed(0))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    # Logits start with variance h·0.02² = 0.05, which adds half of that to ln(vocabulary).
    assert loss.item() == pytest.approx(math.log(500) + 0.5 * 128 * 0.02**2, abs=0.05)


def test_gpt_initialises_like_gpt2():
    model = GPT(shape("nano", vocab_size=1000))
    # Standard error of a deviation from n draws: std / sqrt(2n), here below 0.5 %.
    assert model.wte.weight.std().item() == pytest.approx(0.02, rel=0.02)
    for block in model.h:
        assert block.mlp.c_proj.weight.std().item() == pytest.approx(0.02 / 8**0.5, rel=0.02)
        assert block.attn.c_proj.weight.std().item() == pytest.approx(0.02 / 8**0.5, rel=0.02)
        assert block.attn.c_attn.weight.std().item() == pytest.approx(0.02, rel=0.02)
        assert not block.mlp.c_fc.bias.any()


def test_gpt_looks_at_no_later_token():
    model = GPT(TINY).eval()
    tokens = torch.randint(0, 61, (1, 16))
    changed = tokens.clone()
    changed[0, 10] = (changed[0, 10] + 1) % 61
    with torch.no_grad():
        difference = (model(tokens) - model(changed)).abs().amax(2)[0]
    assert not difference[:10].any()
    assert difference[10] > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_gpt_has_no_fully_masked_row(dtype):
    """A padded window is right-padded and causal, so no softmax runs over nothing and gives NaN."""
    model = GPT(TINY).to(dtype)
    assert model(torch.zeros(2, 16, dtype=torch.int64)).isfinite().all()
    assert model(torch.zeros(2, 1, dtype=torch.int64)).isfinite().all()


def test_gpt_drops_out_in_training_alone():
    model = GPT(GPTConfig(vocab_size=61, context=16, layers=1, heads=4, width=32, dropout=0.5))
    tokens = torch.zeros(1, 16, dtype=torch.int64)
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model(tokens))


def test_gpt_refuses_what_does_not_fit():
    with pytest.raises(BadInput, match=r"17 tokens exceeds the context of 16"):
        GPT(TINY)(torch.zeros(1, 17, dtype=torch.int64))
    with pytest.raises(BadInput, match=r"width 130 .* heads, 4"):
        shape("nano", width=130)
    with pytest.raises(BadInput, match="Did you mean 'gpt2-medium'"):
        shape("gpt2-medum")
    with pytest.raises(BadInput, match=r"dropout 1\.0"):
        shape("nano", dropout=1.0)
    assert set(SHAPES) == {"nano", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"}


@pytest.mark.parametrize("autocast", [False, True])
def test_recomputation_gives_the_same_bits_and_forward_keeps_less(autocast):
    """Dropout, too, is drawn again as it was."""
    config = dataclasses.replace(TINY, dropout=0.1)
    tokens = torch.randint(0, 61, (2, 16))

    def step(kind: str) -> tuple[list[torch.Tensor], int]:
        model, live = GPT(config, checkpointing=kind), Live()
        torch.manual_seed(3)
        with live, torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters())], live.most

    (plain, most), (full, least), (selective, between) = map(step, ("none", "full", "selective"))
    assert all(map(torch.equal, plain, full)) and all(map(torch.equal, plain, selective))
    assert least < 0.8 * between < 0.8 * 0.9 * most
