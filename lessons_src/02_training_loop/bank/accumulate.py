"""More answers to `accumulate`, for the tests alone."""

from ..exercises.accumulate import ADD, WEIGHT

BACK, RETURN, LOOP = "loss.backward()", "return total", "for x, y in micro_batches"


def report(number):
    """The right gradient, and another loss: of a micro-batch's mean `loss.item() * count / n`."""
    return {ADD: f"n = len(y); mean = loss.item() * count / n; total = {number}"}


ONE_GRAPH = {f"{BACK}\n        {ADD}": "total = total + loss",
             RETURN: "total.backward()\n    return total.item()"}  # fmt: skip
ALSO_WRONG = [
    ("gradient", {LOOP: f"{LOOP}[::2]"}),
    ("no_backward", {f"        {BACK}\n": ""}),
    ("no_backward", {RETURN: f"model.zero_grad()\n    {RETURN}"}),
    ("own_loss", {"loss_fn(model": "F.cross_entropy(model"}),
    ("gradient", {BACK: "(0 * loss).backward()"}),
    ("rounded", {BACK: "(loss * (1 + 3e-8)).backward()"}),
    ("changed", {RETURN: f"micro_batches.clear()\n    {RETURN}"}),
    ("eval_left", {RETURN: f"model.eval()\n    {RETURN}"}),
    ("loss_rounded", {RETURN: "return round(total, 3)"}),
    ("loss_rounded", {RETURN: "return round(total, 1)"}),
    ("moved", {RETURN: f"torch.optim.SGD(model.parameters(), lr=0.1).step()\n    {RETURN}"}),
    ("all_at_once", ONE_GRAPH),
    ("all_at_once", {LOOP: "for x, y in [map(torch.cat, zip(*micro_batches))]"}),
    ("loss_mean_of_means", report("total + mean / len(micro_batches)")),
    ("loss_added", report("total + mean")),
    ("loss_last_only", report("mean")),
    ("loss_sum", report("total + mean * n")),
    ("loss_other", report("total + mean / 2")),
    ("loss_other", report("total + (mean * n / count if y is not micro_batches[0][1] else 0)")),
    ("eval_inside", {LOOP: f"model.eval()\n    {LOOP}"}),
    (
        "passes",
        {ADD: "with torch.no_grad():\n            total += loss_fn(model(x), y) * len(y) / count"},
    ),
    ("graph", {"loss.item()": "loss"}),
    ("none", {RETURN: "total"}),
    ("many", {RETURN: "return torch.full((6,), total)"}),
    ("no_number", {RETURN: "return [total]"}),
]
ALSO_RIGHT = [
    # divides afterwards
    {WEIGHT: "len(y)",
     RETURN: f"for p in model.parameters():\n        p.grad /= count\n    {RETURN} / count"},
    {f"{BACK}\n        {ADD}": f"""weights = list(model.parameters())
        for p, g in zip(weights, torch.autograd.grad(loss, weights)):
            p.grad = g if p.grad is None else p.grad + g
        {ADD}"""},
    {"loss.item()": "loss.detach().float()"},
]  # fmt: skip
RARE = {"apart"}

CELL = """\
def accumulate(model, loss_fn, micro_batches):
    total = 0.0
    for x, y in micro_batches:
        loss = loss_fn(model(x), y) {divided}
        loss.backward()
        total += loss.item()
    return total"""
LADDER = (
    CELL.format(divided="/ len(micro_batches)"),
    CELL.format(divided="* (1 / len(micro_batches))"),
)
