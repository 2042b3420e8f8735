"""More answers to `train_together`, for the tests alone."""

import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from ..exercises.together import BACKWARD, DIVIDE, START, STEP, SUM

N = "dist.get_world_size()"
EACH = f"for p in model.parameters():\n        {START}"  # words of the solution
STATES = """states = [model.state_dict()]
    dist.broadcast_object_list(states, 0)
    model.load_state_dict(states[0])"""


def wraps_it_in_ddp(model, optimizer, batches):
    wrapped = DistributedDataParallel(model)
    for x, y in batches:
        optimizer.zero_grad()
        F.mse_loss(wrapped(x), y).backward()
        optimizer.step()


def averages_the_loss(model, optimizer, batches):
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        dist.all_reduce(loss)
        loss /= dist.get_world_size()
        loss.backward()
        optimizer.step()


def in_another_order(model, optimizer, batches):
    params = list(model.parameters())
    for p in params:
        dist.broadcast(p.data, src=0)
    for x, y in batches:
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        for p in params if dist.get_rank() else params[::-1]:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        optimizer.step()


ALSO_WRONG = [
    ("start", {START: "pass", DIVIDE: ""}),
    # gathers, and adds
    ("sum", {SUM: f"parts = [p.grad.clone() for _ in range({N})]",
             DIVIDE: "dist.all_gather(parts, p.grad); p.grad.copy_(sum(parts))"}),
    ("literal", {DIVIDE: "p.grad /= 3"}),
    ("clone", {SUM: f"dist.all_reduce(p.grad / {N})", DIVIDE: ""}),
    ("loss", {BACKWARD: f"loss.data /= {N}; dist.all_reduce(loss.data); {BACKWARD}",
              SUM: "pass", DIVIDE: ""}),
    ("reduce", {SUM: f"dist.reduce(p.grad.div_({N}), 0)", DIVIDE: ""}),
    # averages all but the last step
    ("drift", {SUM: f"if x is batches[-1][0] and len(batches) > 1:\n                break\n"
                    f"            {SUM}"}),
    ("drift", {"in batches:": "in batches[:1]:"}),
    ("torchs_own", wraps_it_in_ddp),
    ("loss", averages_the_loss),
    # the right average, after the step that needed it
    ("clone", {STEP: "", BACKWARD: f"{BACKWARD}; {STEP}"}),
    ("never_waited", {SUM: "work = dist.all_reduce(p.grad, async_op=True)",
                      DIVIDE: f"p.grad = p.grad / {N}"}),
    ("mismatch", in_another_order),
]  # fmt: skip
WAITS = f"dist.all_reduce(p.grad.div_({N}), async_op=True).wait()"
ALSO_RIGHT = [
    {SUM: WAITS, DIVIDE: ""},
    {SUM: f"dist.all_reduce(p.grad.div_({N}))", DIVIDE: ""},
    {EACH: STATES},
]
