# %% [raw]
# ---
# number: "04"
# title: Mixed precision
# does: take fp16, bf16 and fp8 apart bit by bit; scale a loss by hand
# objectives:
#   - read a format's bits, and say where it ends and how coarse it is
#   - keep fp16 gradients alive by loss scaling, skip and clip included
#   - choose a format for weights, products and sums, TF32 and block-scaled
#     ones included, and see what a machine really does with it
# minutes: {read: 35, exercises: 48}
# needs: [laptop]
# builds_on: ["00", "02"]
# ---

# %% [markdown]
# According to its data sheet, an H100 (SXM) computes at 67 TFLOP/s in fp32
# and at 989 in 16 bits. You change one word in your script. Now it is fast,
# but soon its loss is `nan`, or it runs and learns next to nothing. **Which
# numbers got lost, and how do you keep them?**
#
# You read numbers bit by bit, build the loss scaling that keeps small
# gradients alive, and prove it equal to torch's. Exercises 1 and 2 are the
# core and fit into an hour with the reading; 3 to 5 are *stretch*. In the last
# one you debug a patient, a program that trains badly.

# %%
from dtlib import learn

learn.start("04")

# %%
from lesson.pictures import draw_fields, draw_question

draw_question()

# %% [markdown]
# The first three numbers set the size of the run near the end; `matrix` is
# the size of the products that are timed. With `device = "cuda"` and larger
# numbers, these parts run on a GPU.

# %% tags=["parameters"]
steps = 20
global_batch = 4
window = 16
matrix = 384
device = "cpu"

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("thousand_steps")

# %%
learn.predict("half_speed")

# %%
learn.predict("nearer")

# %% [markdown]
# ## A number is a row of bits
#
# First comes the **sign**, then the **exponent**, which gives the power of
# two, and then the **mantissa**, which places the number between that power
# and the next. Formats differ in how many bits each part gets. Here is −0.1 in
# five of them.

# %%
import torch

torch.set_num_threads(1)  # more threads don't help tensors this small
TYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "e5m2": torch.float8_e5m2,
    "e4m3": torch.float8_e4m3fn,
}
EXPONENT_BITS = {"fp32": 8, "bf16": 8, "fp16": 5, "e5m2": 5, "e4m3": 4}


def fields(x, name):
    """The bits of x as text: sign, exponent, mantissa."""
    width, e = torch.finfo(TYPES[name]).bits, EXPONENT_BITS[name]
    whole = {8: torch.uint8, 16: torch.int16, 32: torch.int32}[width]
    row = torch.tensor(x).to(TYPES[name]).view(whole).item() % 2**width
    text = f"{row:0{width}b}"
    return f"{text[0]} {text[1 : 1 + e]} {text[1 + e :]}"


learn.table(
    [
        [name, fields(-0.1, name), f"{torch.tensor(-0.1).to(dtype):.10g}"]
        for name, dtype in TYPES.items()
    ],
    ["format", "sign, exponent, mantissa", "which is"],
    "−0.1 in five formats",
)

# %% [markdown]
# Here are the bits of the formats of this lesson, to scale:

# %%
draw_fields()

# %% [markdown]
# Compare the first two rows of the table: **bf16** is the front half of fp32,
# rounded. It reaches as far and is much coarser. **fp16** has three more bits
# of mantissa than bf16 and three fewer of exponent. The names of the two kinds
# of **fp8** count their bits: e4m3 has 4 bits of exponent and 3 of mantissa.
#
# A worked example, the fp16 row. The exponent `01011` is 11. A fixed **bias**
# of 15 is subtracted from it, so that small numbers get an exponent, too. The
# mantissa `1001100110` is 614 of 1024: that is the *fraction*. A hidden 1,
# which is never stored, stands before it.

# %%
-1 * (1 + 614 / 1024) * 2.0 ** (11 - 15)

# %% [markdown]
# Two exponents have a special meaning:
#
# | exponent | mantissa | value |
# | --- | --- | --- |
# | all zeros | any | fraction · 2^(1 − bias), no hidden 1: **subnormal** |
# | all ones | 0 | infinity |
# | all ones | not 0 | nan, *not a number* |
# | any other | any | (1 + fraction) · 2^(exponent − bias) |
#
# Subnormal numbers fill the gap down to 0 in even steps: the smaller they
# are, the fewer digits they have left.
#
# ## Exercise 1: read the bits
#
# ●○○ *10 minutes.* The stub separates the fields for you. Return the value as
# a float, by the rules of the table.

# %% tags=["exercise"]
import math


def decode(bits, exponent_bits, mantissa_bits):
    """The value of a row of bits, which comes as a whole number."""
    fraction = bits % 2**mantissa_bits / 2**mantissa_bits
    exponent = bits // 2**mantissa_bits % 2**exponent_bits
    sign = -1 if bits >> (exponent_bits + mantissa_bits) else 1
    bias = 2 ** (exponent_bits - 1) - 1
    ### BEGIN SOLUTION
    if exponent == 2**exponent_bits - 1:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)
    ### END SOLUTION


# %% tags=["check"]
learn.check("decode", decode)

# %% [markdown]
# ## How far, and how finely
#
# Four rows of bits tell what a format can do: the last before infinity, the
# first with a hidden 1, the first above zero, and the one after 1.0, whose
# distance from 1 is called **eps**. e4m3 breaks the rules: it has no infinity,
# uses the largest exponent for ordinary numbers, and so ends at 448
# (https://arxiv.org/abs/2209.05433).

# %%
from lesson import formats

value = learn.given("decode")
reach = {}
for name in ("fp32", "bf16", "fp16", "e5m2"):
    e = EXPONENT_BITS[name]
    m = torch.finfo(TYPES[name]).bits - 1 - e
    infinity, one = (2**e - 1) << m, (2 ** (e - 1) - 1) << m
    rows = infinity - 1, 1 << m, 1, one + 1
    largest, normal, smallest, after_one = (value(row, e, m) for row in rows)
    reach[name] = [largest, normal, smallest, after_one - 1]
reach["e4m3"] = list(formats.limits("e4m3").values())
for name, (largest, normal, _, eps) in reach.items():
    info = torch.finfo(TYPES[name])
    assert [largest, normal, eps] == [info.max, info.smallest_normal, info.eps]

# %%
from lesson.pictures import draw_curves, draw_limits

draw_limits(reach)

# %%
learn.table(
    [[name, *(f"{v:.4g}" for v in row)] for name, row in reach.items()],
    ["format", "largest", "smallest normal", "smallest", "eps"],
    "How far five formats reach, read from their bits",
)

# %% [markdown]
# fp16 covers 40 powers of two, bf16 more than 250. Watch fp16 end on both
# sides: 65520 lies halfway between 65504, its largest number, and 65536, which
# it does not have; $10^{-8}$ is less than half of its smallest number.

# %%
ends = torch.tensor([65504.0, 65519.0, 65520.0, 1e-7, 1e-8]).half()
assert ends[2] == math.inf and ends[4] == 0
ends.tolist()

# %% [markdown]
# ## What a coarse format cannot see
#
# Now your first prediction: 1 + 0.001, a thousand times.

# %%
sums = {}
for name in ("fp32", "fp16", "bf16"):
    x = torch.ones((), dtype=TYPES[name])
    for _ in range(1000):
        x += 0.001
    sums[name] = x.item()
learn.measured("thousand_steps", sums["bf16"])
assert sums["bf16"] == 1
sums

# %% [markdown]
# In bf16, the next number after 1 is 1.0078. A step of 0.001 is less than half
# of the way there, so every sum is rounded back to 1. fp16 does move, though
# by a rounded step.
#
# So the two formats lose different things. fp16 loses **what is too small or
# too large**, which affects gradients. bf16 loses **small differences**, up to
# eight times as large as those that fp16 loses, which affects weights. You
# fix the two in turn.
#
# ## Gradients that fp16 loses
#
# `nano`, the small GPT of this course, runs backward once, in fp32. **Hooks**,
# functions of yours that torch calls on the way, record the gradient at the
# output of every linear layer. In fp16 training these gradients have 16 bits.

# %%
from dtlib.data import open_text
from dtlib.models import gpt

text = open_text("grammar", seed=0, size=8 * 64 + 1)
model = gpt.GPT(gpt.shape("nano", vocab_size=text.tokenizer.vocab_size))
caught = []


def catch(module, inputs, output):
    output.register_hook(lambda gradient: caught.append(gradient.flatten()))


for module in model.modules():
    if isinstance(module, torch.nn.Linear):
        module.register_forward_hook(catch)
tokens, targets = text.train[:-1].long(), text.train[1:].long()
logits = model(tokens.view(8, 64)).flatten(0, 1)
torch.nn.functional.cross_entropy(logits, targets).backward()
gradients = torch.cat(caught).abs()
gradients = gradients[gradients > 0]

# %%
from lesson.pictures import draw_gradients

draw_gradients(gradients, (1, 2**16))


# %%
def fate(scale):
    """Shares that are 0, have lost digits, and are infinite, in %."""
    cast = (gradients * scale).half()
    worn = (cast > 0) & (cast < torch.finfo(torch.float16).smallest_normal)
    shares = (cast == 0, worn, cast.isinf())
    return [100 * share.double().mean().item() for share in shares]


learn.table(
    [[f"2^{k}", *(f"{v:.2f}" for v in fate(2**k))] for k in range(0, 33, 8)],
    ["times", "0, %", "fewer digits, %", "infinite, %"],
    f"What becomes of nano's {len(gradients):,} non-zero gradients in fp16",
)

# %%
harmed = sum(fate(1))
learn.my_run("nano's gradients that fp16 harms", harmed, "%")
assert sum(fate(2**16)) < harmed

# %% [markdown]
# Without a scale, many of them lose digits, and some vanish. Moved to the
# right, nearly all of them fit, and multiplying by a power of two changes no
# digit. It takes one line: **if you multiply the loss by $S$, every gradient
# is multiplied by $S$.** Move them too far, and they overflow at the other
# end. How wide is the safe range for gradients that are smaller, or more
# spread out?

# %%
learn.what_if("lost_gradients")

# %% [markdown]
# ## Loss scaling
#
# A worked example: one fp32 weight, used in fp16, with a gradient of
# $10^{-8}$. The loss is multiplied by $S$ before `backward`. The gradient is
# divided by $S$ only once it has arrived at the fp32 weight
# (https://arxiv.org/abs/1710.03740).


# %%
def gradient_with(scale):
    w = torch.ones(1, requires_grad=True)
    loss = (w.half() * 1e-4).float().sum() * 1e-4
    (loss * scale).backward()
    return w.grad.item() / scale


assert gradient_with(1) == 0 < gradient_with(1024)
gradient_with(1), gradient_with(1024)

# %% [markdown]
# Which $S$ do you take? The largest that works, found by trial and error: this
# is **dynamic loss scaling**. torch's `GradScaler` follows this rule
# (https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling):
#
# - If any gradient is infinite or nan, $S$ was too large. **The step is
#   skipped**: the optimizer is not called. $S$ is halved.
# - After `growth_interval` good steps in a row, $S$ is doubled, and the count
#   starts again at 0. A skipped step also resets the count to 0.
#
# ## Exercise 2: a step with a scale
#
# ●●○ *12 minutes.* `weights` hold scaled gradients in `.grad`, or `None`
# where a weight was not used. Divide them by `scale`, then step or skip.
# Return two numbers: the scale for the next step, and the new count of good
# steps in a row (`good` is the count so far).


# %% tags=["exercise"]
def scaled_step(weights, optimizer, scale, good, growth_interval):
    """Take a step, or skip it; return the next (scale, good)."""
    ### BEGIN SOLUTION
    gradients = [w.grad for w in weights if w.grad is not None]
    finite = all(g.isfinite().all() for g in gradients)
    for g in gradients:
        g /= scale
    if not finite:
        return scale / 2, 0
    optimizer.step()
    if good + 1 == growth_interval:
        return scale * 2, 0
    return scale, good + 1
    ### END SOLUTION


# %% tags=["check"]
learn.check("scaled_step", scaled_step)

# %% [markdown]
# Does it work in training? Train a small network in fp16, once with your step
# and once with torch's `GradScaler`. The interval is 4 here, so that you see
# the scale grow until it is too large; torch's default is 2000.

# %%
step_by_hand = learn.given("scaled_step")
torch.manual_seed(0)
x, y = torch.randn(64, 16), torch.randn(64, 1)


def network():
    torch.manual_seed(1)
    layers = torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    model = torch.nn.Sequential(*layers)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def backward(model, optimizer, scale):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = torch.nn.functional.mse_loss(model(x), y)
    (loss * scale).backward()


(mine, my_steps), (theirs, their_steps) = network(), network()
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=4)
scales = {"by hand": [2.0**14], "GradScaler": [2.0**14]}
scale, good = 2.0**14, 0
for _ in range(80):
    backward(theirs, their_steps, scaler.scale(torch.ones(())))
    scaler.step(their_steps)
    scaler.update()
    backward(mine, my_steps, scale)
    weights = list(mine.parameters())
    scale, good = step_by_hand(weights, my_steps, scale, good, 4)
    scales["by hand"].append(float(scale))
    scales["GradScaler"].append(scaler.get_scale())
    assert all(map(torch.equal, weights, theirs.parameters()))
assert scales["by hand"] == scales["GradScaler"]

# %%
draw_curves(
    "The scale grows until a step has to be skipped, and is halved",
    scales,
    "step",
    "loss scale",
    base=2,
)

# %%
changes = list(zip(scales["by hand"], scales["by hand"][1:]))
skipped = sum(after < before for before, after in changes)
learn.table(
    [
        [k, *(line[k - 1] for line in scales.values())]
        for k in (1, 21, 41, 61, 81)
    ],
    ["before step", *scales],
    f"80 steps, {skipped} of them skipped",
)

# %% [markdown]
# **The same scale and the same weights after every step, bit for bit.**
# Skipped steps are part of the method, not an error; the longer the interval,
# the fewer of them. A learning-rate schedule should not advance in a skipped
# step. `dtlib.scratch.loss_scaling` has all of this in one class.
#
# ## Weights that bf16 loses
#
# bf16 reaches as far as fp32, so its gradients need no scale. But a bf16
# weight of 1 cannot take a step of 0.001. The usual remedy: the optimizer
# keeps the weights in fp32 (**master weights**), and the model computes with a
# 16-bit copy. A worked example: one weight takes six steps of 0.001, in bf16
# alone (`alone`) and with a master.

# %%
alone = torch.tensor(1.0).bfloat16()
master = torch.tensor(1.0)
rows = []
for k in range(1, 7):
    alone = alone + 0.001
    master = master + 0.001
    low = master.bfloat16()  # rounded, and the master is not
    rows.append([k, *(f"{w.item():.4f}" for w in (alone, master, low))])
assert (alone.item(), low.item()) == (1, 1.0078125)
learn.table(
    rows,
    ["step", "bf16 alone", "fp32 master", "its bf16 copy"],
    "One weight, six steps of 0.001",
)

# %% [markdown]
# The master remembers every step. Its copy jumps when the master has passed
# half the way to the next number of bf16. Where a step is itself the product
# of a rate and a bf16 gradient, the product must not be rounded to bf16,
# either.
#
# ## Exercise 3: the master remembers
#
# ●●○ *8 minutes, stretch.* `low` is the model's bf16 copy, `master` its fp32
# original, and `gradient` is bf16. Take a step of plain SGD. Change both
# tensors in place, because the model and the optimizer hold references to
# them.


# %% tags=["exercise", "stretch"]
def master_step(low, master, gradient, lr):
    """Move `master` by -lr · gradient in fp32, and renew `low` from it."""
    ### BEGIN SOLUTION
    master -= lr * gradient.float()
    low.copy_(master)
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("master_step", master_step)

# %% [markdown]
# Fit eight numbers in small steps: with bf16 weights alone, with bf16 weights
# and a master, and in fp32.

# %%
move = learn.given("master_step")
torch.manual_seed(0)
points, goal = torch.randn(256, 8), torch.linspace(-2, 2, 8)


def fit(kind, lr=0.002, count=1500):
    master, losses = torch.zeros(8), []
    low = master.clone() if kind == "fp32" else master.bfloat16()
    for _ in range(count):
        error = points @ (low.float() - goal)
        losses.append(error.square().mean().item())
        gradient = (points.T @ error / 128).to(low.dtype)
        if kind == "bf16 and master":
            move(low, master, gradient, lr)
        else:
            low -= lr * gradient
    return losses


fits = {kind: fit(kind) for kind in ("fp32", "bf16 and master", "bf16 alone")}
draw_curves(
    "bf16 weights alone stall; with an fp32 master they do not",
    fits,
    "step",
    "mean squared error",
    base=10,
)

# %%
learn.table(
    [[kind, *(fits[kind][k] for k in (0, 499, 1499))] for kind in fits],
    ["weights", "step 1", "step 500", "step 1500"],
    "Mean squared error",
)

# %%
assert fits["bf16 alone"][-1] > 10 * fits["bf16 and master"][-1]

# %% [markdown]
# bf16 alone stalls where a step is less than half the way to the next number.
# With a master, the steps add up in fp32; only the gradient and the copy are
# rounded. The master takes 4 bytes per parameter. They are part of the 12 in
# the ZeRO paper's 2 + 2 + 12 (https://arxiv.org/abs/1910.02054).
#
# ## Who decides? autocast
#
# `torch.autocast` leaves the weights in fp32, so they are their own masters,
# and picks a format **for each operation**. Run a few and look at the results:
# `x` is fp32, and `low` comes from a matrix product.

# %%
F = torch.nn.functional
OPERATIONS = """
x @ x
F.linear(x, x)
F.conv1d(x, x[:, :, None])
x + x
low + x
F.relu(low)
F.softmax(low, -1)
F.layer_norm(low, (8,))
low.sum()
F.cross_entropy(low, low)
F.mse_loss(low, x)
"""
x = torch.rand(8, 8, device=device)
with torch.autocast(device, dtype=torch.bfloat16):
    low = x @ x
    results = {s: eval(s).dtype for s in OPERATIONS.strip().splitlines()}
learn.table(
    [[code, str(kind)[6:]] for code, kind in results.items()],
    ["operation", "its result"],
    f"Under torch.autocast({device!r}, dtype=torch.bfloat16), here",
)

# %%
assert results["x @ x"] == results["F.linear(x, x)"] == torch.bfloat16
assert results["x + x"] == results["low + x"] == torch.float32
assert results["F.mse_loss(low, x)"] == torch.float32

# %% [markdown]
# Products run in 16 bits, losses in fp32, and most other operations keep the
# format of their inputs. **The list depends on the device**: on CUDA,
# `softmax`, `layer_norm` and `sum` run in fp32, too. You find both lists in
# https://docs.pytorch.org/docs/stable/amp.html. Put the forward pass and the
# loss under autocast; `backward` uses the formats of the forward pass.
#
# ## Which hardware has what
#
# These are peaks from the vendors' data sheets, for dense matrices. A dash
# means that the data sheet has no such number.

# %%
from dtlib.sim.hardware import DEVICES

columns = "fp32", "tf32", "fp16", "bf16", "fp8"
rows = []
for key in ("v100", "a100-80", "h100", "b200", "mi300x", "rtx3090"):
    peak = DEVICES[key]["peak"]
    cited = (f"{peak[c] / 1e12:.4g}" if c in peak else "–" for c in columns)
    rows.append([DEVICES[key]["title"], *cited, DEVICES[key]["source"]])
learn.table(rows, ["device", *columns, "source"], "TFLOP/s, cited")

# %% [markdown]
# **TF32** is a way to multiply fp32 tensors: the matrix unit reads each fp32
# number without the last 13 bits of its mantissa, so that 10 are left
# (https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html), and
# adds up in fp32. It reaches as far as fp32 and is as fine as fp16, and
# nothing in your program changes type. The next cell simulates it on the CPU:
# cut both matrices, multiply in fp32, and compare with fp64.


# %%
def to_tf32(x):
    """x with the last 13 bits of its mantissa set to 0."""
    return (x.view(torch.int32) & -(2**13)).view(torch.float32)


torch.manual_seed(0)
a = torch.randn(256, 256)
exact = a.double() @ a.double()
inputs = {
    "fp32": a,
    "TF32, simulated": to_tf32(a),
    "fp16, sums in fp32": a.half().float(),
    "bf16, sums in fp32": a.bfloat16().float(),
}
errors = {
    name: float((m @ m - exact).norm() / exact.norm())
    for name, m in inputs.items()
}
assert 1000 * errors["fp32"] < errors["TF32, simulated"] < 1e-3
learn.table(
    [[name, f"{error:.1e}"] for name, error in errors.items()],
    ["product of", "error"],
    "Products of 256 × 256 against fp64, relative",
)

# %% [markdown]
# Here the error of TF32 is thousands of times that of fp32, and a third of
# bf16's. (fp16 has as many bits of mantissa; its error is smaller because it
# rounds and does not cut.) By default, torch uses TF32 in cuDNN's convolutions
# and not in matrix products, which therefore reach at most 67 TFLOP/s on an
# H100. `torch.set_float32_matmul_precision("high")` allows TF32 there, too.

# %%
torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()

# %% [markdown]
# A V100 has no bf16 (https://github.com/pytorch/pytorch/pull/129288). But
# `torch.cuda.is_bf16_supported()` also counts **emulation**: on an older GPU
# it only checks whether a bf16 tensor can be created
# (https://github.com/pytorch/pytorch/blob/v2.14.0/torch/cuda/__init__.py#L231).
# With `including_emulation=False` it checks for hardware support. "Supported"
# does not mean "fast". A CPU runs both 16-bit formats, too. What does a
# product cost here, with the one thread that the first cells asked for?

# %%
from statistics import median
from time import perf_counter

a = torch.randn(matrix, matrix, device=device)
operands = {name: a.to(TYPES[name]) for name in ("fp32", "bf16", "fp16")}
turns = {name: [] for name in operands}
for _ in range(1 + 9):  # the first turn warms up
    for name, a in operands.items():
        begin = perf_counter()
        (a @ a)[0, 0].item()  # waits until the device has finished
        turns[name].append(perf_counter() - begin)
seconds = {name: median(found[1:]) for name, found in turns.items()}
learn.table(
    [[n, t * 1e3, seconds["fp32"] / t] for n, t in seconds.items()],
    ["format", "ms", "times as fast as fp32"],
    f"A product of {matrix} × {matrix} on {device} here, median of 9",
)

# %%
from dtlib.measure.noise import compare

slower = seconds["fp16"] / seconds["fp32"]
same = turns["fp32"][1:]  # nothing was changed between these
learn.measured("half_speed", slower, effect=compare(1 / slower, same))
faster = seconds["fp32"] / seconds["bf16"]
learn.my_run(
    "bf16 product, times as fast as fp32",
    faster,
    effect=compare(faster, same),
)

# %% [markdown]
# These ratios are your machine's. torch carries out each format, fast or
# slow, without a warning. **Time one product before you choose.**
#
# ## A real model
#
# Train nano three times. `bf16` and `fp16` use autocast over fp32 weights,
# fp16 with loss scaling. The three loss curves would look like one line, so
# the picture shows how far the other two are from fp32's.

# %%
import dtlib

losses = {}
for precision in ("fp32", "bf16", "fp16"):
    settings = dict(steps=steps, global_batch=global_batch, device=device)
    settings.update(precision=precision, max_length=window)
    run = dtlib.train("text", strategy="single", **settings)
    losses[precision] = [line["loss"] for line in run.history]

# %%
apart = {}
for name in ("bf16", "fp16"):
    pairs = zip(losses[name], losses["fp32"])
    apart[name] = [abs(a - b) / b for a, b in pairs]
draw_curves(
    "The losses of both 16-bit runs stay close to those of fp32",
    apart,
    "step",
    "relative distance",
    base=10,
)

# %%
learn.table(
    [
        [name, f"{c[0]:.5f}", f"{c[-1]:.5f}", median(apart.get(name, [0]))]
        for name, c in losses.items()
    ],
    ["precision", "first loss", "last loss", "distance from fp32"],
    f"nano, {steps} steps; distances of losses, relative, medians over steps",
)

# %%
learn.measured("nearer", median(apart["bf16"]) / median(apart["fp16"]))
assert max(map(max, apart.values())) < 0.05

# %% [markdown]
# Over these steps, all three learn equally well. fp16 is finer by three bits,
# as long as its scale keeps it in range. bf16 needs no scale.
#
# ## Eight bits, and four
#
# e4m3 covers 2⁻⁹ to 448, a smaller range than many tensors need. In the
# simplest recipe, each tensor gets its own scale, kept in fp32, which maps its
# largest absolute value (**amax**) to 448. (A loss scale is one number for all
# tensors.) Do not rely on values beyond 448: up to version 2.11 torch's cast
# turned them into nan, and since then it turns them into 448
# (https://github.com/pytorch/pytorch/pull/178817).

# %% tags=["stretch"]
beyond = torch.tensor([448.0, 464.0, 500.0, 1e6])
beyond.to(torch.float8_e4m3fn).float().tolist()

# %% [markdown]
# ## Exercise 4: one scale a tensor
#
# ●●○ *8 minutes, stretch.* Return `(stored, scale)`: `stored` is e4m3 with
# an amax of 448, and `stored.float() / scale` is as close to `x` as fp8
# allows. Do not change `x`. Zeros must come back as zeros.


# %% tags=["exercise", "stretch"]
def to_fp8(x):
    """x in e4m3, and the number that it was multiplied by."""
    ### BEGIN SOLUTION
    amax = x.abs().max().item()
    scale = 448 / amax if amax else 1.0
    return (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("to_fp8", to_fp8)

# %% [markdown]
# Cast nano's gradients to e4m3: how many survive without a scale, and with
# one?

# %% tags=["stretch"]
stored, scale = learn.given("to_fp8")(gradients)
plain = gradients.to(torch.float8_e4m3fn).float()
kept = [(part != 0).double().mean().item() for part in (plain, stored.float())]
print(f"without a scale {kept[0]:.1%}, with {float(scale):.3g}: {kept[1]:.1%}")
assert kept[0] < kept[1]

# %% [markdown]
# One **outlier**, a number far larger than the rest, takes the range away from
# all others of its tensor. **Block-scaled formats** limit the damage: every
# block of 16 or 32 neighbours shares a scale, stored in 8 bits of its own.
# That makes even **fp4** usable, e2m1 by its bits, which has eight sizes in
# all. Three are computed in hardware by NVIDIA's Blackwell GPUs:
#
# | format | numbers | block | scale of a block | bits per number |
# | --- | --- | --- | --- | --- |
# | MXFP8 | e4m3 | 32 | a power of two | 8 + 8/32 |
# | MXFP4 | e2m1 | 32 | a power of two | 4 + 8/32 |
# | NVFP4 | e2m1 | 16 | e4m3, over one fp32 scale per tensor | 4 + 8/16 |
#
# (The MX formats: https://arxiv.org/abs/2310.10537. NVFP4:
# https://arxiv.org/abs/2509.25149.) The next cell simulates them on the CPU,
# on drawn numbers around 0: first as they are, then with one outlier of
# 100,000.

# %% tags=["stretch"]
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def e4m3(x):
    return x.clamp(-448, 448).to(torch.float8_e4m3fn).float()


def e2m1(x):
    nearest = (x.abs()[..., None] - FP4).abs().argmin(-1)
    return x.sign() * FP4[nearest]


def power_of_two(amax, top):  # top: the exponent of the largest number
    return 2.0 ** (amax.log2().floor() - top)


def nv_scale(amax):
    unit = amax.max() / (448 * 6)  # the one scale of the tensor
    return e4m3(amax / 6 / unit).clamp(min=2**-9) * unit


whole = 2**16
recipes = {  # numbers, block, scale from the amax of every block
    "fp8, one scale": (e4m3, whole, lambda amax: amax / 448),
    "MXFP8": (e4m3, 32, lambda amax: power_of_two(amax, 8)),
    "fp4, one scale": (e2m1, whole, lambda amax: amax / 6),
    "MXFP4": (e2m1, 32, lambda amax: power_of_two(amax, 2)),
    "NVFP4": (e2m1, 16, nv_scale),
}


def stored_as(x, numbers, block, scale_of):
    rows = x.view(-1, block)
    scale = scale_of(rows.abs().amax(1, keepdim=True))
    return (numbers(rows / scale) * scale).view(-1)


torch.manual_seed(0)
drawn = torch.randn(whole)
spoilt = drawn.clone()
spoilt[0] = 100_000
rows = []
for name, recipe in recipes.items():
    error = []
    for x in (drawn, spoilt):
        apart = (stored_as(x, *recipe) - x)[1:]  # all but the outlier
        error.append(float(apart.norm() / x[1:].norm()))
    rows.append([name, *(f"{100 * e:.1f}" for e in error)])
learn.table(
    rows,
    ["format", "error, %", "with one outlier, %"],
    f"Errors of {whole - 1:,} numbers, relative, without the outlier's own",
)

# %% tags=["stretch"]
plain = {name: [*map(float, found)] for name, *found in rows}
assert plain["fp8, one scale"][1] > 3 * plain["MXFP8"][1]
assert plain["NVFP4"][0] < plain["MXFP4"][0] < plain["fp4, one scale"][0]

# %% [markdown]
# Without an outlier, blocks bring nothing in fp8: MXFP8 even has a slightly
# larger error, because its scales are powers of two and can leave up to half
# of the range unused. With an outlier, one scale spoils the whole tensor (in
# fp4 every other number becomes 0), and a block spoils only the outlier's
# neighbours. In four bits, blocks help in both cases, and NVFP4's smaller
# blocks and finer scales help most.

# %% [markdown]
# ## The patient
#
# A colleague fits a line with loss scaling, and she **clips**: if the gradient
# over all weights is longer than 1, it is shortened to length 1, so that no
# single step leads too far. "Something is wrong with my scale", she says. Her
# log:

# %%
from lesson.exercises import patient

scales = 1, 64, 1024, 65536
log = [patient.run(scale) for scale in scales]
learn.table(log, patient.COLUMNS, "40 steps of the patient, lr 0.1")

# %% [markdown]
# A loss scale should not change the result. Which column gives the mistake
# away? Say what you suspect before you read the program.

# %%
import inspect

print(inspect.getsource(patient.step))

# %% [markdown]
# A worked example on paper: the gradient (3, 4) has length 5, and the clip
# allows 1. At scale 8, `backward` leaves (24, 32). Clip and unscale in both
# orders:

# %%
scaled = torch.tensor([24.0, 32.0])


def clip(gradient):
    return gradient / max(1.0, gradient.norm().item())


print("clip, then unscale", clip(scaled) / 8)
print("unscale, then clip", clip(scaled / 8))

# %% [markdown]
# In the first order the step is 8 times too short, because the clip measured a
# length of 40. Two calls of a scaler hide the order: `unscale_(optimizer)`
# divides every `.grad` by the scale, and `step(optimizer)` does so as well,
# but only if nobody has called `unscale_` in this step.
#
# ## Exercise 5: fix it
#
# ●●○ *10 minutes, stretch.* `scaler` is this course's `LossScaler` or torch's
# `GradScaler`. Both have `scale(loss)`, `unscale_(optimizer)`,
# `step(optimizer)` and `update()`. Return the true length of the gradient,
# from before the clip.


# %% tags=["exercise", "stretch"]
def clipped_step(scaler, weights, optimizer, loss, max_norm):
    """Go backward, clip to `max_norm`, take a step; return the length."""
    ### BEGIN SOLUTION
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(weights, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm.item()
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("clipped_step", clipped_step)

# %% tags=["stretch"]
healed = learn.given("clipped_step")
log = [patient.run(scale, healed) for scale in scales]
last = [row[-1] for row in log]
assert max(last) < 1.001 * min(last)
learn.table(log, patient.COLUMNS, "The same, with your step")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Exponent bits set how far a format reaches, mantissa bits how fine it is.
#   fp16 loses what is very small or large, bf16 loses small differences.
# - fp16 needs a loss scale, in this order: scale, backward, **unscale, clip,
#   step or skip**, update.
# - Weights are kept in fp32, products run in 16 bits, losses are fp32. TF32
#   speeds up products of fp32 tensors, if you allow it.
# - In 8 and 4 bits, a scale for every block keeps one outlier from spoiling a
#   tensor.
# - "Supported" may mean emulated. Time one product on the machine itself.

# %%
learn.take_away()
