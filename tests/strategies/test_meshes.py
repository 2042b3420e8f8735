"""Training on a mesh of four ranks: tensor parallelism, alone and over data, and FSDP with it.

| what | why so close |
| --- | --- |
| losses, evaluation against `single` | 2e-6: a few roundings of 2.4e-7, see `CLOSE` |
| norms | 1e-6 of a norm of 7, which adds up rounded squares |
| a stopped and resumed run against a whole one | the same bits |
"""

import contextlib
import io
from typing import Any

import pytest
import torch

import dtlib
from dtlib import launch
from dtlib.config import RunConfig
from dtlib.errors import BadInput, Stopped, Unavailable
from dtlib.measure.ledger import Page
from dtlib.models import gpt
from dtlib.ranks import dist
from dtlib.sim.estimate import estimate
from dtlib.strategies.context import Context
from dtlib.strategies.fsdp import FSDP
from dtlib.strategies.matrices import apart, together
from dtlib.strategies.tensor import Tensor
from dtlib.study.differences import compare
from dtlib.study.facts import Facts
from dtlib.training.record import Run
from tests.strategy_runs import SMALL, figures
from tests.toy import config, ready

# Losses of about 4 are rounded at 2^-24 · 4 = 2.4e-7, and products are added up in another order.
CLOSE = 2e-6
pytestmark = pytest.mark.timeout(400)  # fifteen runs, 30 s where little else runs
MESHES = {
    "tensor": {"strategy": "tensor"},
    "tensor over data": {"strategy": "tensor", "mesh": "data=2,tensor=2"},
    "fsdp × tensor": {"strategy": "fsdp", "mesh": "data=2,tensor=2"},
    "copies": {"strategy": "fsdp", "mesh": "replicate=2,data=2"},
}
MOMENTUM = {"optimizer": "sgd", "clip": 0.5, "accumulation": 3}


def train(name: str, **settings: Any) -> Run:
    with contextlib.redirect_stdout(io.StringIO()):
        return dtlib.train("text", **{**SMALL, **MESHES.get(name, {}), **settings})


def train_each(**settings: Any) -> dict[str, Run]:
    """Train on each mesh twice: as it is, and with momentum, a clip and three micro-batches."""
    kinds = [{}, MOMENTUM]
    names = [(name, more, f"{name} {more.get('optimizer')}") for name in MESHES for more in kinds]
    return {out: train(name, out=out, ledger=True, **settings, **more) for name, more, out in names}


def go_on_and_stop(**settings: Any) -> dict[str, Any]:
    """Resume one chain of checkpoints under every mesh, and a stopped run under its own."""
    for number, name in enumerate(["tensor over data", "fsdp × tensor", "tensor"], 2):
        last = train(name, out="chain", resume=True, steps=2 * number, **settings)
    stopped = {}
    for name in ("tensor over data", "fsdp × tensor"):
        told = {**settings, "out": f"{name} stopped"}
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped, match="of 4"):
            patch.setattr(dist, "stop_requested", stop_on_rank_3)
            train(name, **told)
        stopped[name] = figures(train(name, **told, resume=True))
    return {"chain": figures(last), "stopped": stopped}


def stop_on_rank_3() -> bool:
    """A signal that only the last rank gets, as SIGTERM sets the flag of one process."""
    return dist.world().rank == 3


def small(mesh: str, **settings: Any) -> FSDP:
    """Return a small GPT on a mesh, whose four heads and 11 words are divided."""
    model = gpt.GPT(gpt.GPTConfig(11, 8, 2, 4, 16, dropout=settings.get("dropout", 0.0)), seed=1)
    kind = FSDP if settings.get("strategy") == "fsdp" else Tensor
    told = config(**{"strategy": "tensor", "mesh": mesh, **settings})
    made = ready(kind, told, model)
    assert isinstance(made, FSDP)
    return made


def masks() -> tuple[list[float], list[float]]:
    """Draw in attention, on this rank's own heads, and after it, where all have the same."""
    strategy = small("data=2,tensor=2", dropout=0.5)
    inside, after = [], []
    for block in strategy.module.h:
        block.attn.c_proj.register_forward_hook(lambda *_: inside.append(torch.rand(()).item()))
        block.register_forward_hook(lambda *_: after.append(torch.rand(()).item()))
    torch.manual_seed(7)
    with torch.no_grad():
        strategy.model(torch.arange(8)[None])
    return inside, after


def overflow(strategy: str) -> tuple[bool, bool]:
    """Return whether a step is skipped if one rank's part overflowed, and changes nothing."""
    made = small("data=2,tensor=2", strategy=strategy, precision="fp16")
    before = [tensor.clone() for tensor in made.held()["parameters"]]
    with made.micro_step(True):
        logits = made.model(torch.arange(8)[None])
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), torch.arange(8), reduction="sum"
        )
        made.backward(loss.to_local(), torch.tensor(1.0))
    if dist.world().rank == 1:
        made.module.h[1].mlp.c_fc.weight.grad.to_local().fill_(float("inf"))
    skipped = made.step(lr=1.0).skipped
    return skipped, all(map(torch.equal, before, made.held()["parameters"]))


def look(**settings: Any) -> dict[str, Any]:
    """All that these tests look at, in one start of four ranks."""
    return {
        "runs": train_each(**settings), **go_on_and_stop(**settings), "masks": masks(),
        "overflow": [overflow(strategy) for strategy in ("tensor", "fsdp")],
    }  # fmt: skip


@pytest.fixture(scope="module")
def on_four_ranks(story, tmp_path_factory) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("meshes"))
        train("", strategy="single", ranks=1, out="chain", steps=2, data=story)
        return launch(look, data=story, ranks=4, timeout=60, show=False)


def single(story: str, out: str, **settings: Any) -> dict[str, Any]:
    return figures(train("", strategy="single", ranks=1, out=out, data=story, **settings))


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["losses"] == pytest.approx(expected["losses"], rel=0, abs=CLOSE)
    if expected["norms"][0] is not None:
        assert found["norms"] == pytest.approx(expected["norms"], rel=1e-6, abs=CLOSE)
    assert found["held_out"] == pytest.approx(expected["held_out"], rel=0, abs=CLOSE)
    assert found["parameters"] == expected["parameters"]


@pytest.mark.parametrize("name", MESHES)
def test_a_mesh_trains_as_one_process_does(on_four_ranks, own_folder, story, name):
    """A sample counted twice, a norm that counts whole parameters twice, a mean over all ranks

    instead of the data ranks: each of these shows in loss, norm or evaluation.
    """
    runs = on_four_ranks[0]["runs"]
    assert_close(figures(runs[f"{name} None"]), single(story, "adamw"))
    expected = single(story, "sgd", **MOMENTUM)
    assert min(expected["norms"]) > MOMENTUM["clip"]
    assert_close(figures(runs[f"{name} sgd"]), expected)


def test_records_say_the_mesh_and_count_each_sample_once(on_four_ranks):
    runs = on_four_ranks[0]["runs"]
    meshes = {name: runs[f"{name} None"].summary["mesh"] for name in MESHES}
    assert meshes == {"tensor": "tensor=4", "copies": "replicate=2,data=2"} | dict.fromkeys(
        ("tensor over data", "fsdp × tensor"), "data=2,tensor=2"
    )
    for name, data in (("tensor", 1), ("tensor over data", 2), ("copies", 4)):
        summary = runs[f"{name} sgd"].summary
        assert (summary["world_size"], summary["micro_batch"], summary["accumulation"]) == (
            4,
            4 // data,
            3,
        )
        # 12 windows of 8 tokens in each step
        assert summary["throughput"] == pytest.approx(96 / summary["step_time_s"])


@pytest.mark.parametrize("name", MESHES)
def test_every_byte_on_a_mesh_is_explained(on_four_ranks, name):
    """What each rank holds, keeps for backward and sends, beside the formulas of sim."""
    for kind in ("None", "sgd"):
        run = on_four_ranks[0]["runs"][f"{name} {kind}"]
        lines = [(rank, line) for rank in range(4) for line in compare(Facts.of(run, rank))]
        assert {what.what for _, what in lines} >= {"parameters", "activations", "all_reduce"}
        assert [(rank, line) for rank, line in lines if line.unexplained] == []


def test_the_ledger_tells_what_goes_along_each_axis(on_four_ranks):
    run = on_four_ranks[0]["runs"]["fsdp × tensor None"]
    page = Page.from_dict(run.summary["ledger"][0])
    # f and g in each of nano's four blocks, forward and backward, at the embedding and the output
    # layer: 18 all-reduces of 6 windows of 8 positions; the loss needs three numbers for each
    assert page.along["all_reduce along tensor"].payload == 4 * 48 * (18 * 128 + 3)
    assert {name: tally.calls for name, tally in page.along.items() if "reduce" in name} == {
        "all_reduce along tensor": 21, "all_reduce along data × tensor": 1,
        "reduce_scatter along data": 5,
    }  # fmt: skip
    assert "all_gather along data" in page.table()
    setup = Facts.of(run).setup()
    assert setup is not None
    rows = {(row.collective, row.carries): row for row in estimate(setup).traffic}
    assert rows["all_reduce", "f and g"].payload == 4 * 48 * 18 * 128
    assert rows["reduce_scatter", "gradients"].payload == 4 * Facts.of(run).part


def test_checkpoints_go_from_mesh_to_mesh(on_four_ranks, own_folder, story):
    assert_close(on_four_ranks[0]["chain"], single(story, "whole", steps=8))


@pytest.mark.parametrize("name", ["tensor over data", "fsdp × tensor"])
def test_a_stopped_run_is_resumed_with_the_same_bits(on_four_ranks, name):
    resumed, whole = on_four_ranks[0]["stopped"][name], on_four_ranks[0]["runs"][f"{name} None"]
    assert resumed["losses"] == figures(whole)["losses"]
    assert resumed["held_out"] == figures(whole)["held_out"]


def test_tensor_ranks_drop_the_same_of_what_is_whole_and_their_own_of_their_heads(on_four_ranks):
    inside, after = zip(*(found["masks"] for found in on_four_ranks), strict=True)
    assert after[0] == after[1] and inside[0] != inside[1]
    assert len({*inside[0], *inside[1], *after[0]}) == 6  # two blocks: nothing is drawn twice


def test_all_ranks_skip_a_step_that_overflowed_in_one_part(on_four_ranks):
    assert [found["overflow"] for found in on_four_ranks] == [[(True, True)] * 2] * 4


def test_rows_of_query_key_and_value_stay_with_their_heads():
    rows = torch.arange(24)[:, None]  # 8 rows each of query, key and value; four heads of 2
    own = together(rows, 2).flatten().tolist()
    assert own[:12] == [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19]
    assert torch.equal(apart(together(rows, 4), 4), rows)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"model": "nano", "mesh": "tensor=3"},
            "nano has 4 heads, which 3 tensor ranks cannot share equally; use 1, 2 or 4",
        ),
        ({"task": "images"}, "among 2 ranks, and a ResNet has none"),
        ({"model": "hf:somewhere"}, "hf:somewhere is loaded by transformers; use strategy fsdp"),
        ({"mesh": "pipeline=2"}, "strategy tensor has no axis pipeline, which is 2 in the mesh"),
        ({"shard_ranks": 2}, "shard_ranks 2 has no effect with strategy tensor; leave it out, or"),
    ],
)
def test_what_cannot_be_divided_is_refused(settings, sentence):
    asked = RunConfig(**{"task": "text", "strategy": "tensor", **settings})
    ranks = 3 if "3" in (asked.mesh or "") else 2
    with pytest.raises(BadInput, match=sentence):
        Tensor.check(asked, ranks)


def test_context_parallelism_is_unavailable_with_a_remedy():
    with pytest.raises(Unavailable, match=r"no operator for a CPU .* use strategy tensor, or"):
        Context.check(RunConfig("text", strategy="context"), 4)
