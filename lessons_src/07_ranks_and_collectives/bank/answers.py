"""The bank of lesson 07: answers that its checks must refuse, and others that they must accept.

Each wrong answer stands under the key of the sentence that it must get. They are sent to the ranks
by value, as a notebook's functions are.
"""

import torch
import torch.distributed as dist

from dtlib.scratch.ring import exchange


def me():
    return dist.get_rank(), dist.get_world_size()


# Beyond the table of 32.


# --- 7.2 pass_right -------------------------------------------------------------------------


def send_then_receive(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = torch.empty_like(x)
    dist.send(x, (rank + 1) % n)
    dist.recv(arrived, (rank - 1) % n)
    return arrived


def receive_then_send(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = torch.empty_like(x)
    dist.recv(arrived, (rank - 1) % n)
    dist.send(x, (rank + 1) % n)
    return arrived


def no_modulo(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = torch.empty_like(x)
    sending = dist.isend(x, rank + 1)
    dist.recv(arrived, (rank - 1) % n)
    sending.wait()
    return arrived


def one_buffer(x):
    rank, n = me()
    if n == 1:
        return x
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(x, (rank - 1) % n)
    sending.wait()
    return x


def writes_too_early(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    x.fill_(-1)
    dist.recv(arrived, (rank - 1) % n)
    sending.wait()
    return arrived


def left_for_right(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = torch.empty_like(x)
    sending = dist.isend(x, (rank - 1) % n)
    dist.recv(arrived, (rank + 1) % n)
    sending.wait()
    return arrived


def not_alone(x):
    rank, n = me()
    arrived = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(arrived, (rank - 1) % n)
    sending.wait()
    return arrived


# Beyond the table of 32.
def never_waits(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = torch.empty_like(x)
    dist.isend(x, (rank + 1) % n)
    dist.recv(arrived, (rank - 1) % n)
    return arrived


def never_waits_for_what_arrives(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = torch.empty_like(x)
    sending = dist.isend(x, (rank + 1) % n)
    dist.irecv(arrived, (rank - 1) % n)
    sending.wait()
    return arrived


def keeps_its_own(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = x.clone()
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(torch.empty_like(x), (rank - 1) % n)
    sending.wait()
    return arrived


def gathers_all(x):
    rank, n = me()
    everything = [torch.empty_like(x) for _ in range(n)]
    dist.all_gather(everything, x)
    return everything[(rank - 1) % n]


def small_buffer(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = torch.empty(1)
    sending = dist.isend(x, (rank + 1) % n)
    dist.recv(arrived, (rank - 1) % n)
    sending.wait()
    return arrived


# --- 7.3 ring_all_reduce --------------------------------------------------------------------


def ring(x, *, receive=1, update="add", second="copy", start=1, pieces="even", halves=2, extra=0):
    """A ring with one thing changed."""
    rank, n = me()
    chunks = list(x.tensor_split(n) if pieces == "even" else x.chunk(n))
    for s in range(n - 1 + extra):
        out, into = (rank - s) % n, (rank - s - receive) % n
        if update == "same":
            out, into = rank, (rank - 1) % n
        arrived = torch.empty_like(chunks[into])
        exchange(chunks[out], arrived)
        if update == "copy":
            chunks[into].copy_(arrived)
        elif update == "new":
            chunks[into] = chunks[into] + arrived
        else:
            chunks[into] += arrived
    for s in range(n - 1 if halves == 2 else 0):
        out, into = (rank + start - s) % n, (rank + start - 1 - s) % n
        arrived = torch.empty_like(chunks[into])
        exchange(chunks[out], arrived)
        if update == "new":
            chunks[into] = arrived
        elif second == "add":
            chunks[into] += arrived
        else:
            chunks[into].copy_(arrived)
    return x


def copies_in_the_first_half(x):
    return ring(x, update="copy")


def wrong_chunk(x):
    return ring(x, receive=-1)


def same_chunk(x):
    return ring(x, update="same")


def first_half_only(x):
    return ring(x, halves=1)


def adds_in_the_second_half(x):
    return ring(x, second="add")


def starts_with_chunk_rank(x):
    return ring(x, start=0)


def new_objects(x):
    return ring(x, update="new")


def torch_chunk(x):
    return ring(x, pieces="chunk")


def whole_tensor(x):
    _, n = me()
    total, passing = x.clone(), x.clone()
    for _ in range(n - 1):
        arrived = torch.empty_like(passing)
        exchange(passing, arrived)
        total += arrived
        passing = arrived
    return total


def n_steps(x):
    return ring(x, extra=int(dist.get_world_size() > 1))


def running_total(x):
    _, n = me()
    total = x.clone()
    for _ in range(n - 1):
        arrived = torch.empty_like(total)
        exchange(total, arrived)
        total = total + arrived
    return total


# Beyond the table of 32.
def n_steps_even_alone(x):
    return ring(x, extra=1)


def torch_chunk_in_the_first_half(x):
    return ring(x, pieces="chunk", halves=1)


def wrong_chunk_in_the_first_half(x):
    return ring(x, receive=-1, halves=1)


def same_chunk_in_the_first_half(x):
    return ring(x, update="same", halves=1)


def copies_and_stops(x):
    return ring(x, update="copy", halves=1)


def new_objects_and_stops(x):
    return ring(x, update="new", halves=1)


def one_step_more_and_stops(x):
    return ring(x, halves=1, extra=int(dist.get_world_size() > 1))


def another_owner(x):
    """A ring that starts one chunk earlier: rank 0 finishes chunk 0."""
    rank, n = me()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        arrived = torch.empty_like(chunks[(rank - s - 2) % n])
        exchange(chunks[(rank - s - 1) % n], arrived)
        chunks[(rank - s - 2) % n].add_(arrived)
    return x


def divides_the_sum(x):
    return ring(x) / dist.get_world_size()


def against_the_stream(x):
    """Counts chunks upwards, so that what arrives is added to a chunk of another place."""
    rank, n = me()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        arrived = torch.empty_like(chunks[(rank + s + 1) % n])
        exchange(chunks[(rank + s) % n], arrived)
        chunks[(rank + s + 1) % n].add_(arrived)
    for s in range(n - 1):
        arrived = torch.empty_like(chunks[(rank + s) % n])
        exchange(chunks[(rank + s - 1) % n], arrived)
        chunks[(rank + s) % n].copy_(arrived)
    return x


def against_the_stream_and_stops(x):
    rank, n = me()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        arrived = torch.empty_like(chunks[(rank + s + 1) % n])
        exchange(chunks[(rank + s) % n], arrived)
        chunks[(rank + s + 1) % n].add_(arrived)
    return x


def uses_all_reduce(x):
    dist.all_reduce(x)
    return x


def does_nothing(x):
    return x * 1


# --- right answers, differently written -----------------------------------------------------


def pass_even_and_odd(x):
    rank, n = me()
    if n == 1:
        return x
    arrived = torch.empty_like(x)
    right, left = (rank + 1) % n, (rank - 1) % n
    if rank % 2 == 0:
        dist.send(x, right)
        dist.recv(arrived, left)
    else:
        dist.recv(arrived, left)
        dist.send(x, right)
    return arrived


def pass_batched(x):
    rank, n = me()
    arrived = x.clone()
    if n > 1:
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, x, (rank + 1) % n),
                dist.P2POp(dist.irecv, arrived, (rank - 1 + n) % n),
            ]
        )
        for work in works:
            work.wait()
    return arrived


def half_written_out(x):
    n, r = dist.get_world_size(), dist.get_rank()
    parts = torch.tensor_split(x, n)
    i = r
    for _ in range(n - 1):
        j = (i + n - 1) % n
        incoming = torch.zeros_like(parts[j])
        exchange(parts[i], incoming)
        parts[j].add_(incoming)
        i = j
    return x


def half_by_ceiling(x):
    """Chunks of ⌈size/n⌉ with a short or empty tail; changes x and returns nothing."""
    rank, n = me()
    per = -(-x.numel() // n)
    chunks = [x[k * per : (k + 1) * per] for k in range(n)]
    for s in range(n - 1):
        into = chunks[(rank - s - 1) % n]
        arrived = torch.empty_like(into)
        exchange(chunks[(rank - s) % n], arrived)
        into[:] = into + arrived


def ring_another_start(x):
    """Starts with chunk rank - 1, so that rank r finishes chunk r."""
    rank, n = me()
    x = x.clone()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        arrived = torch.empty_like(chunks[(rank - s - 2) % n])
        exchange(chunks[(rank - s - 1) % n], arrived)
        chunks[(rank - s - 2) % n].add_(arrived)
    for s in range(n - 1):
        arrived = torch.empty_like(chunks[(rank - s - 1) % n])
        exchange(chunks[(rank - s) % n], arrived)
        chunks[(rank - s - 1) % n].copy_(arrived)
    return x


def ring_one_loop(x):
    n, rank = dist.get_world_size(), dist.get_rank()
    chunks = list(torch.tensor_split(x, n))
    for s in range(2 * (n - 1)):
        out, into = chunks[(rank - s) % n], chunks[(rank - s - 1) % n]
        arrived = torch.empty_like(into)
        exchange(out, arrived)
        into.copy_(into + arrived if s < n - 1 else arrived)


# Exercise, the key of the sentence, the answer: those of the table, in its order.
WRONG = [
    ("pass_right", "all_send", send_then_receive),
    ("pass_right", "all_receive", receive_then_send),
    ("pass_right", "no_modulo", no_modulo),
    ("pass_right", "one_buffer", one_buffer),
    ("pass_right", "early_write", writes_too_early),
    ("pass_right", "swapped", left_for_right),
    ("pass_right", "alone", not_alone),
    ("ring_all_reduce", "overwrote", copies_in_the_first_half),
    ("ring_all_reduce", "wrong_chunk", wrong_chunk),
    ("ring_all_reduce", "same_chunk", same_chunk),
    ("ring_all_reduce", "half", first_half_only),
    ("ring_all_reduce", "added", adds_in_the_second_half),
    ("ring_all_reduce", "unfinished", starts_with_chunk_rank),
    ("ring_all_reduce", "new_object", new_objects),
    ("ring_all_reduce", "chunk", torch_chunk),
    ("ring_all_reduce", "whole_tensor", whole_tensor),
    ("ring_all_reduce", "extra_step", n_steps),
    ("ring_all_reduce", "running_total", running_total),
]


def sums_a_copy(x):
    return half_written_out(x.clone())


def chunk_of_the_step(x):
    n = dist.get_world_size()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        arrived = torch.empty_like(chunks[s + 1])
        exchange(chunks[s], arrived)
        chunks[s + 1].add_(arrived)
    return x


# More that students write, and the first half's own check.
ALSO_WRONG = [
    ("ring_reduce_scatter", "value", chunk_of_the_step),
    ("ring_reduce_scatter", "new_object", sums_a_copy),
    ("pass_right", "never_waited", never_waits),
    ("pass_right", "never_waited", never_waits_for_what_arrives),
    ("pass_right", "own", keeps_its_own),
    ("pass_right", "collective", gathers_all),
    ("pass_right", "died", small_buffer),
    ("ring_all_reduce", "collective", uses_all_reduce),
    ("ring_all_reduce", "silent", does_nothing),
    ("ring_all_reduce", "alone", n_steps_even_alone),
    ("ring_all_reduce", "mixed", against_the_stream),
    ("ring_all_reduce", "mean", divides_the_sum),
    ("ring_reduce_scatter", "other_owner", against_the_stream_and_stops),
    ("ring_reduce_scatter", "overwrote", copies_and_stops),
    ("ring_reduce_scatter", "wrong_chunk", wrong_chunk_in_the_first_half),
    ("ring_reduce_scatter", "same_chunk", same_chunk_in_the_first_half),
    ("ring_reduce_scatter", "new_object", new_objects_and_stops),
    ("ring_reduce_scatter", "chunk", torch_chunk_in_the_first_half),
    ("ring_reduce_scatter", "extra_step", one_step_more_and_stops),
    ("ring_reduce_scatter", "other_owner", another_owner),
    ("ring_reduce_scatter", "both_halves", ring_one_loop),
    ("ring_reduce_scatter", "running_total", running_total),
]

RIGHT = [
    ("pass_right", pass_even_and_odd),
    ("pass_right", pass_batched),
    ("ring_reduce_scatter", half_written_out),
    ("ring_reduce_scatter", half_by_ceiling),
    ("ring_all_reduce", ring_another_start),
    ("ring_all_reduce", ring_one_loop),
]

# Sentences for answers that are right in all but one way, which no answer of this bank is.
RARE = {
    ("pass_right", "no_such_rank"),
    ("pass_right", "bytes"),
    *(("ring_all_reduce", key) for key in ("whole_tensor_same_bits", "bits", "bytes")),
}

# The same mistake twice, written differently: the chunk that arrives is one too far to the right.
RING = """\
def ring_reduce_scatter(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    chunks = x.tensor_split(n)
    for s in range(n - 1):
        out, into = {numbers}
        arrived = torch.empty_like(chunks[into])
        exchange(chunks[out], arrived)
        chunks[into].add_(arrived)
    return x"""
LADDER = (
    "ring_reduce_scatter",
    RING.format(numbers="(rank - s) % n, (rank - s + 1) % n"),
    RING.format(numbers="(rank - s) % n, (rank + 1 - s) % n"),
)
