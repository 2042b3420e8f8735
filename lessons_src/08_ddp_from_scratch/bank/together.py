"""More answers to `train_together`, for the tests alone."""

from ..exercises.together import BACKWARD, DIVIDE, START, SUM

N = "dist.get_world_size()"
EACH = f"for p in model.parameters():\n        {START}"  # words of the solution
STATES = """states = [model.state_dict()]
    dist.broadcast_object_list(states, 0)
    model.load_state_dict(states[0])"""

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
]  # fmt: skip
ALSO_RIGHT = [{SUM: f"dist.all_reduce(p.grad.div_({N}))", DIVIDE: ""}, {EACH: STATES}]
