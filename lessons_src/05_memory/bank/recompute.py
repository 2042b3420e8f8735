"""More answers to `checkpoint`, for the tests alone."""

import torch
from torch.utils.checkpoint import checkpoint as torchs

from ..exercises.recompute import BACK, RETURN, START, checkpoint


def keeps_the_graph(block, x):
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x.detach().requires_grad_()
            with torch.enable_grad():
                ctx.y = block(ctx.x)
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, gradient):
            ctx.y.backward(gradient)
            return ctx.x.grad

    return Keep.apply(x)


def by_gradients(line):
    """Asks for all gradients at once, and stores them."""
    return {
        BACK: "x_grad, *rest = torch.autograd.grad(y, [x, *block.parameters()], gradient)\n"
              f"            for p, grad in zip(block.parameters(), rest):\n                {line}",
        RETURN: "return x_grad",
    }  # fmt: skip


ALSO_WRONG = [
    ("no_graph", {"torch.enable_grad(), ": ""}),
    ("no_start", {BACK: "y.backward()"}),
    ("no_way_back", {BACK: "pass", RETURN: "return gradient"}),
    ("no_input", {RETURN: "return x.detach().grad"}),
    ("graph_used", {BACK: f"{BACK}, {BACK}"}),
    ("second_time", {
        START: "", BACK: f"by_x = torch.autograd.grad(y, x, gradient, True)[0], {BACK}",
        RETURN: "return by_x[0]"}),
    ("endless", {"y = block(x)": "y = Recompute.apply(x)"}),
    ("overwritten", by_gradients("p.grad = grad")),
    ("gradients", {BACK: "y.backward(0.5 * gradient)"}),
    ("nothing_saved", keeps_the_graph),
    ("forward_dice", lambda block, x: torchs(block.eval(), x, use_reentrant=False)),
    ("cut", {"return Recompute.apply(x)": "with torch.no_grad():\n        return block(x)"}),
    ("no_tensor", lambda block, x: (checkpoint(block, x), x)),
]  # fmt: skip
ALSO_RIGHT = [
    lambda block, x: torchs(block, x, use_reentrant=False),
    lambda block, x: torchs(block, x, use_reentrant=True),
    by_gradients("p.grad = grad if p.grad is None else p.grad + grad"),
]

# A whole cell of the exercise, as it would be pasted.
PASTED = """def checkpoint(block, x):
    dice = torch.get_rng_state()

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return block(x)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
{how}
            return x.grad

    return Recompute.apply(x)
"""
LADDER = (
    PASTED.format(how="            block(x).backward(gradient)"),
    PASTED.format(how="            y = block(x)\n            y.backward(gradient)"),
)
