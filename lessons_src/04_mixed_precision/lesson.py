# %% [raw]
# ---
# number: "04"
# title: Mixed precision
# does: take fp16, bf16 and fp8 apart bit by bit; scale a loss by hand
# objectives:
#   - read a format's bits, and say where it ends and how coarse it is
#   - keep fp16 gradients alive by loss scaling, skip and clip included
#   - choose a format for weights, products and sums, and see what a machine
#     really does with it
# minutes: {read: 30, exercises: 48}
# needs: [laptop]
# builds_on: ["00", "02"]
# ---

# %% [markdown]
# By its data sheet an H100 (SXM) computes at 67 TFLOP/s in fp32 and at 989 in
# 16 bits. You change one word in your script, and it is fast, and soon
# its loss is `nan`; or it runs, and learns next to nothing. **Which numbers
# got lost, and how do you keep them?**
#
# You read numbers bit by bit, build the loss scaling that keeps small
# gradients alive, and prove it equal to torch's. Exercises 1 and 2 are the
# core and fit an hour with the reading; 3 to 5 are *stretch*. The last one
# is a patient: a program that trains badly, for you to heal.

# %%
from dtlib import learn

learn.start("04")

# %% [markdown]
# The first three numbers are for the run near the end, `matrix` is the size
# of the products that are timed. With `device = "cuda"` and larger numbers
# these parts run on a GPU.

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
# First comes the **sign**, then the **exponent**, which says how large the
# number is, then the **mantissa**, which says which of the numbers of that
# size. Formats differ in how many bits each part gets. Here is −0.1 in five.

# %%
import torch

torch.set_num_threads(1)  # for so small tensors more of them only wait
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
# Compare the first two rows: **bf16** is the front half of fp32, rounded. It
# reaches as far and is much coarser. **fp16** has three bits more of
# mantissa and three fewer of exponent. The two kinds of **fp8** have names
# that count their bits: e4m3 is 4 of exponent and 3 of mantissa.
#
# Worked case, the fp16 row. The exponent `01011` is 11, and a fixed **bias**
# of 15 is taken from it, so that small numbers have a code, too. The mantissa
# `1001100110` is 614 of 1024: that is the *fraction*, and a hidden 1, which
# is never written, stands before it.

# %%
-1 * (1 + 614 / 1024) * 2.0 ** (11 - 15)

# %% [markdown]
# Two exponents mean something else:
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
# ●○○ *10 minutes.* The fields are taken apart for you. Return the value as a
# float, by the rules of the table.

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
# distance from 1 is called **eps**. e4m3 breaks the rules: it gives up
# infinity, uses the largest exponent for numbers, and so ends at 448
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
import matplotlib.pyplot as plt
from lesson.pictures import draw_curves, draw_limits

draw_limits(reach)
plt.show()

# %%
learn.table(
    [[name, *(f"{v:.4g}" for v in row)] for name, row in reach.items()],
    ["format", "largest", "smallest normal", "smallest", "eps"],
    "How far five formats reach, read from their bits",
)

# %% [markdown]
# fp16 covers 40 powers of two, bf16 more than 250. Watch fp16 end on both
# sides: 65520 lies half-way between 65504, its largest, and the 65536 that
# it does not have, and $10^{-8}$ is less than half of its smallest.

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
# After 1 the next number of bf16 is 1.0078. 0.001 is less than half of the
# way, so every sum is rounded back. fp16 sees a step, though a rounded one.
#
# So the two lose different things. fp16 loses **what is too small or too
# large**, and that hits gradients. bf16 loses **small differences**, up to
# eight times as large as those that fp16 loses, and that hits weights. We
# take them in turn.
#
# ## Gradients that fp16 loses
#
# `nano`, the small GPT of this course, goes backward once, in fp32. Hooks,
# functions that torch calls on the way, catch the gradient at the output of
# every linear layer. Trained in fp16, it would have these in 16 bits.

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
plt.show()


# %%
def fate(scale):
    """Shares that are 0, that have lost digits, that are infinite, in %."""
    cast = (gradients * scale).half()
    worn = (cast > 0) & (cast < torch.finfo(torch.float16).smallest_normal)
    shares = (cast == 0, worn, cast.isinf())
    return [100 * share.double().mean().item() for share in shares]


learn.table(
    [[f"2^{k}", *(f"{v:.2f}" for v in fate(2**k))] for k in range(0, 33, 8)],
    ["times", "0, %", "fewer digits, %", "infinite, %"],
    f"What fp16 makes of nano's {len(gradients):,} gradients other than 0",
)

# %%
harmed = sum(fate(1))
learn.my_run("nano's gradients that fp16 harms", harmed, "%")
assert sum(fate(2**16)) < harmed

# %% [markdown]
# Left alone, many of them lose digits, and some vanish. Moved to the right
# nearly all fit, and a power of two moves them without a change of digits. It
# is done in one place: **a loss that is multiplied by $S$ has gradients that
# are.** Too far, and they fall off the other end.
# How wide is the safe range for gradients that are smaller, or more spread?

# %%
learn.what_if("lost_gradients")

# %% [markdown]
# ## Loss scaling
#
# Worked case: one fp32 weight, used in fp16, with a gradient of $10^{-8}$.
# The loss is multiplied by $S$ before `backward`. The gradient arrives at
# the fp32 weight, and only there it is divided by $S$
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
# Which $S$? As large as it goes, found by trying: **dynamic loss scaling**.
# This is the rule of torch's `GradScaler`
# (https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling):
#
# - If any gradient is infinite or nan, $S$ was too large. **The step is
#   skipped**: the optimizer is not called. $S$ is halved.
# - After `growth_interval` good steps in a row $S$ is doubled, and the count
#   starts again. A bad step sets the count back to 0.
#
# ## Exercise 2: a step with a scale
#
# ●●○ *12 minutes.* `weights` hold scaled gradients in `.grad`, or `None`
# where a weight was not used. Divide them by `scale`, then step or skip, and
# return two numbers: the scale of the next step, and how many good steps
# there are in a row now (`good` is how many there were).


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
# Does it hold in training? A small network under fp16, once with your step
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
draw_curves(scales, "step", "loss scale", base=2)
plt.show()

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
# Skipped steps are the method at work and no fault; the longer the interval,
# the fewer. A learning-rate schedule should not move on with them, since no
# step was taken. `dtlib.scratch.loss_scaling` has all of it as one class.
#
# ## Weights that bf16 loses
#
# bf16 reaches as far as fp32, so its gradients need no scale. But a weight
# of 1 cannot take a step of 0.001. The usual remedy: the optimizer keeps the
# weights in fp32 (**master weights**), the model computes with a 16-bit copy.
#
# ## Exercise 3: the master remembers
#
# ●●○ *8 minutes, stretch.* `low` is the model's bf16 copy, `master` its fp32
# original, `gradient` is bf16. Take a step of plain SGD. Change both tensors
# in place, since model and optimizer hold on to them.


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
# Fit eight numbers by small steps: with bf16 weights alone, with a master
# above them, and in fp32.

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
draw_curves(fits, "step", "mean squared error", base=10)
plt.show()

# %%
learn.table(
    [[kind, *(fits[kind][k] for k in (0, 499, 1499))] for kind in fits],
    ["weights", "step 1", "step 500", "step 1500"],
    "Mean squared error",
)

# %%
assert fits["bf16 alone"][-1] > 10 * fits["bf16 and master"][-1]

# %% [markdown]
# bf16 alone stalls where a step is less than half the way to the next
# number. With a master the steps add up in fp32; only the gradient and the
# copy are rounded. Its 4 bytes a parameter are part of the 12 in the
# 2 + 2 + 12 of the ZeRO paper (https://arxiv.org/abs/1910.02054).
#
# ## Who decides? autocast
#
# `torch.autocast` leaves the weights in fp32, so they are their own masters,
# and picks a format **for each operation**. Run some and look: `x` is fp32,
# `low` comes from a matrix product.

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
# Products go down to 16 bits, losses come up to fp32, most others take what
# they get. **The list depends on the device**: on CUDA `softmax`,
# `layer_norm` and `sum` come up to fp32, too. Both lists stand in
# https://docs.pytorch.org/docs/stable/amp.html. Autocast goes around forward
# and loss; `backward` follows what forward did.
#
# ## Which hardware has what
#
# Peaks by the makers' own sheets, for ordinary (dense) matrices. Where there
# is a dash, the sheet has no such number.

# %%
from dtlib.sim.hardware import DEVICES

columns = "fp32", "fp16", "bf16", "fp8"
rows = []
for key in ("v100", "a100-80", "h100", "b200", "mi300x", "rtx3090"):
    peak = DEVICES[key]["peak"]
    cited = (f"{peak[c] / 1e12:.4g}" if c in peak else "–" for c in columns)
    rows.append([DEVICES[key]["title"], *cited, DEVICES[key]["source"]])
learn.table(rows, ["device", *columns, "source"], "TFLOP/s, cited")

# %% [markdown]
# A V100 has no bf16 (https://github.com/pytorch/pytorch/pull/129288). But
# `torch.cuda.is_bf16_supported()` counts **emulation**: on an older GPU it
# asks no more than whether a bf16 tensor can be made
# (https://github.com/pytorch/pytorch/blob/v2.14.0/torch/cuda/__init__.py#L231).
# With `including_emulation=False` it asks for the chip's own. "Supported" is
# not "fast". A CPU runs both 16-bit formats, too: what does a product cost
# here, with the one thread that the first cells asked for?

# %%
from statistics import median
from time import perf_counter

a = torch.randn(matrix, matrix, device=device)
operands = {name: a.to(TYPES[name]) for name in ("fp32", "bf16", "fp16")}
turns = {name: [] for name in operands}
for _ in range(1 + 9):  # the first turn warms up
    for name, a in operands.items():
        begin = perf_counter()
        (a @ a)[0, 0].item()  # a number on the CPU: the device is done
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
# not, and says nothing. **Time one product before you choose.**
#
# ## For real
#
# nano, three times. `bf16` and `fp16` are autocast over fp32 weights, fp16
# with loss scaling. Drawn as they are, the three curves of the loss would be
# one line; so the picture shows how far two of them are from fp32's.

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
draw_curves(apart, "step", "distance from fp32", base=10)
plt.show()

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
# Over these steps all three learn alike. fp16 is the finer one, by three
# bits, as long as its scale keeps it in range. bf16 does without a scale.
#
# ## Eight bits
#
# e4m3 covers 2⁻⁹ to 448, less than many a tensor needs. In the simplest
# recipe each tensor gets a scale of its own, kept in fp32, by which its
# largest size (**amax**) becomes 448. A loss scale would be one for all.
# Do not rely on what lies beyond: torch's cast gave nan up to version 2.11,
# and gives 448 since (https://github.com/pytorch/pytorch/pull/178817).

# %% tags=["stretch"]
beyond = torch.tensor([448.0, 464.0, 500.0, 1e6])
beyond.to(torch.float8_e4m3fn).float().tolist()

# %% [markdown]
# ## Exercise 4: one scale a tensor
#
# ●●○ *8 minutes, stretch.* Return `(stored, scale)`: `stored` is e4m3 with
# an amax of 448, and `stored.float() / scale` is `x` again, as well as fp8
# can say it. Leave `x` as it is. Zeros must come back as zeros.


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
# nano's gradients again, cast to e4m3: how many are left with a scale?

# %% tags=["stretch"]
stored, scale = learn.given("to_fp8")(gradients)
plain = gradients.to(torch.float8_e4m3fn).float()
kept = [(part != 0).double().mean().item() for part in (plain, stored.float())]
print(f"without a scale {kept[0]:.1%}, with {float(scale):.3g}: {kept[1]:.1%}")
assert kept[0] < kept[1]

# %% [markdown]
# ## The patient
#
# A colleague fits a line with loss scaling, and clips: a gradient longer than
# 1, over all weights together, is shortened to 1, so that no single step goes
# astray. "Something is wrong with my scale", she says. Her log:

# %%
from lesson.exercises import patient

scales = 1, 64, 1024, 65536
log = [patient.run(scale) for scale in scales]
learn.table(log, patient.COLUMNS, "40 steps of the patient, lr 0.1")

# %% [markdown]
# A scale should change nothing. Which number in a row gives it away? Name
# the line that you suspect, before you read the program.

# %%
import inspect

print(inspect.getsource(patient.step))

# %% [markdown]
# ## Exercise 5: heal it
#
# ●●○ *10 minutes, stretch.* `scaler` is this course's `LossScaler` or torch's
# `GradScaler`: both have `scale(loss)`, `unscale_(optimizer)`,
# `step(optimizer)`, `update()`. Return the gradient's true length, from
# before the clip.


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
learn.table(log, patient.COLUMNS, "The same, healed")

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Exponent bits say how far a format reaches, mantissa bits how finely.
#   fp16 loses what is small or large, bf16 loses small differences.
# - fp16 needs a loss scale, in this order: scale, backward, **unscale, clip,
#   step or skip**, update.
# - Weights live in fp32, products run in 16 bits, losses come in fp32.
# - "Supported" may mean emulated. Time one product on the machine itself.

# %%
learn.take_away()
