"""More answers to `train_step`, for the tests alone."""

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
ALSO_WRONG = [
    ("eval_mode", {"    model.train()\n": ""}),
    ("twice", {BACK: BACK.replace("()", "(retain_graph=True)") + BACK}),
    ("own_optimizer", {STEP: BY_HAND}),
    ("no_backward", {BACK: ""}),
    ("no_step", {STEP: ""}),
    ("step_first", {BACK + STEP: STEP + BACK}),
    ("cleared", {CLEAR: "", BACK: BACK + CLEAR}),
    ("loss_after", {"loss.item()": f"{LOSS}.item()"}),
    ("loss_sum", {"loss.item()": "loss.item() * len(y)"}),
    ("loss_other", {"loss.item()": "loss.item() / len(y)"}),
    ("unrecognised", {"(x), y)": "(x), y) / 3"}),
    ("graph", {"loss.item()": "loss"}),
    ("none", {"return loss": "loss"}),
    ("no_number", {"loss.item()": 'f"{loss:.3f}"'}),
    ("many", {"loss.item()": "loss.detach().repeat(len(y))"}),
]
ALSO_RIGHT = [
    {LOSS: "-model(x).log_softmax(1)[torch.arange(len(y)), y].mean()",
     "optimizer.zero_grad()": "model.zero_grad(set_to_none=False)", "loss.item()": "loss.detach()"},
    {CLEAR: "", BACK: BY_AUTOGRAD, STEP: STEP + CLEAR, "loss.item()": "float(loss)"},
]  # fmt: skip
