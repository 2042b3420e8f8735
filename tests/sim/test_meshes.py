"""What `dtlib sim memory` predicts on a mesh; `strategies/test_meshes` compares it with runs."""

import json

import pytest

from dtlib import cli
from dtlib.errors import BadInput
from dtlib.sim import states, tensors
from dtlib.sim.estimate import Setup, estimate
from dtlib.sim.tensor_parallel import block_activations, part

# gpt2 on two tensor ranks: 25,129 of the 50,257 words, half of each matrix and of the biases of the
# first ones; norms, positions and the biases of the second ones are whole.
H, L = 768, 12
CUT = (3 + 1 + 4 + 4) * H * H + 7 * H
PART = 25_129 * H + 1024 * H + L * (CUT // 2 + 6 * H) + 2 * H


def rows(setup: Setup) -> dict[str, int]:
    return {row.kind: row.size for row in estimate(setup).rows if row.place == "device"}


def sent(setup: Setup) -> dict[tuple[str, str], int]:
    return {(row.collective, row.carries): row.payload for row in estimate(setup).traffic}


def test_a_tensor_rank_by_hand():
    setup = Setup("gpt2", "tensor", ranks=4, mesh="data=2,tensor=2", micro_batch=2, accumulation=3)
    found, b = rows(setup), 2
    assert found["parameters"] == found["gradients"] == found["optimizer"] // 2 == 4 * PART
    assert found["logits"] == 3 * 4 * b * 1024 * 25_129
    blocks = L * block_activations(1024, b, H, 12, "fp32", 2)
    end = 2 * 4 * b * 1024 * H + 8 * b * 1024 + 8 * 1024 * (b + 1)
    assert found["activations"] == blocks + end
    positions = 3 * b * 1024  # of the three micro-batches
    assert sent(setup) == {
        ("all_reduce", "gradients"): 4 * PART,  # once, between the two data ranks
        ("all_reduce", "f and g"): 4 * (4 * L + 2) * positions * H,
        ("all_reduce", "the loss: largest logit"): 4 * positions,
        ("all_reduce", "the loss: sums"): 8 * positions,
    }
    whole = Setup("gpt2", "single", micro_batch=2, accumulation=3)
    assert estimate(setup).flop[0] == estimate(whole).flop[0] // 2
    assert estimate(setup).parameters == estimate(whole).parameters


def test_fsdp_shards_a_tensor_rank_s_part_and_sends_activations_in_16_bits():
    setup = Setup("gpt2", "fsdp", ranks=8, mesh="data=4,tensor=2", precision="bf16")
    found = rows(setup)
    assert found["parameters"] == 4 * states.share(PART, 4)
    root = tensors.count([t for t in setup.part() if not t[0].startswith("h.")])
    assert found["gathered"] == 2 * (root + 2 * (CUT // 2 + 6 * H))
    assert sent(setup)["all_reduce", "f and g"] == 2 * (4 * L + 2) * 1024 * H
    assert sent(setup)["all_reduce", "the loss: largest logit"] == 4 * 1024
    assert sent(setup)["reduce_scatter", "gradients"] == 4 * PART


def test_the_last_tensor_rank_has_the_fewest_words():
    words = [part([("wte.weight", (458, 8))], 4, rank)[0][1] for rank in range(4)]
    assert words == [(115, 8), (115, 8), (115, 8), (113, 8)]


def test_a_mesh_of_data_ranks_alone_changes_nothing():
    for mesh, same in (("data=8", {}), ("replicate=2,data=4", {"shard_ranks": 4})):
        found = estimate(Setup("gpt2", "fsdp", ranks=8, mesh=mesh))
        assert found == estimate(Setup("gpt2", "fsdp", ranks=8, **same))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"strategy": "ddp", "mesh": "data=2,tensor=2"}, "no axis tensor of strategy ddp"),
        ({"strategy": "tensor", "mesh": "data=2,tensor=3", "ranks": 6}, "heads, which 3 tensor"),
        ({"model": "resnet18", "strategy": "tensor"}, "a tensor axis divides dtlib's own GPT, not"),
        ({"strategy": "tensor", "checkpointing": "selective"}, "not counted along a tensor axis"),
        ({"strategy": "fsdp", "mesh": "data=2"}, "mesh data=2 has 2 ranks, but the run has 4"),
    ],
)
def test_what_sim_cannot_predict_is_refused(settings, sentence):
    with pytest.raises(BadInput, match=sentence):
        Setup(**{"model": "nano", "ranks": 4, **settings})


def test_the_command_takes_the_ranks_of_the_mesh(capsys):
    words = ["sim", "memory", "--model", "gpt2", "--strategy", "fsdp", "--mesh", "tensor=2,data=4"]
    assert cli.main(words) == 0
    assert "strategy fsdp, fp32 on 8 ranks (data=4,tensor=2);" in capsys.readouterr().out
    assert cli.main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["setup"]["ranks"] == 8
