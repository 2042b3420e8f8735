# %% [raw]
# ---
# number: "03"
# title: The text pipeline
# does: >-
#   turn documents into batches: tokenize once, pack, keep documents apart,
#   and share the rows out among ranks
# objectives:
#   - pack documents into windows, and measure what padding wastes
#   - keep the documents of one window apart, with a mask and positions
#   - say which rows each rank reads, and whether loading keeps up with
#     training
# minutes: {read: 29, exercises: 30}
# needs: [laptop]
# builds_on: ["02", "07"]
# ---

# %% [markdown]
# You have documents in files, and you train a language model on several ranks.
# The model does not read text: it reads **tokens**, numbers that stand for
# words or pieces of words, in windows of equal length. **What happens between
# the files and the model, and what goes wrong there without an error
# message?**
#
# You use Hugging Face's libraries, as most projects do: `datasets` reads rows
# and shares them out among ranks, `tokenizers` trains a tokenizer, which turns
# text into tokens, and `transformers` loads it. The three steps that go wrong
# most often are yours to write. All three exercises are the core.

# %%
from dtlib import learn

learn.start("03")

# %%
from lesson.pictures import draw_question

draw_question()

# %% [markdown]
# In the upper row each document has a window of its own, and the rest of the
# window is **padding**, tokens that mean nothing. In the lower row the
# documents are **packed**: they follow one another, and a special token,
# **end-of-text**, closes each of them.
#
# The documents of this lesson are docstrings of Python's own library, because
# every machine has them. `documents` says how many of them you use (50 to
# 1,000), `context` is the length of a window in tokens (2 to 1,024), and
# `vocabulary` is the number of different tokens (257 to 10,000).

# %% tags=["parameters"]
documents = 400
context = 64
vocabulary = 1000

# %%
from lesson.docs import docstrings, refuse_beyond

refuse_beyond(documents, context, vocabulary)

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
# ## Files that ranks can share
#
# A data set on disk is usually several files with the same columns, its
# **shards**. The most common format is Parquet, a table that is stored column
# by column. The next cell writes the documents into four shards and opens
# them. By default, `load_dataset` would first copy all rows into files in the
# format Arrow, which a program can use without reading all of them into
# memory. With `streaming=True` nothing is copied: you read row after row from
# the shards.

# %%
import tempfile
from pathlib import Path

import datasets

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
# **Byte-pair encoding** (BPE) starts with 256 tokens, one for each value that
# a byte can have. In the training text it finds the two tokens that stand next
# to each other most often, and merges them into a new token. It does so again
# and again, until there are as many tokens as you asked for: the tokenizer's
# **vocabulary**. Because every text is made of bytes, this *byte-level* kind
# can write any text, and needs no token for unknown characters.
#
# The next cell trains such a tokenizer on the documents. The pre-tokenizer
# splits the text into words first, so no token reaches from one word into the
# next; the decoder turns tokens back into text. The only special token is
# end-of-text.

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
# In the output, `Ġ` stands for a space in front of a word. The folder
# `tokenizer` holds everything that another program needs, and
# `AutoTokenizer.from_pretrained` loads it without a network. How does your
# tokenizer compare with GPT-2's, which has 50,257 tokens and was trained on
# web pages? If the two files of GPT-2's tokenizer are not on this machine, the
# next cell takes a ratio that was measured on another one.

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
# A small vocabulary has short tokens, so the same text needs more of them, and
# a window holds less text. A large vocabulary costs memory, because the model
# stores a vector for each token. The table of these vectors is its
# **embedding**: GPT-2's has 50,257 rows, each as long as the model is wide.
#
# ## End-of-text is a token, not a string
#
# Here is a trap. A document that *mentions* `<|endoftext|>`, such as a page
# about GPT-2, does not end there. By default, however, the tokenizer turns
# these characters into the special token, as if the document ended. With
# `split_special_tokens=True` it treats them like any other text.

# %%
page = f"GPT-2 writes {END} between documents."
end = tokenizer.eos_token_id
careless = tokenizer(page)["input_ids"]
careful = tokenizer(page, split_special_tokens=True)["input_ids"]
print("end-of-text inside:", careless.count(end), "and", careful.count(end))
assert end in careless and end not in careful

# %% [markdown]
# A second trap: many scripts use end-of-text for padding as well, with
# `tokenizer.pad_token = tokenizer.eos_token` (eos, *end of sequence*, is the
# library's name for end-of-text). If the loss then ignores padding, it also
# ignores the end-of-text behind each document, and the model never learns to
# stop.
#
# ## Tokenize once
#
# The method `map` of a data set calls a function on every row (or on batches
# of rows), in `num_proc` processes. If the data set came from files, `map`
# also stores the result in Arrow files whose names contain a hash of the
# function and its input. A second call then loads the result instead of
# computing it again.


# %%
def tokenize(rows):
    ids = tokenizer(rows["text"], split_special_tokens=True)["input_ids"]
    return {"ids": ids}


ready = whole.map(tokenize, batched=True, num_proc=2, remove_columns=["text"])
encoded = ready["ids"][:]
print(ready.column_names, len(ready), "rows,", sum(map(len, encoded)))

# %% [markdown]
# If each rank tokenizes for itself, all ranks do the same work. So **one rank
# writes and all read**: rank 0 tokenizes and saves, a barrier makes the other
# ranks wait for it, and then every rank loads the tokens. The next cell tries
# both ways, and counts the documents that each rank tokenizes.


# %%
def prepare(folder, texts, once):
    """How many documents this rank tokenized, and how many it has."""
    import torch.distributed as dist

    datasets.disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    done = []

    def tokenize(rows):
        done.extend(rows["text"])
        ids = tokenizer(rows["text"], split_special_tokens=True)
        return {"ids": ids["input_ids"]}

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
# On several nodes (machines), one rank writes *for each shared folder*: a
# single rank if all nodes see the same folder, one rank on each node if each
# has a disk of its own. If that rank dies half-way, nobody may take the
# half-written folder for a finished one. So write it under a temporary name,
# and rename it at the end. `dtlib train text --data FOLDER` does all that.
#
# ## Padding or packing
#
# A batch is one rectangular tensor, so its windows must have equal lengths.
# *Padding* gives each document a window of its own and fills it up.
# *Packing* puts an end-of-text behind each document, joins all of them into
# one long sequence, and cuts the sequence into windows. Worked example, with
# documents `[5, 6]` and `[7, 8, 9, 5]`, end-of-text 0, and windows of 4:
#
# | | |
# | --- | --- |
# | joined | `5 6 0 7 8 9 5 0` |
# | windows | `[5, 6, 0, 7]` and `[8, 9, 5, 0]` |
#
# ## Exercise 1: pack
#
# ●○○ *8 minutes.* `documents` is a list of documents, each a list of tokens;
# the list may be empty, and so may a document. `end` is the end-of-text token,
# and `length` the number of tokens in a window. Return the packed windows as a
# list of lists. If the last tokens do not fill a window, leave them out. Do
# not modify the documents.


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
# Now compare the two ways. Padding fills the rest of a window with nothing,
# and cuts off documents that are longer than a window. Packing loses only the
# last, incomplete window. (An end-of-text counts as text in both ways; a
# document that is cut off loses its own.)

# %%
pack_given = learn.given("pack")


def windows_of(tokens):
    """Packed windows as lists of int, in whatever type `pack` returns them."""
    return [[int(t) for t in w] for w in pack_given(tokens, end, context)]


packed = windows_of(encoded)
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
# A GPT predicts each token from the tokens before it in the same window. It
# does so with **attention**: the model computes a new vector for each token
# from the vectors of the tokens that it *attends to*. So in a packed window
# the second document attends to the first, which has nothing to do with it.
# The model also adds a vector for each token's place in the window, its
# **position**, and the second document does not begin at position 0.
#
# A model that is trained on much text learns to live with both. Sometimes
# documents must not influence each other, for example the short texts of
# **fine-tuning**, in which you train a finished model further for one task.
# Then you give the model two more inputs: positions that start again at 0 in
# each document, and a **mask** that says which token may attend to which.
# Worked example for the positions, with end-of-text 0:

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
# Positions start again *behind* an end-of-text, because it belongs to the
# document that it ends.
#
# ## Exercise 2: may attend
#
# ●●○ *12 minutes.* `window` is a tensor of $s$ tokens, and `end` is the
# end-of-text token. Return a boolean tensor of shape $s \times s$: row $i$,
# column $k$ says whether token $i$ may attend to token $k$. It may if $k$ is
# not later than $i$ (such a mask is called *causal*) and both tokens are in
# the same document. The method `cumsum(0)` returns running sums: it turns 0,
# 1, 0, 1 into 0, 1, 1, 2.


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

mask = torch.as_tensor(learn.given("may_attend")(window, 0)).bool()
draw_mask(mask, [0, 0, 0, 1, 1, 1, 1, 2])

# %% [markdown]
# Does it work? Here is one layer of attention with random numbers. Its input
# is the sum of two vectors, one for each token and one for its position. If
# documents are kept apart, the second one, `7 8 9 0`, has the same output
# inside the packed window as it has alone. The cell tries the positions and
# the mask together, one at a time, and neither:

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
# Only with both is the difference as small as rounding. Models of
# `transformers` take the two as `position_ids`, of shape $[b, s]$ for a batch
# of $b$ windows, and `attention_mask`, which must have the shape
# $[b, 1, s, s]$: the 1 stands for all *heads*, the parts of the layer that
# attend separately. If you give it the $s \times s$ mask itself, a model stops
# with an error, or takes it for a mask of padding and says nothing. (Booleans
# are for the default attention, `sdpa`. The one called `eager` adds the mask
# to its scores, so it needs 0 and $-\infty$.) The next cell tries it with a
# small GPT-2 that was never trained:

# %%
from transformers import GPT2Config, GPT2Model

sizes = dict(n_layer=1, n_head=2, n_embd=16, n_positions=8, vocab_size=10)
library = GPT2Model(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)).eval()


@torch.no_grad()
def second(tokens, **inputs):
    """Output for the last four tokens of the second document."""
    out = library(tokens[None], use_cache=False, **inputs)
    return out.last_hidden_state[0, -4:]


whole_window, restart = window[:7], by_document[None, :7]
small = mask[:7, :7]
ways = {
    "neither": {},
    "both, mask [1, 1, s, s]": dict(
        position_ids=restart, attention_mask=small[None, None]
    ),
    "both, mask [s, s]": dict(position_ids=restart, attention_mask=small),
    "positions alone": dict(position_ids=restart),
}
alone = second(window[3:7])
for name, inputs in ways.items():
    try:
        gap = (second(whole_window, **inputs) - alone).abs().max().item()
        print(f"{name}: largest difference {gap:.1e}")
    except (RuntimeError, ValueError) as error:
        print(f"{name}: {type(error).__name__}")

# %% [markdown]
# The last line is a convenience of transformers 5: without an
# `attention_mask`, and with `use_cache=False`, the model makes the mask itself
# where positions start again. The attention of the cell before did nothing of
# the kind.
#
# A mask has $s^2$ entries, so the fast GPU programs (**kernels**) for long
# windows take the documents' lengths instead.
#
# ## Shards that ranks cannot share evenly
#
# Each rank must train on rows of its own. `split_dataset_by_node` chooses them
# from a stream in one of two ways. If the number of shards is a multiple of
# the number of ranks, each rank reads only its own shards: rank $r$ of $N$
# reads the shards with the numbers $r$, $r + N$, $r + 2N$, …, counted from 0.
# Otherwise **every rank reads every row** of the data set, and keeps only the
# rows with these numbers. Worked example, 2 ranks:
#
# | shards | rank 0 reads | rank 0 keeps |
# | --- | --- | --- |
# | 5, 7, 2 and 1 rows | 5 + 2 = 7 | 7 |
# | 5, 7 and 4 rows | 16 | 8 |
#
# ## Exercise 3: rows of a rank
#
# ●●○ *10 minutes.* `shards` is a list with the number of rows in each shard,
# and `world_size` is the number of ranks. Return two numbers as a tuple: how
# many rows rank `rank` reads, and how many of these it keeps.


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
# Now ask the library itself. The generator `counting` notes every row that is
# read from it, and `rows_of` must predict the same two numbers:

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
    assert found[name] == tuple(map(int, predicted(shards, 1, 4))), name
learn.measured("rows_read", found["1 shard"][0])
learn.table(
    [[name, *counts] for name, counts in found.items()],
    ["layout", "rank 1 reads", "rank 1 keeps"],
    "About 1,000 rows on 4 ranks, shared out by split_dataset_by_node",
)

# %% [markdown]
# So make the number of shards a multiple of the number of ranks, and all
# shards about the same size. If they differ in size, some ranks run out of
# rows first. They stop, and the other ranks wait for them in a collective,
# such as the all-reduce of the gradients.
#
# A single Parquet file need not stay a single shard. It stores its rows in
# **row groups**, and the method `reshard` (of datasets 5.2; it did nothing for
# Parquet in some versions before) makes each group a shard:

# %%
one = Path(tempfile.mkdtemp()) / "one.parquet"
table = datasets.Dataset.from_dict({"row": list(range(1000))})
table.to_parquet(one, batch_size=250)  # four row groups
rows = datasets.load_dataset(
    "parquet", data_files=str(one), split="train", streaming=True
)
if hasattr(rows, "reshard"):
    print(rows.num_shards, "shard, then", rows.reshard().num_shards)
    rows = rows.reshard()
kept = [row["row"] for row in split_dataset_by_node(rows, 1, 4)]
print(f"rank 1 of 4 keeps {len(kept)} rows, beginning with {kept[:3]}")

# %% [markdown]
# ## A loader that keeps up
#
# A step cannot begin before its batch is there. The part of a program that
# prepares batches is its **loader**. The next cell times two loaders on the
# same documents: one tokenizes as it goes, and the other picks from windows
# that were tokenized and packed before. It also times a training step of
# `nano`, the smallest GPT of this course.

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
longest = max(64, context)  # what the model can read at once
shape = gpt.shape("nano", vocab_size=len(tokenizer), context=longest)
model = gpt.GPT(shape, seed=0)


def on_the_fly():
    ids = tokenizer(texts[: 4 * batch], split_special_tokens=True)
    return torch.tensor(windows_of(ids["input_ids"])[:batch])


def step():
    tokens = ready_tokens[:batch]
    logits = model(tokens[:, :-1])
    targets = tokens[:, 1:].flatten()
    F.cross_entropy(logits.flatten(0, 1), targets).backward()
    model.zero_grad()


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
    [
        [name, f"{ms:,.0f}" if ms >= 10 else f"{ms:.2g}"]
        for name, ms in measured.items()
    ],
    ["", "ms"],
    f"One batch of {batch} windows on this machine, median of 5",
)

# %% [markdown]
# On a laptop either loader keeps up, because the step is slow. A GPU may take
# a thousand times as many tokens per second. Then several processes of each
# rank, its **workers**, have to prepare batches at the same time, while the
# GPU computes. How many are enough?
#
# Workers that stream share the shards of their rank, and one without a shard
# stops at once. With 4 shards and 4 ranks, for example, each rank has one
# shard, so only one of its workers has work. For $w$ workers on each of $N$
# ranks, you need a multiple of $w \cdot N$ shards.

# %%
learn.what_if("loader")

# %% [markdown]
# ## All of it in one command
#
# `dtlib train text --data FOLDER` takes such a folder of shards, and
# `dtlib.train` is the same command as a function. It runs on two ranks here:
# one process tokenizes, both ranks read, and an end-of-text follows each
# document. Of every 20 documents the model never trains on the last two: the
# 19th is for validation, and the 20th for the test. The printed `protocol`
# says how the documents were divided, and what else a reader must know to
# compare results.

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
    out=tempfile.mkdtemp(),
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
# - End-of-text is a token that you put behind each document. The same
#   characters inside a document are ordinary text.
# - Packing loses only the last, incomplete window. Padding wastes more if the
#   lengths of the documents differ more.
# - Documents that must not see each other need a mask *and* positions that
#   start again. Some libraries derive the mask from such positions.
# - One rank writes the tokens, and all ranks read them. Rename the folder when
#   it is complete, so that nobody reads half of it.
# - Make the number of shards a multiple of the number of ranks, times the
#   workers of each rank. Otherwise every rank reads everything, or workers
#   have nothing to do.

# %%
learn.take_away()
