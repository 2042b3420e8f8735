"""Layouts against numbers worked out by hand, and against those of papers."""

import ast
from collections import Counter

import pytest
import torch

from dtlib.learn.what_if import page_source
from dtlib.sim import layout as module
from dtlib.sim import mesh as meshes
from dtlib.sim import shapes, states, tensor_parallel, tensors
from dtlib.sim.layout import layout, sent
from dtlib.sim.layout_rank import held, problems, stage_parameters, step_of

# d = 2, so keys and values are 4 wide.
SMALL = {"layers": 4, "width": 8, "heads": 4, "kv_heads": 2, "sequence": 16, "vocab_size": 10}
TWOS = {"pipeline": 2, "data": 2, "context": 2, "tensor": 2}
ONES = dict.fromkeys(meshes.AXES, 1)
STEP = step_of(micro_batch=3, accumulation=4)
GIB = 2**30


def on(**sizes):
    return {**ONES, **sizes}


def gpt(layers, width, heads, sequence=2048, vocab_size=51200):
    return {"layers": layers, "width": width, "heads": heads, "kv_heads": heads,
            "sequence": sequence, "vocab_size": vocab_size}  # fmt: skip


def bytes_of(rows, axis):
    return [(r["collective"], r["payload"], r["wire"]) for r in rows if r["axis"] == axis]


# --- who talks to whom --------------------------------------------------------------------------


def test_groups_of_a_small_mesh():
    """Eight ranks as 2 × 2 × 2: tensor's are neighbours, data's are four apart."""
    mesh = on(pipeline=2, data=2, tensor=2)
    assert meshes.groups(("tensor",), mesh) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert meshes.groups(("pipeline",), mesh) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert meshes.groups(("data",), mesh) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert meshes.groups(("pipeline", "tensor"), mesh) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("order", [meshes.AXES, ("pipeline", "data", "context", "tensor")])
def test_groups_are_those_of_an_array(order):
    """Ranks as the elements of an array, whose axes a group runs along."""
    mesh = {"pipeline": 2, "data": 3, "context": 2, "tensor": 4}
    array = torch.arange(48).reshape([mesh[axis] for axis in order])
    for axes in (("tensor",), ("data", "context"), ("pipeline",), order, ()):
        own = [order.index(axis) for axis in order if axis in axes]
        others = [order.index(axis) for axis in order if axis not in axes]
        right = array.permute(*others, *own).reshape(-1, meshes.size(axes, mesh))
        assert meshes.groups(axes, mesh, order) == right.tolist()


def test_nodes_of_a_group():
    """Strides 1, 2, 4, 8: of six in a node the context pair 4, 6 is the first to be parted."""
    spanned = {n: [meshes.nodes_spanned((a,), TWOS, n) for a in meshes.AXES] for n in (8, 4, 6, 1)}
    assert spanned == {8: [2, 1, 1, 1], 4: [2, 2, 1, 1], 6: [2, 2, 2, 1], 1: [2, 2, 2, 2]}


def test_only_tensor_stays_in_a_node_of_llama_3():
    """A. Grattafiori et al., arXiv:2407.21783, table 4 and section 3.3.2: [TP, CP, PP, DP]."""
    mesh = {"pipeline": 16, "data": 8, "context": 16, "tensor": 8}
    shape = {**gpt(126, 16384, 128, 131072, 128256), "kv_heads": 8}
    found = layout(shape, mesh, step_of(accumulation=16), 80 * GIB, 8)
    assert found["ranks"] == 16384
    assert found["tokens"] == 16 * 2**20  # the table's 16M
    assert found["crosses"] == ["data", "pipeline", "context"]
    assert found["nodes"] == {"pipeline": 16, "data": 128, "context": 16, "tensor": 1}


# --- what a rank holds --------------------------------------------------------------------------


def test_parameters_by_hand():
    """A block's cut part: 16·8 + 16, 8·8, 32·8 + 32 and 8·32, halved: 376; whole: 2·16 + 8 + 8.

    Two blocks; first 5 words and 16 positions, last 5 words and the final norm.
    """
    assert stage_parameters(SMALL, TWOS, 0) == (2 * 376 + 5 * 8, 2 * 48 + 16 * 8)
    assert stage_parameters(SMALL, TWOS, 1) == (2 * 376 + 5 * 8, 2 * 48 + 16)


@pytest.mark.parametrize(
    ("billions", "layers", "width", "heads"),
    [(1.7, 24, 2304, 24), (3.6, 30, 3072, 32), (7.5, 36, 4096, 32), (18.4, 40, 6144, 48),
     (39.1, 48, 8192, 64), (76.1, 60, 10240, 80), (145.6, 80, 12288, 96), (310.1, 96, 16384, 128),
     (529.6, 105, 20480, 128), (1008.0, 128, 25600, 160)],
)  # fmt: skip
def test_parameters_of_narayanan_table_1(billions, layers, width, heads):
    """D. Narayanan et al., SC 2021, table 1: 2048 positions, 51,200 words."""
    cut, whole = stage_parameters(gpt(layers, width, heads), ONES, 0)
    assert round((cut + whole) / 1e9, 1) == billions


def test_the_parts_of_all_ranks_are_the_model():
    shape = gpt(4, 48, 12, 16, 24)
    model = tensors.count(tensors.gpt(4, 48, 16, 24))
    for tensor in (1, 2, 3, 4):
        for stages in (1, 2, 4):
            parts = [
                stage_parameters(shape, on(pipeline=stages, tensor=tensor), stage)
                for stage in range(stages)
            ]
            tied = 24 * 48 * (stages > 1)  # the last stage has the embedding again
            assert sum(cut * tensor + whole for cut, whole in parts) == model + tied


def test_bytes_held_by_hand():
    """1016 elements at the first place, 904 at the last; four ranks have the same weights.

    A micro-batch has 24 positions, s·b·h = 192. A block keeps two norm inputs (768) with their
    statistics (384), the inputs of two matrices (768), and of a half of the inside (12·192 - 192)·2
    + 4·24·4: 4224. The first of two places keeps two micro-batches of two blocks.
    """
    assert held(SMALL, TWOS, STEP, 0) == {
        "parameters": 2032, "gradients": 2032, "optimizer": 8128, "fp32_copy": 4064,
        "activations": 4 * 4224, "logits": 0,
    }  # fmt: skip
    last = held(SMALL, TWOS, {**STEP, "zero": 1}, 1)
    assert last == {
        "parameters": 1808, "gradients": 1808, "optimizer": 8 * 226, "fp32_copy": 4 * 226,
        "activations": 2 * 4224, "logits": 24 * 5 * 3 * 4,
    }  # fmt: skip


def test_activations_with_sequence_parallelism_and_recomputation():
    """Megatron-LM's 16/N + 2/N: half of all but the statistics; recomputation keeps the input."""
    whole, half = (
        held(SMALL, on(tensor=t), {**STEP, "sequence_parallel": t > 1}, 0)["activations"]
        for t in (1, 2)
    )
    assert half == whole / 2
    block = whole / 4
    full = held(SMALL, ONES, {**STEP, "recompute": "full"}, 0)["activations"]
    assert full == 4 * (48 * 8 * 2) + block  # 3 × 16 positions
    for apart in (False, True):
        way = {**STEP, "sequence_parallel": apart}
        block = held(SMALL, on(tensor=2), way, 0)["activations"] / 4
        full = held(SMALL, on(tensor=2), {**way, "recompute": "full"}, 0)["activations"]
        assert full == 4 * (48 * 8 * 2) / (2 if apart else 1) + block


def test_the_first_place_keeps_as_much_as_without_a_pipeline():
    """1F1B keeps P micro-batches of L/P layers: V. Korthikanti et al., section 4.3."""
    alone = held(gpt(8, 64, 4), ONES, STEP, 0)["activations"]
    for stages in (2, 4):
        mesh = on(pipeline=stages)
        kept = [held(gpt(8, 64, 4), mesh, STEP, r)["activations"] for r in range(stages)]
        assert kept == [alone * (stages - r) / stages for r in range(stages)]
    for schedule, kept in (("gpipe", 4), ("zb-h1", 2), ("interleaved", 1.5)):
        way = {**STEP, "schedule": schedule, "chunks": 1 + (schedule == "interleaved")}
        found = layout(gpt(8, 64, 4), on(pipeline=2), way, GIB, 8)
        last = held(gpt(8, 64, 4), on(pipeline=2), way, 1)["activations"]
        assert last == alone * kept / 2
        assert found["bubble"] == 1 / 4 / {"gpipe": 1, "zb-h1": 3, "interleaved": 2}[schedule]


@pytest.mark.parametrize("recipe", ["mixed", "fp32"])
@pytest.mark.parametrize("zero", range(4))
def test_states_are_those_of_zero(zero, recipe):
    shape = {**SMALL, "kv_heads": 4}
    way = {**STEP, "zero": zero, "recipe": recipe}
    found = held(shape, on(data=2, context=2), way, 0)
    model = tensors.count(tensors.gpt(4, 8, 16, 10))
    name = ("ddp", "zero1", "zero2", "zero3")[zero]
    want = states.model_states(model, 4, name, recipe, kept="paper")["device"]
    assert {kind: found[kind] for kind in want} == want


# --- what a rank sends --------------------------------------------------------------------------


def test_bytes_sent_by_hand():
    """Four micro-batches of 192 elements in two bytes, two blocks at each place.

    Keys and values: 2·24·4 elements, half of them on a rank of tensor.
    """
    first, last = (sent(SMALL, TWOS, STEP, stage) for stage in (0, 1))
    f_and_g = ("all_reduce", 4 * 9 * 384, 4 * 9 * 384)
    assert bytes_of(first, "tensor") == [f_and_g]
    assert bytes_of(last, "tensor") == [f_and_g, ("all_reduce", 384, 384), ("all_reduce", 768, 768)]
    once = ("send", 8 * 192, 8 * 192)  # forward, backward; gradients make one more step, home
    around = [once, once, ("send", 8 * 2 * 192, 8 * 2 * 192)]
    assert bytes_of(first, "context") == around == bytes_of(last, "context")
    assert bytes_of(first, "data") == [("all_reduce", 2032, 3048)]
    assert bytes_of(last, "data") == [("all_reduce", 1808, 2712)]
    ends = [("send", 4 * 384, 4 * 384), ("all_reduce", 80, 80)]
    assert bytes_of(first, "pipeline") == ends == bytes_of(last, "pipeline")


def test_recomputation_sends_its_forward_again():
    rows = sent(SMALL, TWOS, {**STEP, "recompute": "full"}, 0)
    assert bytes_of(rows, "tensor") == [("all_reduce", 4 * 13 * 384, 4 * 13 * 384)]
    assert [payload for _, payload, _ in bytes_of(rows, "context")] == [1536, 1536, 3072, 1536]


def test_autocast_sends_matrices_in_two_bytes_and_the_stream_in_four():
    mixed, autocast = (sent(SMALL, TWOS, {**STEP, "recipe": r}, 1) for r in ("mixed", "autocast"))
    assert bytes_of(autocast, "tensor") == bytes_of(mixed, "tensor")
    assert bytes_of(autocast, "context") == bytes_of(mixed, "context")
    double = [(name, 2 * payload, 2 * wire) for name, payload, wire in bytes_of(mixed, "pipeline")]
    assert bytes_of(autocast, "pipeline") == double
    assert bytes_of(autocast, "data")[0][1] == 2 * bytes_of(mixed, "data")[0][1]


def test_sequence_parallelism_sends_halves():
    rows = sent(SMALL, TWOS, {**STEP, "sequence_parallel": True}, 0)
    halves = [(name, 4 * 9 * 384, 4 * 9 * 192) for name in ("all_gather", "reduce_scatter")]
    assert bytes_of(rows, "tensor") == [*halves, ("all_reduce", 2 * 224, 2 * 224)]
    assert bytes_of(rows, "pipeline")[0] == ("send", 4 * 192, 4 * 192)


@pytest.mark.parametrize(
    ("zero", "want"),
    [
        (1, [("reduce_scatter", 2032), ("all_gather", 2032)]),
        (2, [("reduce_scatter", 4 * 2032), ("all_gather", 2032)]),
        (3, [("all_gather", 4 * 2032), ("all_gather", 4 * 2032), ("reduce_scatter", 4 * 2032)]),
    ],
)
def test_what_zero_sends(zero, want):
    rows = bytes_of(sent(SMALL, TWOS, {**STEP, "zero": zero}, 0), "data")
    assert rows == [(name, payload, payload * 3 / 4) for name, payload in want]


def test_narayanan_section_3_2():
    """8·b·s·h·(t-1)/t elements a layer and micro-batch over tensor, b·s·h between two stages."""
    shape, mesh = gpt(8, 1024, 16), on(pipeline=4, tensor=8)
    rows = sent(shape, mesh, step_of(micro_batch=2, accumulation=3), 1)
    bsh = 2 * 2048 * 1024
    assert bytes_of(rows, "tensor")[0][2] == 2 * (3 * 2 * 8 * bsh * 7 / 8)
    assert bytes_of(rows, "pipeline") == [("send", 2 * 3 * 2 * bsh, 2 * 3 * 2 * bsh)]
    tied = 2 * 51200 // 8 * 1024  # between the first and the last alone
    ends = [bytes_of(sent(shape, mesh, step_of(), stage), "pipeline")[1] for stage in (0, 3)]
    assert ends == 2 * [("all_reduce", tied, tied)]


def test_one_pipeline_place_sends_what_tensor_parallelism_sends():
    shape = gpt(2, 48, 12, 12, 13)
    for apart in (False, True):
        way = step_of(micro_batch=2, sequence_parallel=apart, recipe="fp32")
        rows = bytes_of(sent(shape, on(tensor=3), way, 0), "tensor")
        want = tensor_parallel.traffic(12, 2, 2, 48, 12, 3, 4, apart)
        assert Counter(rows) == Counter((r["collective"], r["payload"], r["wire"]) for r in want)


# --- the whole answer ---------------------------------------------------------------------------


def test_the_answer_is_for_the_fullest_place():
    """Of the small example the first place is fullest: 16,256 bytes of states, 16,896 beside."""
    found = layout(SMALL, TWOS, STEP, 33_152, 8)
    assert (found["stage"], found["total"], found["largest"]) == (0, 33_152, "activations")
    assert found["fits"] and not layout(SMALL, TWOS, STEP, 33_151, 8)["fits"]
    assert found["parameters"] == 1016
    assert found["wire"]["data"] == 3048
    assert (found["bubble"], found["tokens"]) == (1 / 4, 2 * 4 * 3 * 16)
    assert found["crosses"] == ["data"]
    inside_out = layout(SMALL, TWOS, STEP, GIB, 8, order=meshes.AXES[::-1])
    assert inside_out["crosses"] == ["tensor"]
    assert layout(SMALL, on(context=2), STEP, GIB, 1)["crosses"] == ["data", "context"]
    many_words = {**SMALL, "vocab_size": 10_000}
    last = layout(many_words, TWOS, STEP, 1, 8)
    assert (last["stage"], last["largest"]) == (1, "logits")


def test_gpt_3_fits_as_it_was_trained():
    """Narayanan et al., table 2: 175B on 384 A100s of 80 GB, 96 ways parallel, 1536 sequences."""
    shape, way = gpt(96, 12288, 96), step_of(accumulation=384, recompute="full")
    assert layout(shape, on(pipeline=12, tensor=8, data=4), way, 80 * GIB, 8)["fits"]
    assert not layout(shape, on(tensor=8, data=48), way, 80 * GIB, 8)["fits"]


def test_one_rank_sends_nothing():
    found = layout(SMALL, ONES, STEP, GIB, 8)
    assert (found["sent"], found["crosses"], found["bubble"]) == ([], [], 0)


def test_what_does_not_divide_is_said():
    odd = on(tensor=3, context=5, pipeline=3)
    step = step_of(accumulation=2, schedule="interleaved", chunks=2)
    said = problems(SMALL, odd, step)
    assert "3 ranks of tensor do not divide 4 heads." in said
    assert "3 ranks of tensor do not divide 2 heads of keys and values." in said
    assert "6 stages do not divide 4 layers." in said
    assert "5 parts of a sequence do not divide 16 positions." in said
    assert "3 ranks of pipeline do not divide 2 micro-batches." in said
    assert layout(SMALL, odd, step, GIB, 8)["problems"] == said
    few = problems(SMALL, on(pipeline=4), step_of(accumulation=2, schedule="zb-h1"))
    assert few == ["ZB-H1 takes at least 4 micro-batches; there are 2."]
    assert problems(SMALL, on(pipeline=4), step_of(accumulation=4, schedule="zb-h1")) == []
    cut = step_of(sequence_parallel=True, accumulation=4)
    assert problems({**SMALL, "sequence": 10}, on(tensor=2, context=2), cut) == [
        "4 parts of a sequence do not divide 10 positions."
    ]
    assert problems(SMALL, TWOS, STEP) == []


def test_a_page_computes_the_same():
    """In a page all modules are one text, so that of two equal names the last one counts."""
    text = page_source(module)
    names = Counter(node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    # those of parameters come last, and nothing here asks for the others
    assert {name for name, times in names.items() if times > 1} == {"gpt", "gpt_block", "resnet"}
    page: dict = {}
    exec(text, page)
    nano = shapes.GPT["nano"]
    shape = gpt(nano["layers"], nano["width"], nano["heads"], nano["context"], 512)
    for recompute in ("none", "full"):
        way = step_of(accumulation=4, sequence_parallel=True, recompute=recompute, zero=1)
        assert page["layout"](shape, TWOS, way, GIB, 4) == layout(shape, TWOS, way, GIB, 4)
