# %% [raw]
# ---
# number: "02"
# title: A training loop you can trust
# does: test a loop on one batch, seed it, accumulate exactly
# objectives:
#   - read a training loop line by line and test it on one batch
#   - seed every source of random numbers, and name what still differs
#   - accumulate micro-batches into exactly the gradient of the big batch
# minutes: {read: 30, exercises: 48}
# needs: [laptop]
# builds_on: ["00", "07"]
# ---

# %% [markdown]
# You change one line of a training script. Before, the model classified 61 %
# of the test pictures correctly; now it gets 64 %. **Did the line do that, was
# it luck, or is the loop wrong?**
#
# Before anything runs on a hundred GPUs, one process has to be right. Here
# you read its loop, catch planted bugs with a one-minute test, find out where
# random numbers come from, and make a big batch out of small ones. Exercises
# 1 and 3 are the core; 2, 4 and 5 are *stretch*.

# %%
from dtlib import learn

learn.start("02")

# %%
from lesson.pictures import draw_accumulation, draw_luck

draw_luck()

# %% [markdown]
# Each bar shows where the accuracy of a model may lie by the luck of its test
# pictures alone: two **standard errors** on either side. An accuracy is a
# share, counted on some pictures. Its standard error is how far it typically
# lies from the share that you would count on endlessly many. Whether two bars
# overlap does not settle the question: what counts is the standard error of
# the *difference*. Its formula is near the end.
#
# Near the end, `seeds` short runs of `steps` steps differ in nothing but their
# **seed**, the number that a random number generator starts from. If you have
# more time or a GPU, raise `steps`, or set `width` to the 64 channels of a
# full ResNet-18.

# %% tags=["parameters"]
steps = 12
seeds = 3
width = 8
device = "cpu"

# %% [markdown]
# ## Your predictions
#
# Commit all four before you go on.

# %%
learn.predict("first_loss")

# %%
learn.predict("two_workers")

# %%
learn.predict("threads")

# %%
learn.predict("last_picture")

# %% [markdown]
# ## The loop, line by line
#
# The data are computer-drawn pictures in ten classes, 3 × 32 × 32 numbers
# each. The model is a narrow ResNet-18, a network of 18 layers; the first ones
# keep `width` numbers (channels) for each pixel. `logits` holds ten numbers
# for each picture, one per class; the class with the largest is the answer.

# %%
import torch
from torch.nn import functional as F

from dtlib.data import open_images
from dtlib.models.resnet import resnet18

torch.set_num_threads(1)  # more threads don't help a model this small
data = open_images("pictures", "train", count=1000)
x = (data.pixels[:16] / 255 - 0.5).to(device)
y = data.labels[:16].to(device)
model = resnet18(width).to(device)
logits = model(x)
logits.shape, y

# %% [markdown]
# **Softmax** turns logits into probabilities that add up to 1.
# **Cross-entropy** is minus the logarithm of the probability that the right
# class got; with the natural logarithm its unit is the nat. A model that
# knows nothing gives each of the ten classes 1/10, so a first loss far from
# $\ln 10 \approx 2.30$ nats is an early sign that something is wrong.

# %%
import math

first_loss = F.cross_entropy(logits, y)
learn.measured("first_loss", first_loss.item())
assert abs(first_loss.item() - math.log(10)) < 0.2

# %% [markdown]
# `backward` **adds** the gradient to what each parameter's `.grad` already
# holds; it does not replace it. A worked example with one weight $w = 3$ and
# loss $w^2$, whose gradient is $2w = 6$:

# %%
w = torch.tensor(3.0, requires_grad=True)
sums = []
for _ in range(2):
    (w**2).backward()
    sums.append(w.grad.item())
sums

# %% [markdown]
# The second call left 12, not 6. So a loop has to clear `.grad`, with
# `optimizer.zero_grad()`, and it matters *when*.
#
# A model also has two modes, because some layers must do something else in
# training than in use. **Batch norm** shifts and scales each channel by its
# mean and its spread. After `model.train()` it takes these from the batch that
# it sees, and keeps running averages of them; after `model.eval()` it uses the
# running averages. **Dropout** sets a random part of its input to 0 in
# training, and does nothing in evaluation.
#
# ## What a loss keeps in memory
#
# A loss is a tensor with a **graph** behind it: a record of the operations
# that made it, with the **activations**, the intermediate results that
# `backward` will need. How much memory does a list of losses keep alive? It
# depends on whether `backward` ran. `kept_by_losses` counts what the graphs
# store, without the pictures and the weights, which are in memory anyway.

# %%
from lesson.kept import kept_by_losses

kept = [
    [
        words,
        *(kept_by_losses(model, x, y, k, use) / 1e6 for k in (1, 10)),
    ]
    for words, use in (
        ("nothing", lambda loss: None),
        ("loss.item()", lambda loss: loss.item()),
        ("loss.backward()", lambda loss: loss.backward()),
    )
]
learn.table(
    kept,
    ["what was called on each loss", "1 loss", "10 losses"],
    "Activations that a list of losses keeps alive, MB (10⁶ bytes)",
)

# %%
assert kept[0][2] > 9.9 * kept[0][1] > 0 == kept[2][2]
learn.my_run(
    "activations kept by ten losses without backward", kept[0][2], "MB"
)

# %% [markdown]
# `backward` frees the activations, even while you still hold the loss: what
# remains is the record of operations, without data. **A loss that never went
# backward keeps everything.** That is how a validation loop runs out of memory
# if it collects its losses as tensors and torch records their graphs
# (`torch.no_grad()`, below, turns that off). `.item()` frees nothing by
# itself; it hands you a plain number, so that you need not keep the tensor.
#
# ## Exercise 1: one step
#
# ●●○ *8 minutes.* A colleague's step raises no error. Watch it train. (With
# `momentum=0.9` each step of the optimizer also repeats 0.9 of the last one.)


# %%
def her_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    optimizer.step()
    loss.backward()
    optimizer.zero_grad()
    return F.cross_entropy(model(x), y)


hers = resnet18(width).to(device)
optimizer = torch.optim.SGD(hers.parameters(), lr=0.05, momentum=0.9)
[round(her_step(hers, optimizer, x, y).item(), 3) for _ in range(4)]

# %% [markdown]
# Not one weight moves. There are five mistakes: two in the order of its
# lines, one in what the returned loss would keep in memory, one in *which*
# loss it returns, and one line is missing altogether. Write the step as it
# should be. The model may come from an evaluation, still in evaluation mode,
# and with old gradients. Return the loss from *before* the update, as a number
# (a tensor of one number without a graph counts as one).


# %% tags=["exercise"]
def train_step(model, optimizer, x, y):
    """One step on the mean cross-entropy; returns that loss, a number."""
    ### BEGIN SOLUTION
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %% tags=["check"]
learn.check("train_step", train_step)

# %% [markdown]
# ## First test of any loop: overfit one batch
#
# Train on the same sixteen pictures in every step. A model with 176,000
# weights can learn them by heart, so the loss must fall towards 0. If it does
# not, the loop is wrong, whatever the data. Three planted bugs run beside your
# step: `zero_grad` is forgotten; the labels are shuffled and the pictures are
# not; softmax is applied before `cross_entropy`, which applies it itself.

# %%
one_step = learn.given("train_step")


def step(model, optimizer, x, y):
    loss = one_step(model, optimizer, x, y)
    return torch.as_tensor(loss).item()  # a plain number, for tables and files


def no_zero_grad(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def labels_apart(model, optimizer, x, y):
    return step(model, optimizer, x, y[torch.randperm(len(y))])


def softmax_twice(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x).softmax(dim=1), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def overfit(take_step, steps=25):
    torch.manual_seed(0)  # for the shuffled labels
    model = resnet18(width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return [take_step(model, optimizer, x, y) for _ in range(steps)]


takes = {
    "your step": step,
    "no zero_grad": no_zero_grad,
    "labels apart": labels_apart,
    "softmax twice": softmax_twice,
}
curves = {name: overfit(take) for name, take in takes.items()}

# %%
from lesson.pictures import draw_losses

draw_losses(
    "Your step learns the sixteen pictures by heart, the others do not",
    {name: (range(1, 26), losses) for name, losses in curves.items()},
    top=4.5,
)

# %%
learn.table(
    [
        [name, *(f"{losses[k]:.3f}" for k in (0, 8, 16, 24))]
        for name, losses in curves.items()
    ],
    ["", "step 1", "step 9", "step 17", "step 25"],
    "The same sixteen pictures in every step",
)

# %%
assert curves["your step"][-1] < 0.1
assert min(min(losses) for losses in list(curves.values())[1:]) > 1.4

# %% [markdown]
# All four begin near 2.30, and the three with a bug get nowhere near 0. With
# the last bug the loss has a floor that no training can break. After softmax
# all numbers lie between 0 and 1, and `cross_entropy` exponentiates them once
# more. So the right class gets at best $e^1$ against nine times $e^0$, and the
# loss is at least $-\ln\frac{e}{e + 9}$:

# %%
floor = -math.log(math.e / (math.e + 9))
assert min(curves["softmax twice"]) > floor
floor

# %% [markdown]
# ## Where random numbers come from
#
# A random number generator computes a **stream** of numbers from its seed: the
# same seed, the same stream. Python's `random`, NumPy and torch each have a
# generator of their own, so seeding one leaves the others alone. torch has one
# stream for the CPU and one for each GPU; `torch.manual_seed` seeds them all.
# You can also make further generators, such as `np.random.default_rng(0)`.
#
# There is also more than one process: a **worker** of a DataLoader is a
# process that prepares batches. On many systems it starts from scratch and
# imports the code that it runs, so the next cell writes a file. It defines a
# dataset whose items are random draws.

# %%
# %%writefile dice.py
import random

import numpy as np
import torch


class Dice(torch.utils.data.Dataset):
    """Each item: one draw from Python, NumPy, torch and a generator."""

    def __init__(self):
        self.own = np.random.default_rng(0)

    def __len__(self):
        return 2

    def __getitem__(self, i):
        draws = random.random(), np.random.rand(), torch.rand(()).item()
        return torch.tensor([*draws, self.own.random()])


def fresh_generator(worker):
    """A `worker_init_fn`: torch has given each worker its own seed."""
    dataset = torch.utils.data.get_worker_info().dataset
    dataset.own = np.random.default_rng(torch.initial_seed())


# %%
import importlib

import dice

dice = importlib.reload(dice)


def by_two_workers(seed, **settings):
    torch.manual_seed(seed)
    loader = torch.utils.data.DataLoader(
        dice.Dice(), batch_size=1, num_workers=2, **settings
    )
    return [row[0].tolist() for row in loader]


draws = by_two_workers(0)
columns = ["", "random", "np.random", "torch", "default_rng(0)"]
learn.table(
    [[f"worker {k}", *row] for k, row in enumerate(draws)],
    columns,
    "The first draw of each of two workers",
)

# %%
same = [name for name, a, b in zip(columns[1:], *draws) if a == b]
learn.measured("two_workers", ", ".join(same) or "none of them")
assert same == ["default_rng(0)"]

# %% [markdown]
# Old advice says that all workers draw the same numbers from `np.random`.
# That was true once (https://github.com/pytorch/pytorch/issues/5059). Today
# the DataLoader draws a new number from torch's stream for every epoch. From
# it and the worker's number it seeds Python, NumPy and torch in each worker.
# It knows nothing of a generator that your dataset keeps: every worker gets a
# copy in the same state. And unless you set
# `persistent_workers`, workers are started again in every epoch, so the copy
# repeats its draws. Each worker calls a `worker_init_fn` when it starts, which
# can give the copy a seed of its own.
#
# There is another trap: two **ranks** (processes of one training run) with the
# same seed draw the same numbers, so they crop and flip their pictures alike:

# %%
mended = by_two_workers(0, worker_init_fn=dice.fresh_generator)
assert mended[0][3] != mended[1][3]
assert by_two_workers(0) == draws  # a seed repeats all of it …
learn.table(
    [
        ["worker 0, rank 0", *draws[0]],
        ["worker 0, rank 1", *by_two_workers(0)[0]],  # … on every rank, too
    ],
    columns,
    "What two ranks with the same seed draw (one process, asked twice)",
)

# %% [markdown]
# Ranks need equal weights at the start and different draws afterwards:

# %%
# %%ranks 2
torch.manual_seed(0)
layer = torch.nn.Linear(2, 1)
print("weights ", layer.weight.data)
print("same seed ", torch.rand(3))
torch.manual_seed(1000 + rank)
print("own seed ", torch.rand(3))

# %% [markdown]
# A worked example with NumPy's stream alone. Both ranks of seed 0 make their
# weights, then draw two numbers, say for a crop. The seed of the draws has to
# depend on both `seed` and `rank`. With `seed + rank`, the ranks of one run
# draw different numbers, but rank 1 of seed 0 draws what rank 0 of seed 1
# draws, so two runs that you compare share numbers. `seed_of` mixes both into
# one large number instead.

# %%
import random

import numpy as np

from dtlib.data.batches import seed_of  # seed_of(1, 2): one seed, < 2**63


def start_numpy(seed, rank):
    np.random.seed(seed)  # the same on all ranks
    weights = np.random.rand(2)
    np.random.seed(seed_of(seed, rank) % 2**32)  # NumPy wants less than 2**32
    return weights, np.random.rand(2)


(weights, draw), (others, other_draw) = (start_numpy(0, r) for r in (0, 1))
assert (weights == others).all() and (draw != other_draw).all()
draw, other_draw

# %% [markdown]
# ## Exercise 2: the start of a run
#
# ●●○ *10 minutes, stretch.* `make_model()` draws its weights from torch's
# stream. Return a model that is the same on all ranks, and leave Python,
# NumPy and torch seeded so that each rank draws different numbers. All of it
# depends on `seed` and `rank` alone: another seed gives other weights and
# other draws.


# %% tags=["exercise", "stretch"]
def start_run(make_model, seed, rank):
    """The model; afterwards random, np.random and torch are seeded."""
    ### BEGIN SOLUTION
    torch.manual_seed(seed)
    model = make_model()
    own = seed_of("rank", seed, rank)
    random.seed(own)
    np.random.seed(own % 2**32)
    torch.manual_seed(own)
    return model
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("start_run", start_run)

# %% [markdown]
# ## What a seed does not fix
#
# Every floating-point sum is rounded, so the result depends on the order in
# which numbers are added. Here are the same three numbers in two orders:

# %%
one, huge = torch.tensor(1.0), torch.tensor(1e8)
(huge - huge) + one, (one + huge) - huge

# %% [markdown]
# Another number of threads cuts a sum into other pieces, so the order of
# addition changes. Here are six steps with one thread and with two, on the
# same pictures. The weights start equal: `resnet18` has a seed of its own.


# %%
def six_steps(threads):
    torch.set_num_threads(threads)
    model = resnet18(8, seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    inputs, labels = x.cpu(), y.cpu()
    losses = [step(model, optimizer, inputs, labels) for _ in range(6)]
    torch.set_num_threads(1)
    weights = torch.nn.utils.parameters_to_vector(model.parameters())
    return weights.detach(), losses


(a, losses), (again, _), (b, others) = map(six_steps, (1, 1, 2))
assert torch.equal(a, again)  # same order of every sum: same bits
distance = float((a - b).norm() / a.norm())
learn.measured("threads", distance)
learn.table(
    [
        [k + 1, p, q, abs(p - q)]
        for k, (p, q) in enumerate(zip(losses, others))
    ],
    ["step", "one thread", "two threads", "distance"],
    f"Loss of the same run; the weights end {distance:.0e} apart",
)

# %% [markdown]
# With the same number of threads, both runs gave the same bits. Another
# number may change the last digits of a sum, and each step builds on the one
# before. Another number of ranks (lesson 07), another GPU or another version
# of torch can do the same.
#
# Some operations are not even repeatable on one machine.
# `torch.use_deterministic_algorithms(True)` makes torch choose a repeatable
# algorithm, or raise an error if there is none. On a GPU that alone is not
# always enough: with `torch.backends.cudnn.benchmark = True`, for example,
# cuDNN (NVIDIA's library for convolutions) times its algorithms and may choose
# another one in the next run
# (https://docs.pytorch.org/docs/stable/notes/randomness.html lists what else
# to set). An operation that raises the error is `put_`, here with two values
# for the same place:

# %%
torch.use_deterministic_algorithms(True)
try:
    torch.zeros(1).put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
    refused = ""
except RuntimeError as error:
    refused = str(error)
torch.use_deterministic_algorithms(False)
assert "deterministic" in refused
refused.split(",")[0]

# %% [markdown]
# ## A big batch out of small ones
#
# Say that a batch of 40 pictures does not fit into memory. Take
# **micro-batches** of 16, 16 and 8, let their gradients add up in `.grad`, and
# then take one step. With $B$ pictures in all and $b_k$ of them in
# micro-batch $k$,
#
# $$\frac{1}{B}\sum_{i=1}^{B} g_i \;=\; \sum_k \frac{b_k}{B}\; m_k$$
#
# where $g_i$ is the gradient of picture $i$ and $m_k$ the mean gradient of
# micro-batch $k$:

# %%
draw_accumulation((16, 16, 8))

# %% [markdown]
# A worked example in which each picture is a number and its
# gradient is that number: first 4 alone, then 1, 1, 1.

# %%
micro_batches = [[4.0], [1.0, 1.0, 1.0]]
means = [sum(m) / len(m) for m in micro_batches]
big_batch = sum(sum(m) for m in micro_batches) / 4
print("mean of the means", sum(means) / 2, "big batch", big_batch)

# %% [markdown]
# In the mean of the means, the 4 weighs as much as the three others together.
# Widely used trainers made this mistake until 2024, with language models,
# whose rows are texts with different numbers of tokens, or pieces of words
# (https://github.com/huggingface/trl/issues/2175). If you average the three
# means of 16, 16 and 8 pictures, how much more does a picture of the last
# micro-batch weigh?

# %%
weights = [1 / 3 / size for size in (16, 16, 8)]
learn.measured("last_picture", weights[2] / weights[0])

# %% [markdown]
# ## Exercise 3: accumulate
#
# ●●○ *12 minutes.* `loss_fn(outputs, y)` is the *mean* over the pictures it
# is given, and `micro_batches` a list of pairs `(x, y)` of any sizes. Leave
# in every `p.grad` the gradient of the mean over all pictures, and return
# that mean as a number. Every `p.grad` is empty when your function is called.
# Only one micro-batch's activations may be in memory at a time.


# %% tags=["exercise"]
def accumulate(model, loss_fn, micro_batches):
    """Gradient and mean loss of all pictures, one micro-batch at a time."""
    count = sum(len(y) for _, y in micro_batches)
    total = 0.0
    for x, y in micro_batches:
        ### BEGIN SOLUTION
        loss = loss_fn(model(x), y) * (len(y) / count)
        loss.backward()
        total += loss.item()
        ### END SOLUTION
    return total


# %% tags=["check"]
learn.check("accumulate", accumulate)

# %% [markdown]
# Is it exact on the real model, too? Batch norm normalizes with averages over
# the micro-batch, so the model computes another function when the batch is
# cut. **Group norm** normalizes each picture by itself, and in fp64 (64 bits
# for each number, where fp32 has 32) there is next to no rounding:


# %%
def gradient(norm, dtype, cut, add_up):
    model = resnet18(8, norm).to(dtype)
    inputs = data.pixels[:40].to(dtype) / 255 - 0.5
    parts = zip(inputs.split(cut), data.labels[:40].split(cut))
    add_up(model, F.cross_entropy, list(parts))
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def mean_of_means(model, loss_fn, micro_batches):
    for inputs, labels in micro_batches:
        loss = loss_fn(model(inputs), labels)
        (loss / len(micro_batches)).backward()


add_up = learn.given("accumulate")
fp32, fp64 = torch.float32, torch.float64
rows = []
for name, norm, dtype, how in (
    ("yours", "group", fp64, add_up),
    ("yours", "group", fp32, add_up),
    ("yours", "batch", fp64, add_up),
    ("mean of means", "group", fp64, mean_of_means),
):
    whole = gradient(norm, dtype, [40], add_up)
    parts = gradient(norm, dtype, [16, 16, 8], how)
    apart = float((whole - parts).norm() / whole.norm())
    rows.append([name, norm + " norm", str(dtype)[6:], apart])
learn.table(
    rows,
    ["accumulation", "norm", "type", "distance from the big batch"],
    "Gradients of 16, 16 and 8 pictures against 40 at once, relative",
)

# %%
exact, rounded, other_function, wrong = (row[3] for row in rows)
assert exact < 1e-12 < rounded < 1e-4 < min(other_function, wrong)
learn.my_run("distance of an accumulated gradient, fp64", exact)

# %% [markdown]
# The first row is the proof. Accumulation is also how one process can imitate
# many ranks: the shares of lesson 00 were micro-batches on other processes.
#
# ## A score
#
# The last batch of a test set is usually smaller, and its mean must weigh
# less, as in accumulation. A worked example: 3 of 4 pictures are right in the
# first batch, and the only picture of the second.

# %%
hits, sizes = [3, 1], [4, 1]
shares = [h / n for h, n in zip(hits, sizes)]
print("average of both", sum(shares) / 2, "exact", sum(hits) / sum(sizes))

# %% [markdown]
# And a score must not change the model. `model.training` says which mode it
# is in, so you can put it back. Under `torch.no_grad()` no graph is recorded.

# %%
net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.5))
mode = net.training
net.eval()
with torch.no_grad():
    answer = net(torch.ones(1, 4))
net.train(mode)
assert not answer.requires_grad and net.training
answer, net.training

# %% [markdown]
# ## Exercise 4: a score that is exact
#
# ●●○ *10 minutes, stretch.* Return the mean loss and the accuracy (between 0
# and 1) over all pictures. Ask the model in evaluation mode and without a
# graph, and leave it in the mode in which it came.


# %% tags=["exercise", "stretch"]
def evaluate(model, batches):
    """(mean loss, accuracy) over all pictures of `batches`, a list."""
    ### BEGIN SOLUTION
    mode = model.training
    model.eval()
    loss, hits, count = 0.0, 0, 0
    with torch.no_grad():
        for x, y in batches:
            logits = model(x)
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            hits += int((logits.argmax(1) == y).sum())
            count += len(y)
    model.train(mode)
    return loss / count, hits / count
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("evaluate", evaluate)

# %% [markdown]
# ## All of it, and a record
#
# One short run for each seed. Every loss is written to a CSV file as soon as
# it is known, so even a run that is killed leaves its curve behind.

# %%
import csv
from pathlib import Path

start, score = learn.given("start_run"), learn.given("evaluate")
test = open_images("pictures", "test", count=250)
test_x = (test.pixels / 255 - 0.5).to(device)
test_batches = list(zip(test_x.split(100), test.labels.to(device).split(100)))


def make_model():  # resnet18's own seed is drawn from torch's stream
    return resnet18(width, seed=torch.randint(2**31, ()).item())


def run(seed, log):
    model = start(make_model, seed, 0).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for k in range(steps):
        rows = torch.randperm(len(data))[:32]  # from the seeded stream
        inputs = (data.pixels[rows] / 255 - 0.5).to(device)
        loss = step(model, optimizer, inputs, data.labels[rows].to(device))
        log.writerow([seed, k + 1, loss])
    return [float(value) for value in score(model, test_batches)]


# buffering=1: each line goes to the file at once, and not in blocks
with Path("metrics.csv").open("w", buffering=1, newline="") as file:
    log = csv.writer(file)
    log.writerow(["seed", "step", "loss"])
    scores = [run(seed, log) for seed in range(seeds)]

# %%
with Path("metrics.csv").open(newline="") as file:
    rows = list(csv.DictReader(file))
draw_losses(
    "Only the seed differs between these runs",
    {
        f"seed {seed}": (
            range(1, steps + 1),
            [float(row["loss"]) for row in rows if row["seed"] == str(seed)],
        )
        for seed in range(seeds)
    },
)

# %%
learn.table(
    [[seed, loss, 100 * hits] for seed, (loss, hits) in enumerate(scores)],
    ["seed", "test loss", "test accuracy, %"],
    "One loop, several seeds, 250 test pictures",
)

# %%
accuracies = [100 * hits for _, hits in scores]
spread = max(accuracies) - min(accuracies)
if seeds > 1:  # one run has no spread
    learn.my_run("spread of the accuracy over seeds", spread, "points")
assert len(rows) == steps * seeds

# %% [markdown]
# A dozen steps teach the model next to nothing: guessing is right once in
# ten. Only the seed differs between these runs, so two single runs that differ
# by no more than this spread show nothing about a change of yours. Means over
# $k$ seeds show smaller differences: the standard error of a mean is the
# standard deviation over seeds divided by $\sqrt{k}$.
#
# Part of the spread comes from the test set: with $n$ pictures and a true
# accuracy $p$, the share that is right has the standard error
# $\sqrt{p(1-p)/n}$, by the binomial distribution. Were the 3 percentage points
# of the beginning, from 61 to 64 %, luck? Try an accuracy between them, 62 %,
# on 500 pictures, and on 5000. The what-if assumes that each model is tested
# on its own pictures, so the standard error of the difference is $\sqrt{2}$
# times that of one. On the same pictures, both models share most of their
# luck, and the difference varies less. The luck of the seed comes on top.

# %%
learn.what_if("luck")

# %% [markdown]
# On 500 pictures, luck makes up to 6.1 points, so the 3 points may be luck. On
# 5000 it makes up to 1.9 points, and 3 are more than that. ("Up to" is two
# standard errors, which luck exceeds in one comparison of twenty.)
#
# ## Which learning rate? A range test
#
# Multiply the learning rate by the same factor after every step, and record
# the loss. When the rate is too small, nothing happens; when it is too large,
# the loss explodes. (The idea comes from Smith, 2017,
# https://arxiv.org/abs/1506.01186, who raises the rate by equal amounts.) The
# test below uses the sixteen pictures; two dozen steps on one batch give no
# more than a first guess. Test with the optimizer that you train with: with
# momentum 0.9, a step becomes up to ten times as long.

# %% tags=["stretch"]
rates = [1e-4 * 10 ** (k / 5) for k in range(24)]
model = resnet18(width).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=rates[0], momentum=0.9)
found = []
for rate in rates:
    optimizer.param_groups[0]["lr"] = rate
    found.append(step(model, optimizer, x, y))

# %% [markdown]
# ## Exercise 5: read it
#
# ●●○ *8 minutes, stretch.* The test is over at the first loss that is nan
# or above 4 times the lowest loss so far. Of the rates before that point, take
# the one with the lowest loss and return a tenth of that rate. This is one of
# several rules in use (https://docs.fast.ai/callback.schedule.html).


# %% tags=["exercise", "stretch"]
def pick_rate(rates, losses):
    """A tenth of the rate of the lowest loss before it diverged."""
    ### BEGIN SOLUTION
    best, chosen = math.inf, rates[0]
    for rate, loss in zip(rates, losses):
        if not loss <= 4 * best:  # so written, nan ends it, too
            break
        if loss < best:
            best, chosen = loss, rate
    return chosen / 10
    ### END SOLUTION


# %% tags=["check", "stretch"]
learn.check("pick_rate", pick_rate)

# %% tags=["stretch"]
rate = float(learn.given("pick_rate")(rates, found))
draw_losses(
    f"The rule picks {rate:.2g}, a tenth of the rate of the lowest loss",
    {"loss of one step": (rates, found)},
    top=8,
    x="learning rate",
    mark=(rate, "chosen"),
)

# %% tags=["stretch"]
learn.my_run("learning rate from a range test", rate)
learn.table(
    [[f"{r:.1e}", loss] for r, loss in list(zip(rates, found))[::3]],
    ["learning rate", "loss"],
    f"Every third step of the range test; chosen: {rate:.1e}",
)

# %% [markdown]
# ## TensorBoard and W&B, read back
#
# TensorBoard and W&B (Weights & Biases) are two loggers that draw such curves
# for you. `dtlib.train` writes both on request, W&B offline, which needs no
# account and no network. The next cells read both logs back and compare them
# with the run's own record, `metrics.jsonl`.

# %% tags=["stretch"]
from lesson.read_back import tensorboard_rows, wandb_rows

import dtlib
from dtlib.errors import Unavailable

try:
    logged = dtlib.train(
        "images",
        ranks=1,
        steps=2,
        global_batch=8,
        num_samples=64,
        device="cpu",
        tensorboard=True,
        wandb="offline",
    )
except Unavailable as missing:  # the optional packages are not there
    logged = None
    print(missing)

# %% tags=["stretch"]
if logged:
    record = {m["step"]: m["loss"] for m in logged.history}
    board, wb = tensorboard_rows(logged.folder), wandb_rows(logged.folder)
    tag = "train/loss"
    print(
        learn.table(
            [[k, v, board[k][tag], wb[k][tag]] for k, v in record.items()],
            ["step", "metrics.jsonl", "TensorBoard", "W&B offline"],
        )
    )
    for k, loss in record.items():
        assert wb[k][tag] == loss  # W&B keeps fp64, TensorBoard fp32
        assert abs(board[k][tag] - loss) < 2**-23 * loss

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - Overfit one batch before you train on all of them. The first loss is
#   $\ln$(classes), the last one is near 0.
# - `backward` frees the activations. A loss that never went backward keeps
#   them for as long as you keep the loss.
# - Seed Python, NumPy, torch and every worker. Ranks start with equal weights
#   and then draw different numbers.
# - A seed fixes draws, not the order of sums. The same bits also need the same
#   threads, ranks, kernels and versions.
# - A mean of means has to weigh each by its count, in accumulation and in a
#   score.
# - Two single runs show nothing if another seed makes as large a difference.
#   Compare means over several seeds, with their standard errors.

# %%
learn.take_away()
