# %% [raw]
# ---
# number: "03"
# title: The text pipeline
# does: >-
#   turn documents into batches: tokenize once, pack, keep documents apart,
#   and share the rows out to ranks
# objectives:
#   - pack documents into windows, and count the tokens that padding wastes
#   - keep the documents of one window apart, with a mask and positions
#   - say which rows each rank reads, and whether the loader keeps up
# minutes: {read: 25, exercises: 30}
# needs: [laptop]
# builds_on: ["02", "07"]
# ---

# %% [markdown]
# You have documents in files, and a model that reads windows of tokens, on
# several ranks. **What happens between the two, and what goes wrong there
# without an error?**
#
# The libraries are those that people use: `datasets` reads and shares out
# rows, `tokenizers` trains a tokenizer, `transformers` loads it. You write
# the three steps that are most often wrong. All three exercises are the core.

# %%
from dtlib import learn

learn.start("03")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# The documents are docstrings of Python's own library, because every machine
# has them. `context` is the length of a window in tokens.

# %% tags=["parameters"]
documents = 400
context = 64
vocabulary = 1000

# %% [markdown]
# ## Your predictions
#
# Commit all three before you go on.

# %%
learn.predict("wasted")

# %%
learn.predict("own_tokens")

# %%
learn.predict("rows_read")

# %% [markdown]
# ## Files that a rank can share
#
# A data set on disk is usually several files of one kind, its **shards**.
# Parquet is the most common: a table that is stored column by column. Write
# the documents into four shards, and load them. `load_dataset` copies the rows
# into an Arrow file once; `streaming=True` reads the shards where they are.

# %%
import tempfile
from pathlib import Path

import datasets
from lesson.docs import docstrings

datasets.disable_progress_bars()
texts = docstrings(documents)
folder = Path(tempfile.mkdtemp())
whole = datasets.Dataset.from_dict({"text": texts})
for k in range(4):
    shard = whole.shard(4, k, contiguous=True)
    shard.to_parquet(folder / f"docs-{k}.parquet")
files = sorted(map(str, folder.glob("*.parquet")))
stream = datasets.load_dataset(
    "parquet", data_files=files, split="train", streaming=True
)
print(len(whole), "documents;", stream.num_shards, "shards")
print(repr(next(iter(stream))["text"][:60]))
assert [row["text"] for row in stream] == texts

# %% [markdown]
# ## A tokenizer of your own
#
# **Byte-pair encoding** (BPE) starts with the 256 bytes and merges the most
# frequent pair of neighbors into a new token, again and again, until the
# vocabulary is full. The *byte-level* kind can write any text, so it needs no
# token for unknown characters. Train one on the documents, with a special
# token for **end-of-text**, which will separate documents.

# %%
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

END = "<|endoftext|>"
trained = Tokenizer(models.BPE())
trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
trained.decoder = decoders.ByteLevel()
trained.train_from_iterator(
    texts,
    trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    ),
)
wrapped = PreTrainedTokenizerFast(tokenizer_object=trained, eos_token=END)
wrapped.save_pretrained(folder / "tokenizer")
tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
sample = "Return a list of the words in the string."
print(tokenizer.tokenize(sample))
assert tokenizer.decode(tokenizer(sample)["input_ids"]) == sample

# %% [markdown]
# The folder has everything that another program needs, and
# `AutoTokenizer.from_pretrained` loads it without a network. How does it
# compare with GPT-2's 50,257 tokens, which were trained on web pages? If this
# machine does not have GPT-2's two files, you see what another one counted.

# %%
from dtlib.data.tokenizer import gpt2
from dtlib.errors import BadInput

encoded = [tokenizer(text)["input_ids"] for text in texts]
own = sum(map(len, encoded))
try:
    theirs = sum(len(gpt2().encode(text)) for text in texts)
    ratio = own / theirs
except BadInput:
    ratio = learn.recorded("03_text_pipeline")["own tokens over GPT-2's"]
learn.measured("own_tokens", ratio)
print(f"{own:,} tokens of our own, {ratio:.2f} times as many as GPT-2's")

# %% [markdown]
# A small vocabulary has short tokens, so the same text is longer, and a window
# holds less of it. A large one pays with rows of the embedding: GPT-2's takes
# 50,257 times the width of the model.
#
# ## End-of-text is a token, not a text
#
# Here is a trap. A document that *says* `<|endoftext|>`, such as a page about
# GPT-2, does not end there. By default the tokenizer turns the words into the
# special token. With `split_special_tokens=True` they stay words.

# %%
page = f"GPT-2 writes {END} between documents."
end = tokenizer.eos_token_id
careless = tokenizer(page)["input_ids"]
careful = tokenizer(page, split_special_tokens=True)["input_ids"]
print("end-of-text inside:", careless.count(end), "and", careful.count(end))
assert end in careless and end not in careful

# %% [markdown]
# A second trap: if you set `pad_token = eos_token` and ignore padding in the
# loss, the end-of-text behind each document is ignored, too. The model then
# never learns to stop.
#
# ## Tokenize once
#
# `map` calls a function on every row (or on batches of rows), in `num_proc`
# processes, and keeps the result in Arrow files under a hash of the function
# and its input.


# %%
def tokenize(rows):
    ids = tokenizer(rows["text"], split_special_tokens=True)["input_ids"]
    return {"ids": ids}


ready = whole.map(tokenize, batched=True, num_proc=2, remove_columns=["text"])
encoded = ready["ids"][:]
print(ready.column_names, len(ready), "rows,", sum(map(len, encoded)))

# %% [markdown]
# If each rank tokenizes for itself, all of them do the same work. So **one
# rank writes and all read**: rank 0 saves, a barrier makes the others wait,
# and then each of them loads. The work is counted in documents.


# %%
def prepare(folder, texts, once):
    """How many documents this rank tokenized, and how many it has."""
    import torch.distributed as dist

    datasets.disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    done = []

    def tokenize(rows):
        done.extend(rows["text"])
        return {"ids": tokenizer(rows["text"])["input_ids"]}

    rows = datasets.Dataset.from_dict({"text": texts})
    if dist.get_rank() == 0 or not once:
        ready = rows.map(tokenize, batched=True)
        ready.save_to_disk(folder / f"ready-{once or dist.get_rank()}")
    dist.barrier()
    name = f"ready-{once or dist.get_rank()}"
    return len(done), len(datasets.load_from_disk(folder / name))


import dtlib

counted = {
    once: dtlib.launch(prepare, folder, texts, once, ranks=2, device="cpu")
    for once in (False, True)
}
assert [done for done, _ in counted[True]] == [documents, 0]
learn.table(
    [
        ["each for itself" if not once else "one writes", *found]
        for once, ranks in counted.items()
        for found in [[done for done, _ in ranks]]
    ],
    ["way", "rank 0 tokenized", "rank 1 tokenized"],
    "Documents, on two ranks",
)

# %% [markdown]
# On several nodes one rank *for each shared folder* writes. If that rank dies
# half-way, half a folder must not count: write under another name, and rename
# at the end. `dtlib train text --data FOLDER` does all that.
#
# ## Padding or packing
#
# A batch is a rectangle: windows of equal length. **Padding** gives each
# document a window of its own and fills it up. **Packing** puts an end-of-text
# behind each document, joins them all, and cuts the row into windows. Worked
# example, with documents `[5, 6]` and `[7, 8, 9, 5]`, end-of-text 0, and
# windows of 4:
#
# | | |
# | --- | --- |
# | joined | `5 6 0 7 8 9 5 0` |
# | windows | `[5, 6, 0, 7]` and `[8, 9, 5, 0]` |
#
# ## Exercise 1: pack
#
# ●○○ *8 minutes.* Return the windows as a list of lists. Leave out what does
# not fill a window at the end, and leave the documents as they are.


# %% tags=["exercise"]
def pack(documents, end, length):
    """Windows of `length` tokens from documents, each a list of tokens."""
    ### BEGIN SOLUTION
    stream = []
    for tokens in documents:
        stream += [*tokens, end]
    whole = len(stream) // length
    return [stream[i * length : (i + 1) * length] for i in range(whole)]
    ### END SOLUTION


# %% tags=["check"]
learn.check("pack", pack)

# %% [markdown]
# Now count. Padding wastes places, and cuts off what is longer than a window;
# packing wastes only the last, incomplete window.

# %%
packed = learn.given("pack")(encoded, end, context)
kept = sum(min(len(ids) + 1, context) for ids in encoded)
places = len(encoded) * context
wasted = 100 * (1 - kept / places)
stream_length = sum(map(len, encoded)) + len(encoded)
learn.measured("wasted", wasted)
learn.table(
    [
        ["padded", len(encoded), f"{wasted:.1f} %", stream_length - kept],
        ["packed", len(packed), "0.0 %", stream_length % context],
    ],
    ["way", "windows", "padding", "tokens left out"],
    f"{documents} documents in windows of {context} tokens",
)

# %% [markdown]
# ## Documents that must not see each other
#
# In a packed window the second document attends to the first, which has
# nothing to do with it, and its first token is not at position 0. Models
# learn to live with that. Where they must not, say for short examples in
# fine-tuning, you give the model two more things: **positions** that start
# again in each document, and a **mask** that says which token may attend to
# which. Worked example for the positions:

# %%
import torch

window = torch.tensor([5, 6, 0, 7, 8, 9, 0, 5])
positions, place = [], 0
for token in window.tolist():
    positions.append(place)
    place = 0 if token == 0 else place + 1
print(window.tolist())
print(positions)

# %% [markdown]
# The end-of-text belongs to the document that it ends.
#
# ## Exercise 2: may attend
#
# ●●○ *12 minutes.* Return a square of booleans: row $i$, column $k$ says
# whether token $i$ may attend to token $k$. It may if $k$ is not later than
# $i$ (causal) and both are in the same document. `cumsum` counts along a
# tensor.


# %% tags=["exercise"]
def may_attend(window, end):
    """Who may attend to whom in a packed window: bool [s, s]."""
    s = len(window)
    ### BEGIN SOLUTION
    is_end = window == end
    number = is_end.cumsum(0) - is_end.long()
    same = number[:, None] == number[None, :]
    causal = torch.ones(s, s, dtype=torch.bool).tril()
    return causal & same
    ### END SOLUTION


# %% tags=["check"]
learn.check("may_attend", may_attend)

# %%
from lesson.pictures import draw_mask

mask = learn.given("may_attend")(window, 0)
draw_mask(mask, [0, 0, 0, 1, 1, 1, 1, 2])

# %% [markdown]
# Does it work? One layer of attention, with a row of the embedding for each
# token and each position. The second document, `7 8 9 0`, must come out of the
# packed window as it comes out alone:

# %%
from torch.nn import functional as F

torch.manual_seed(0)
embed, place_embed = torch.randn(10, 16), torch.randn(8, 16)


def attend(tokens, positions, mask):
    x = (embed[tokens] + place_embed[positions])[None, None]
    out = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    return out[0, 0]


alone = attend(window[3:7], torch.arange(4), torch.ones(4, 4).tril().bool())
causal = torch.ones(8, 8).tril().bool()
by_document = torch.tensor(positions)
ways = {
    "neither": (torch.arange(8), causal),
    "positions alone": (by_document, causal),
    "mask alone": (torch.arange(8), mask),
    "both": (by_document, mask),
}
gaps = {
    name: float((attend(window, *way)[3:7] - alone).abs().max())
    for name, way in ways.items()
}
for name, gap in gaps.items():
    print(f"{name}: largest difference {gap:.1e}")
assert gaps.pop("both") < 1e-5 < 1e-2 < min(gaps.values())

# %% [markdown]
# Both are needed. In transformers you pass `position_ids` and a mask; kernels
# for long windows take the documents' lengths instead.
#
# ## Fewer shards than ranks
#
# Each rank must read rows of its own. `split_dataset_by_node` does it for a
# stream in one of two ways. If the ranks divide the shards evenly, each rank
# reads only its own shards: rank $r$ of $N$ those with the numbers $r$,
# $r + N$, $r + 2N$, … Otherwise **every rank reads every row** and keeps row
# number $r$, $r + N$, … of all rows. Worked example, 2 ranks:
#
# | shards | rank 0 reads | rank 0 keeps |
# | --- | --- | --- |
# | 5, 7, 2 and 1 rows | 5 + 2 = 7 | 7 |
# | 5, 7 and 4 rows | 16 | 8 |
#
# ## Exercise 3: rows of a rank
#
# ●●○ *10 minutes.* Return both numbers. `shards` is a list with the rows of
# each shard.


# %% tags=["exercise"]
def rows_of(shards, rank, world_size):
    """How many rows a rank reads, and how many of them it keeps."""
    ### BEGIN SOLUTION
    total = sum(shards)
    if len(shards) % world_size == 0:
        own = sum(shards[rank::world_size])
        return own, own
    return total, len(range(rank, total, world_size))
    ### END SOLUTION


# %% tags=["check"]
learn.check("rows_of", rows_of)

# %% [markdown]
# Ask the library itself. This generator counts every row that is read:

# %%
from datasets.distributed import split_dataset_by_node

layouts = {"1 shard": [1000], "4 shards": [250] * 4, "6 shards": [167] * 6}


def counting(shards):
    for shard, rows in shards:
        for row in range(rows):
            read.append(row)
            yield {"shard": shard, "row": row}


found, predicted = {}, learn.given("rows_of")
for name, shards in layouts.items():
    rows = datasets.IterableDataset.from_generator(
        counting, gen_kwargs={"shards": list(enumerate(shards))}
    )
    read = []
    kept = sum(1 for _ in split_dataset_by_node(rows, 1, 4))
    found[name] = (len(read), kept)
    assert found[name] == tuple(predicted(shards, 1, 4)), name
learn.measured("rows_read", found["1 shard"][0])
learn.table(
    [[name, *counts] for name, counts in found.items()],
    ["layout", "rank 1 reads", "rank 1 keeps"],
    "About 1,000 rows on 4 ranks, counted in split_dataset_by_node",
)

# %% [markdown]
# So write a multiple of your ranks as shards, all about as large: with unequal
# shards some ranks run out of rows first, and the others wait for them
# in a collective.
#
# ## A loader that keeps up
#
# A step cannot begin before its batch is there. Time two loaders on the same
# documents: one tokenizes as it goes, the other reads tokens that are ready.
# Beside them stands a training step of the smallest GPT of this course.

# %%
import statistics
import time

from dtlib.models import gpt


def milliseconds(work, repeats=5):
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times)


batch = 8
ready_tokens = torch.tensor(packed)
model = gpt.GPT(gpt.shape("nano", vocab_size=len(tokenizer)), seed=0)


def on_the_fly():
    ids = tokenizer(texts[: 4 * batch], split_special_tokens=True)
    return torch.tensor(pack_given(ids["input_ids"], end, context)[:batch])


def step():
    tokens = ready_tokens[:batch]
    logits = model(tokens[:, :-1])
    targets = tokens[:, 1:].flatten()
    F.cross_entropy(logits.flatten(0, 1), targets).backward()
    model.zero_grad()


pack_given = learn.given("pack")
indices = torch.randperm(len(ready_tokens))[:batch]
measured = {
    "tokenize as it goes": milliseconds(on_the_fly),
    "tokens that are ready": milliseconds(lambda: ready_tokens[indices]),
    "a step of the model": milliseconds(step),
}
learn.my_run(
    "ms to tokenize a batch as it goes", measured["tokenize as it goes"], "ms"
)
learn.table(
    [[name, f"{ms:.2f}"] for name, ms in measured.items()],
    ["", "ms"],
    f"One batch of {batch} windows here, median of 5",
)

# %% [markdown]
# On a laptop either loader keeps up, because the step is slow. A GPU takes a
# thousand times as many tokens a second, and then workers have to prepare
# batches side by side. When are they enough?

# %%
learn.what_if("loader")

# %% [markdown]
# ## All of it in one command
#
# `--data` takes such a folder of shards. One process tokenizes, all ranks
# read, documents are separated by end-of-text, and of every 20 documents the
# 19th is held out. The `protocol` says so.

# %%
run = dtlib.train(
    "text",
    2,
    data=str(folder),
    tokenizer=str(folder / "tokenizer"),
    model="nano",
    max_length=64,
    global_batch=8,
    steps=10,
    out=str(folder / "run"),
)
losses = [line["loss"] for line in run.history]
print(f"loss {losses[0]:.2f} → {losses[-1]:.2f}")
print(run.summary["evaluation"]["protocol"])
assert losses[-1] < losses[0]

# %% [markdown]
# ## Quiz

# %% tags=["quiz"]
learn.quiz()

# %% [markdown]
# ## Take-away
#
# - End-of-text is a token behind each document, and never something that a
#   document says.
# - Packing wastes nothing. Padding wastes the more, the more the lengths
#   differ.
# - Documents that must not see each other need a mask *and* positions.
# - One rank writes the tokens, all read them. A half-written folder must not
#   count.
# - Write a multiple of the ranks as shards; otherwise every rank reads
#   everything.

# %%
learn.take_away()
