"""Tasks: what each rank sees, and an evaluation that counts every sample once."""

import functools
import itertools
import math

import pytest
import torch
from torch.nn import functional as F

from dtlib import data, launch
from dtlib.config import RunConfig
from dtlib.data.batches import DeviceImages
from dtlib.errors import BadInput
from dtlib.ranks import dist
from dtlib.strategies.single import Single
from dtlib.training import tasks
from dtlib.training.tasks.base import Task
from dtlib.training.tasks.images import Images, linear_accuracy
from dtlib.training.tasks.text import Text

ALONE = dist.World(0, 0, 1, 1, torch.device("cpu"), None)


@pytest.fixture(scope="module", autouse=True)
def _little_work():
    """Draw pictures once, hold back a short text, and keep to one core, which others share."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data.pictures, "_block", functools.cache(data.pictures._block))
        patch.setitem(data.text.GRAMMAR_TOKENS, "valid", 1003)
        yield
    torch.set_num_threads(threads)


def place(rank: int, world_size: int) -> dist.World:
    return dist.World(rank, rank, world_size, world_size, torch.device("cpu"), "gloo")


def small(task: str = "text", **settings) -> RunConfig:
    sizes = {"num_samples": 24, "global_batch": 8}
    sizes |= {"max_length": 8} if task == "text" else {"width": 8}
    return RunConfig(task, **{**sizes, **settings}).resolved("cpu")


@pytest.fixture(scope="module")
def text() -> Text:
    return Text(small(), ALONE)


@pytest.fixture(scope="module")
def pictures() -> Images:
    return Images(small("images"), ALONE)


def seen(config: RunConfig, world_size: int, steps: int) -> list[torch.Tensor]:
    """Return the inputs of the first global batches, put together from all ranks."""
    plan = config.plan(world_size)
    kind = tasks.find(config.task)
    streams = [kind(config, place(rank, world_size)).steps(plan, 0) for rank in range(world_size)]
    whole = []
    for _ in range(steps):
        by_rank = [next(stream) for stream in streams]
        turns = [by_rank[r][a] for a in range(plan.accumulation) for r in range(world_size)]
        whole.append(torch.cat([inputs for inputs, _ in turns]))
    return whole


@pytest.mark.parametrize("task", ["text", "images"])
def test_one_rank_and_four_see_the_same_samples(task):
    alone = seen(small(task), 1, steps=4)
    for world_size, accumulation in ((1, 2), (2, 1), (4, 2)):
        several = seen(small(task, accumulation=accumulation), world_size, steps=4)
        assert all(map(torch.equal, alone, several))


# field bug 1.01
def test_an_epoch_shows_every_sample_once_and_the_next_in_another_order(text):
    plan = small().plan(1)
    indices = [share.indices for share in itertools.islice(text.shares(plan, 0), 6)]
    first, second = torch.cat(indices[:3]), torch.cat(indices[3:])
    assert first.sort().values.tolist() == second.sort().values.tolist() == list(range(24))
    assert first.tolist() != second.tolist()


# field bug 1.11
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_every_rank_has_equally_many_steps_and_micro_batches(world_size, text):
    plan = small(global_batch=16).plan(world_size)  # 24 samples: the last 8 wait for a new order
    assert text.steps_per_epoch(plan) == 1
    for rank in range(world_size):
        task = Text(small(global_batch=16), place(rank, world_size))
        sizes = [[len(x) for x, _ in step] for step in itertools.islice(task.steps(plan, 0), 3)]
        assert sizes == [[16 // world_size]] * 3


@pytest.mark.parametrize("task", ["text", "images"])
def test_the_stream_can_be_taken_up_at_any_step(task):
    config = small(task)
    plan = config.plan(1)
    whole = list(itertools.islice(tasks.find(task)(config, ALONE).steps(plan, 0), 5))
    rest = list(itertools.islice(tasks.find(task)(config, ALONE).steps(plan, 2), 3))
    for one, other in zip(whole[2:], rest, strict=True):
        assert all(map(torch.equal, one[0], other[0]))


def test_the_dataloader_hands_over_the_same_pictures():
    device = seen(small("images", accumulation=2), 2, steps=4)
    loader = seen(small("images", accumulation=2, loader="dataloader", workers=1), 2, steps=4)
    assert all(map(torch.equal, device, loader))


@pytest.mark.parametrize("task", ["text", "images"])
def test_too_little_data_is_refused_with_the_numbers(task):
    config = small(task, global_batch=64)
    with pytest.raises(BadInput, match=r"hold 24 .*, fewer than the global batch of 64"):
        tasks.find(task)(config, ALONE).steps_per_epoch(config.plan(1))


def test_unknown_models_are_refused():
    with pytest.raises(BadInput, match=r"model 'resnet-18'; .*18-narrow\. Did you mean 'resnet18'"):
        Images.check(RunConfig("images", model="resnet-18"))
    with pytest.raises(BadInput, match=r"'nona' is not offered; choose from nano"):
        Text.check(RunConfig("text", model="nona"))
    with pytest.raises(BadInput, match="max_length 65 exceeds the context of nano, which is 64"):
        Text.check(RunConfig("text", model="nano", max_length=65))


class Few(Task):
    """Held-out samples in batches of two: the class of x is 1, and the model says x > 0."""

    sample, unit, metric, held_out_loss = "numbers", "numbers/s", "accuracy", "loss"

    def __init__(self, config: RunConfig, world: dist.World, correct: list[int]) -> None:
        super().__init__(config, world)
        self.model = torch.nn.Identity()
        self.correct = torch.tensor(correct, dtype=torch.float32)
        self.scored: list[int] = []

    @classmethod
    def check_data(cls, config):
        raise NotImplementedError

    def train_batches(self, shares):
        raise NotImplementedError

    def evaluation_batches(self) -> int:
        return math.ceil(len(self.correct) / 2)

    def evaluation_batch(self, number: int):
        self.scored.append(number)
        part = self.correct[2 * number : 2 * number + 2]
        return torch.stack([1 - part, part], dim=-1), torch.ones(len(part), dtype=torch.long)

    def figures(self, loss: float, accuracy: float):
        return {"loss": loss, "accuracy": accuracy}


def score(correct: list[int]) -> tuple[dict[str, float], list[int]]:
    config = RunConfig("text", global_batch=12)
    few = Few(config, dist.world(), correct)
    world = dist.world()
    strategy = Single(config, world, config.plan(world.world_size))
    strategy.module = few.model
    return few.evaluate(strategy), few.scored


# field bugs 1.02 and 1.03
@pytest.mark.parametrize("correct", [[1, 0, 0, 0, 0], [1] * 7 + [0] * 3, [1]])
def test_evaluation_counts_every_sample_once_at_any_number_of_ranks(correct):
    """One right in five is 0.2, where a padded share for two ranks would say 2/6."""
    alone, batches = score(correct)
    assert alone["accuracy"] == sum(correct) / len(correct)
    for ranks in (2, 3, 4):
        found = launch(score, correct, ranks=ranks, timeout=20)
        assert sorted({number for _, scored in found for number in scored}) == batches
        # a sharded model gathers its weights in each batch, so every rank has equally many
        assert {len(scored) for _, scored in found} == {math.ceil(len(batches) / ranks)}
        for there, _ in found:
            assert there["accuracy"] == alone["accuracy"]
            assert there["loss"] == pytest.approx(alone["loss"], rel=1e-12)


def evaluated(task: Task) -> dict:
    strategy = Single(task.config, ALONE, task.config.plan(1))
    strategy.prepare(task.model, lambda model: torch.optim.SGD(model.parameters()))
    return task.evaluate(strategy)


def test_perplexity_scores_every_token_but_the_first_once(text):
    found = evaluated(text)
    tokens = text.data.valid
    with torch.inference_mode():
        text.model.eval()
        losses = [
            F.cross_entropy(
                text.model(tokens[i : i + 8][None])[0, : len(tokens) - 1 - i],
                tokens[i + 1 : i + 9],
                reduction="none",
            )
            for i in range(0, len(tokens) - 1, 8)
        ]
    every = torch.cat(losses)
    assert found["valid_tokens"] == len(every) == len(tokens) - 1
    assert found["valid_loss"] == pytest.approx(every.double().mean().item(), rel=1e-6)
    assert found["valid_perplexity"] == pytest.approx(math.exp(found["valid_loss"]))
    assert "windows of 8 tokens" in found["protocol"]


def test_an_untrained_model_is_above_the_grammars_own_loss(text):
    found = evaluated(text)
    assert found["valid_loss"] > found["best_loss_on_this_text"]
    gap = abs(found["best_loss_on_this_text"] - found["entropy"])
    assert gap < 4 * found["sampling_error"]  # one in 16,000 texts is further off
    assert found["sampling_error"] > 0


def test_accuracy_is_over_all_test_pictures(pictures):
    found = evaluated(pictures)
    with torch.inference_mode():
        x, labels = pictures.test.batch(torch.arange(len(pictures.test)))
        hits = (pictures.model.eval()(x).argmax(1) == labels).sum().item()
    assert found["test_samples"] == 2000
    assert found["test_accuracy"] == hits / 2000


def test_a_linear_model_is_fitted_beside(pictures):
    assert pictures.extras() == {}
    one_colour = torch.zeros(40, 3, 32, 32, dtype=torch.uint8)
    one_colour[::2] = 200  # bright pictures are class 1: a linear model can tell
    labels = (torch.arange(40) % 2 == 0).long()
    grey = (0.4, 0.4, 0.4)
    plain = data.ImageData(one_colour, labels, ("dark", "bright"), grey, grey, "a test")
    assert linear_accuracy(DeviceImages(plain), DeviceImages(plain)) == 1.0


@pytest.mark.parametrize("task", ["text", "images"])
def test_weights_follow_from_the_seed_alone(task):
    config = small(task)
    kind = tasks.find(task)
    torch.manual_seed(1)
    one = kind(config, place(0, 2)).model.state_dict()
    torch.manual_seed(2)
    other = kind(config, place(1, 2)).model.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)
    third = kind(small(task, seed=1), place(0, 2)).model.state_dict()
    assert any(not torch.equal(one[name], third[name]) for name in one)
