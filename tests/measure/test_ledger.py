"""The ledger on one process: bytes that are known by hand, counted once, and nothing disturbed."""

import math

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from dtlib.measure import ledger
from dtlib.measure.ledger.allocator import Allocations
from dtlib.measure.ledger.census import Census, WhileAlive
from dtlib.measure.ledger.collectives import Tally
from dtlib.measure.ledger.page import Page
from dtlib.measure.ledger.saved import SavedTensors

FLOAT = 4


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


PSI = 8 * 16 + 16 + 16 * 4 + 4


def step(page_of=lambda model, optimizer: (model, optimizer), optimizer=torch.optim.AdamW) -> Page:
    """Return the page of a second step, when the optimizer has its state, on 32 samples."""
    model, x = mlp(), torch.randn(32, 8)
    stepping = optimizer(model.parameters(), lr=1e-3)
    for _ in range(2):
        with ledger.watch(*page_of(model, stepping)) as page:
            model(x).sum().backward()
            stepping.step()
            stepping.zero_grad()
    return page


def test_bytes_of_an_mlp_are_those_counted_by_hand():
    page = step()
    assert page.between_steps["parameters"] == PSI * FLOAT == 848
    assert page.between_steps["gradients"] == 0
    assert page.before_update["gradients"] == page.most["gradients"] == PSI * FLOAT
    assert page.between_steps["optimizer"] == 2 * PSI * FLOAT
    assert page.between_steps["counters"] == 4 * FLOAT  # one number for each of four tensors
    # of 32 samples the input [8] and what ReLU let through [16] wait for backward, weights do not
    assert page.most["activations"] == 32 * (8 + 16) * FLOAT
    assert page.between_steps["padding"] == page.between_steps["fp32_copy"] == 0
    assert page.collectives == {}
    assert page.payload == page.gathered == 0


def test_sgd_without_momentum_holds_nothing_and_with_it_one_number_a_parameter():
    assert step(optimizer=torch.optim.SGD).between_steps["optimizer"] == 0

    def momentum(parameters, lr):
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9)

    assert step(optimizer=momentum).between_steps["optimizer"] == PSI * FLOAT


def test_buffers_and_the_census_of_all_else_count():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def other():
        with ledger.watch(model, optimizer) as page:
            model(torch.randn(8, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        # running mean and variance of 4 channels, and how many batches there were (int64)
        assert page.between_steps["buffers"] == 2 * 4 * FLOAT + 8
        return page.between_steps["other"]

    before = other()
    ballast = torch.zeros(1000)
    assert other() - before == ballast.numel() * FLOAT


def test_activations_rise_in_forward_and_are_gone_after_backward():
    page = step()
    saved = [moment[0] for moment in page.timeline]
    peak = saved.index(max(saved))
    assert saved[: peak + 1] == sorted(saved[: peak + 1])
    assert saved[peak:] == sorted(saved[peak:], reverse=True)
    assert saved[-1] == 0


def test_what_is_recomputed_is_not_kept():
    model, x = mlp(), torch.randn(32, 8, requires_grad=True)
    with SavedTensors(lambda storage: False) as saved:
        loss = checkpoint(model, x, use_reentrant=False).sum()
        assert saved.bytes == 32 * 8 * FLOAT  # its input: the region has hooks of its own
        loss.backward()
    with SavedTensors(lambda storage: False) as saved:
        model(x).sum().backward()
    assert saved.bytes == 0
    assert saved.most == 32 * (8 + 16) * FLOAT + (8 * 16 + 16 * 4) * FLOAT  # and both weights


def test_a_census_counts_views_once_and_calls_the_rest_of_a_storage_padding():
    flat = torch.zeros(100)
    census = Census()
    census.add("parameters", [flat[:30].view(5, 6), flat[20:50]])  # ten elements twice
    census.add("gradients", [flat[40:60], flat[40:60]])  # ten of them are parameters already
    census.close()
    assert census.bytes == {"parameters": 50 * 4, "gradients": 10 * 4, "padding": 40 * 4}
    assert census.on_host == census.bytes


def test_a_census_of_freed_and_strided_tensors():
    freed, strided = torch.zeros(10), torch.zeros(4, 4)[:, :2]
    freed.untyped_storage().resize_(0)
    census = Census()
    census.add("parameters", [freed, strided, torch.zeros(3, device="meta")])
    census.close()
    # rows of two out of four: from the first to the last element, fourteen
    assert census.bytes == {"parameters": 14 * 4, "padding": 2 * 4}


def test_a_storage_that_died_is_forgotten_though_its_number_is_given_out_again():
    one = torch.zeros(10)
    alive = WhileAlive([one.untyped_storage()])
    assert one.untyped_storage() in alive
    view = one[2:4]
    del one
    assert [s.nbytes() for s in alive] == [40]  # the view keeps it
    del view
    assert list(alive) == []
    fresh = [torch.zeros(10) for _ in range(50)]
    assert not any(tensor.untyped_storage() in alive for tensor in fresh)


def test_the_allocator_tells_the_most_at_once_but_where_a_profiler_runs_already():
    with Allocations(torch.device("cpu")) as seen:
        a = torch.empty(1000)
        b = torch.empty(500)
        del a
        c = torch.empty(700)
    assert seen.rise == 1500 * FLOAT
    assert b.numel() + c.numel() < 1500
    with torch.profiler.profile(), Allocations(torch.device("cpu")) as seen:
        torch.empty(1000)
    assert seen.rise is None


def test_peak_is_above_all_that_was_named():
    page = step()
    named = sum(page.between_steps.values())
    assert page.allocated == named
    assert page.peak >= named + page.most["activations"] - 32 * 8 * FLOAT  # the input was there


def test_a_watched_step_takes_the_same_step():
    def weights(watched):
        model, x = mlp(), torch.linspace(-1, 1, 256).view(32, 8)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(3):
            if watched:
                with ledger.watch(model, optimizer):
                    model(x).square().sum().backward()
                    optimizer.step()
            else:
                model(x).square().sum().backward()
                optimizer.step()
        return [p.detach() for p in model.parameters()]

    for one, other in zip(weights(True), weights(False), strict=True):
        assert torch.equal(one, other)


def test_compiled_code_stays_compiled_under_watch():
    calls = []

    def backend(graph, inputs):
        return lambda *given: calls.append(1) or graph(*given)

    model, x = mlp(), torch.randn(32, 8)
    compiled = torch.compile(model, backend=backend)
    compiled(x).sum().backward()
    before = len(calls)
    with ledger.watch(model) as page:
        compiled(x).sum().backward()
    assert len(calls) == before + 1
    assert page.most["activations"] == 32 * (8 + 16) * FLOAT


def test_the_optimizers_own_step_is_put_back():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ledger.watch(model, optimizer):
        pass
    assert "step" not in vars(optimizer)
    torch.optim.lr_scheduler.ConstantLR(optimizer)  # wraps step on the object
    wrapped = vars(optimizer)["step"]
    with pytest.raises(ZeroDivisionError), ledger.watch(model, optimizer):
        raise ZeroDivisionError
    assert vars(optimizer)["step"] is wrapped


def test_a_wrapper_and_its_model_are_counted_once():
    page = step(lambda model, optimizer: (nn.Sequential(model), model, optimizer))
    assert page.between_steps["parameters"] == PSI * FLOAT
    assert page.before_update["gradients"] == PSI * FLOAT


def test_whatever_says_itself_what_it_holds_is_asked():
    class Sharded:
        def __init__(self) -> None:
            self.flat, self.moment = torch.zeros(10), torch.zeros(6)

        def held(self):
            return {"parameters": [self.flat[:8]], "optimizer": [self.moment], "gradients": []}

        def step(self):
            self.grown = torch.zeros(3)

    with ledger.watch(Sharded()) as page:
        pass
    assert page.between_steps["parameters"] == 8 * FLOAT
    assert page.between_steps["padding"] == 2 * FLOAT
    assert page.between_steps["optimizer"] == 6 * FLOAT


def test_a_page_goes_through_plain_values_and_is_read_as_text():
    page = step()
    page.collectives = {"all_reduce": Tally(2, 848, 848.0)}
    again = Page.from_dict(page.to_dict())
    assert again == Page(**{**vars(page), "timeline": []})
    text = page.table()
    for words in ("parameters", "848", "before the update", "on a ring (derived)"):
        assert words in text
    assert "<th scope='row'>parameters</th><td>848</td>" in page._repr_html_()
    assert not math.isnan(page.peak)
