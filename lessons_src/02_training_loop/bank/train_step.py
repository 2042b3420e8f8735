"""More answers to `train_step`, for the tests alone."""

from torch.nn import functional as F

CLEAR, BACK, STEP = "    optimizer.zero_grad()\n", "    loss.backward()\n", "    optimizer.step()\n"
LOSS = "F.cross_entropy(model(x), y)"
BY_HAND = """\
    with torch.no_grad():
        for p in model.parameters():
            p -= optimizer.param_groups[0]["lr"] * p.grad
"""
BY_AUTOGRAD = """\
    weights = list(model.parameters())
    for p, g in zip(weights, torch.autograd.grad(loss, weights)):
        p.grad = g
"""
BY_CLOSURE = """\
    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
"""
# The colleague's step of the lesson, healed one mistake after the other.
FORWARD = "loss = F.cross_entropy(model(x), y)"


def hers(body, returned, first=FORWARD):
    """A step of these lines, written anew."""

    def step(model, optimizer, x, y):
        lines = "\n".join(
            (
                "def own(model, optimizer, x, y):",
                f"    {first}",
                *(f"    {line}" for line in body.split("; ")),
                f"    return {returned}",
            )
        )
        names = {"F": F}
        exec(lines, names)
        return names["own"](model, optimizer, x, y)

    return step


ALSO_WRONG = [
    (
        "graph",
        hers(
            "optimizer.step(); loss.backward(); optimizer.zero_grad()",
            "F.cross_entropy(model(x), y)",
        ),
    ),
    (
        "step_first",
        hers(
            "optimizer.step(); loss.backward(); optimizer.zero_grad()",
            "F.cross_entropy(model(x), y).item()",
        ),
    ),
    ("cleared", hers("loss.backward(); optimizer.zero_grad(); optimizer.step()", "loss.item()")),
    (
        "loss_after",
        hers(
            "loss.backward(); optimizer.step(); optimizer.zero_grad()",
            "F.cross_entropy(model(x), y).item()",
        ),
    ),
    # two mistakes are told one by one: here the mode first, and then the old gradients
    ("eval_mode", hers("loss.backward(); optimizer.step(); optimizer.zero_grad()", "loss.item()")),
    (
        "no_zero_grad",
        hers(
            "loss.backward(); optimizer.step(); optimizer.zero_grad()",
            "loss.item()",
            f"model.train(); {FORWARD}",
        ),
    ),
    ("eval_mode", {"    model.train()\n": ""}),
    ("twice", {BACK: BACK.replace("()", "(retain_graph=True)") + BACK}),
    ("own_optimizer", {STEP: BY_HAND}),
    ("not_by_optimizer", {STEP: "    torch.optim.SGD(model.parameters(), lr=0.1).step()\n"}),
    ("no_backward", {BACK: ""}),
    ("no_step", {STEP: ""}),
    ("step_first", {BACK + STEP: STEP + BACK}),
    ("cleared", {CLEAR: "", BACK: BACK + CLEAR}),
    ("loss_after", {"loss.item()": f"{LOSS}.item()"}),
    (
        "loss_eval",
        {
            "model.train()": f"model.eval()\n    own = {LOSS}.item()\n    model.train()",
            "loss.item()": "own",
        },
    ),
    (
        "unrecognised",
        {f"{CLEAR}": "", f"    {FORWARD}\n{BACK}{STEP}": BY_CLOSURE.replace("y)", "y) / 3")},
    ),
    ("loss_sum", {"loss.item()": "loss.item() * len(y)"}),
    ("loss_other", {"loss.item()": "loss.item() / len(y)"}),
    ("loss_rounded", {"loss.item()": "round(loss.item(), 3)"}),
    ("loss_after_eval", {STEP: f"{STEP}    model.eval()\n", "loss.item()": f"{LOSS}.item()"}),
    ("unrecognised", {"(x), y)": "(x), y) / 3"}),
    (
        "passes",
        {f"{BACK}{STEP}": f"{BACK}    own = {LOSS}.item()\n{STEP}", "loss.item()": "own"},
    ),
    ("graph", {"loss.item()": "loss"}),
    ("none", {"return loss": "loss"}),
    ("no_number", {"loss.item()": 'f"{loss:.3f}"'}),
    ("many", {"loss.item()": "loss.detach().repeat(len(y))"}),
    ("many", {"loss.item()": "loss.detach().repeat(len(y)).numpy()"}),
]
ALSO_RIGHT = [
    {LOSS: "-model(x).log_softmax(1)[torch.arange(len(y)), y].mean()",
     "optimizer.zero_grad()": "model.zero_grad(set_to_none=False)", "loss.item()": "loss.detach()"},
    {CLEAR: "", BACK: BY_AUTOGRAD, STEP: STEP + CLEAR, "loss.item()": "float(loss)"},
    {CLEAR: "", f"    {FORWARD}\n{BACK}{STEP}": BY_CLOSURE},
    {"loss.item()": "loss.detach().float()"},
    {"loss.item()": "loss.detach().reshape(1).numpy()"},
]  # fmt: skip
