"""More answers to `ddp_loss`, for the tests alone."""

import torch
import torch.distributed as dist

# Words of the solution.
SUM = "losses.sum()"
RETURN = "return losses"


def reduces_the_loss(losses):
    total, count = losses.sum(), torch.tensor(float(len(losses)))
    everywhere = total.detach().clone()
    dist.all_reduce(everywhere)
    dist.all_reduce(count)
    return (total + (everywhere - total.detach())) / count


def without_the_graph(losses):
    both = torch.tensor([losses.sum(), float(len(losses))])
    dist.all_reduce(both)
    return (both[0] / both[1]).requires_grad_()


# Right.
def weighs_its_mean(losses):
    share = torch.tensor(float(len(losses)))
    dist.all_reduce(share)
    share = len(losses) / share
    mean = losses.mean() if len(losses) else losses.sum()
    return mean * share * dist.get_world_size()


def gathers_counts(losses):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, len(losses))
    return losses.sum() / (sum(counts) / len(counts))


ALSO_WRONG = [
    ("divided_twice", reduces_the_loss),
    ("early", {RETURN: f"if not len(losses):\n        return torch.tensor(0.0)\n    {RETURN}"}),
    ("detached", {SUM: "losses.sum().item()"}),
    (
        "early",
        {RETURN: f"if not len(losses):\n        return count.requires_grad_()\n    {RETURN}"},
    ),
    ("early", {RETURN: f"if not len(losses): return count.requires_grad_() * 0\n    {RETURN}"}),
    ("detached", without_the_graph),
    ("vector", {SUM: "losses"}),
    ("none", {RETURN: "losses"}),
]
ALSO_RIGHT = [weighs_its_mean, gathers_counts]
