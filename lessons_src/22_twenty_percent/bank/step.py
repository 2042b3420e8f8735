"""More answers to `faster_step`, for the tests only."""

import torch
import torch.distributed as dist

from dtlib.learn.solutions import altered

from ..exercises.step import QUIET, faster_step

(CONTEXT,) = QUIET
ADDED, SUM = "total + loss.detach()", "dist.all_reduce(total)"
MEAN = "total / dist.get_world_size()"
WITH, LOSS = f"with {CONTEXT}:", "loss = loss_fn(model(x), y) / len(micro_batches)"
EACH = "[dist.all_reduce(p.grad, dist.ReduceOp.AVG) for p in model.parameters()]"


def all_of_them_at_once(model, optimizer, loss_fn, micro_batches):
    batch = [torch.cat(part) for part in zip(*micro_batches, strict=True)]
    return faster_step(model, optimizer, loss_fn, [batch])


def one_backward(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad()
    loss = sum(loss_fn(model(x), y) for x, y in micro_batches) / len(micro_batches)
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach())
    return loss.detach() / dist.get_world_size()


# Right.
def first_all_but_the_last(model, optimizer, loss_fn, micro_batches):
    optimizer.zero_grad(set_to_none=True)
    *early, (x, y) = micro_batches
    losses = []
    with model.no_sync():
        for a, b in early:
            loss = loss_fn(model(a), b) / len(micro_batches)
            loss.backward()
            losses.append(loss.detach())
    loss = loss_fn(model(x), y) / len(micro_batches)
    loss.backward()
    total = torch.stack([*losses, loss.detach()]).sum()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    optimizer.step()
    return total


def by_hand_in_one_message(model, optimizer, loss_fn, micro_batches):
    total = torch.zeros((), dtype=torch.float64)
    for x, y in micro_batches:
        loss = loss_fn(model.module(x), y) / len(micro_batches)
        loss.backward()
        total += loss.detach()
    params = list(model.parameters())
    flat = torch.cat([total.flatten(), *(p.grad.flatten() for p in params)])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    parts = flat[1:].split([p.numel() for p in params])
    for p, part in zip(params, parts, strict=True):
        p.grad = part.view_as(p)
    optimizer.step()
    optimizer.zero_grad()
    return flat[0]


own_loss = altered(faster_step, {SUM: "", MEAN: "total"})


def every_loss_to_every_rank(*given):
    own = own_loss(*given)
    everyone = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, own)
    return torch.stack(everyone).mean()


def gathers_objects(*given):
    own, everyone = own_loss(*given), [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own)
    return torch.stack(everyone).mean()


PADDED = {
    "dist.all_reduce(flat)": "flat = torch.cat([flat, torch.zeros(20)]); dist.all_reduce(flat)",
    "flat[1:]": "flat[1:-20]",
}
# the lesson's step as it was before
SLOW = {
    CONTEXT: "contextlib.nullcontext()",
    f"total = {ADDED}": f"""everyone = loss.detach().clone()
        {SUM.replace("total", "everyone")}
        total += everyone.item() / dist.get_world_size()""",
    f"    {SUM}\n    optimizer": "    optimizer",
    MEAN: "total",
}
ALSO_WRONG = [
    ("every_micro_batch", {CONTEXT: "contextlib.nullcontext()"}),
    ("forward_outside", {f"{WITH}\n            {LOSS}": f"{LOSS}\n        {WITH}"}),
    ("loss_messages", {SUM: "", "total = total": "dist.all_reduce(loss.detach()); total = total"}),
    ("loss_messages", gathers_objects),
    ("gradients_twice", {"optimizer.step()": f"{EACH}; optimizer.step()"}),
    ("one_by_one", {**QUIET, "optimizer.step()": f"{EACH}; optimizer.step()"}),
    ("reads", {ADDED: "total + loss.item()", SUM: f"total = torch.tensor(total); {SUM}"}),
    ("reads", {ADDED: "total + loss.tolist()", SUM: f"total = torch.tensor(total); {SUM}"}),
    ("read_once", {MEAN: f"({MEAN}).item()"}),
    ("read_once", {MEAN: f"torch.tensor(({MEAN}).cpu().numpy())"}),
    ("not_a_tensor", {MEAN: f"float(__import__('numpy').from_dlpack({MEAN}))"}),
    ("extra_calls", {"optimizer.step()": "dist.barrier(); optimizer.step()"}),
    ("no_step", {"optimizer.step()": ""}),
    ("steps", {"loss.backward()": "loss.backward(); optimizer.step()"}),
    ("none", {f"return {MEAN}": ""}),
    ("kind", {MEAN: f"[{MEAN}]"}),
    ("shape", {MEAN: "torch.stack([total, total])"}),
    ("every_micro_batch", SLOW),
    ("all_at_once", all_of_them_at_once),
    ("all_at_once", one_backward),
    ("unrecognised", altered(by_hand_in_one_message, PADDED)),
]
HANG = [("waits", {SUM: f"if dist.get_rank() == 0: {SUM}"})]
ALSO_RIGHT = [
    every_loss_to_every_rank,
    first_all_but_the_last,
    by_hand_in_one_message,
    {"with ": "model.require_backward_grad_sync = last\n        with ",
     CONTEXT: "contextlib.nullcontext()"},
]  # fmt: skip
