"""Exercise 11.2: attention of which each rank computes some heads."""

import torch  # noqa: F401 (the programs of mistakes use it)
import torch.distributed as dist
from torch.nn import functional as F

from dtlib.learn.explanations import not_waited, nothing_back
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed
from dtlib.learn.wire import elements_sent

from .cutting import (
    SAME,
    drawn,
    facts,
    joined,
    part_of_x,
    rows_of_all,
    rows_of_the_first,
    too_much,
    watched,
)
from .mlp import GATHERED, reduced_to_one

POSITIONS, WIDTH, SIZE = 3, 4, 12  # SIZE of a head: 3 and 4 ranks' heads divide it
# words of the solution
THIRDS, OWN, HEADS, OUT, SUM = (
    "qkv.chunk(3, dim=1)",
    "third.tensor_split(n, dim=1)[rank]",
    "heads // n",
    "out.tensor_split(n)[rank]",
    "dist.all_reduce(y)",
)
PROJECT = "(x @ columns for columns in own)"
TERMS = "(x.tensor_split(n, dim=1)[rank] @ columns for columns in own)"


def attend(q, k, v, heads):
    q, k, v = (t.unflatten(1, (heads, -1)).transpose(0, 1) for t in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(0, 1).flatten(1)


parallel_attention = solution("parallel_attention", globals())


def case(n, heads):
    """So many ranks and heads."""
    words = f"{heads} heads of size {SIZE}, {POSITIONS} positions, width {WIDTH}"
    inner = heads * SIZE
    made = drawn(4, POSITIONS, WIDTH), drawn(5, WIDTH, 3 * inner), drawn(6, inner, WIDTH)
    return n, words, lambda rank, n: (*(x.clone() for x in made), heads)


def run(answer, x, qkv, out, heads):
    q, k, v = (x @ qkv).chunk(3, dim=1)
    right = attend(q, k, v, heads) @ out
    own = len(out) // dist.get_world_size()
    products = 8 * len(x) * x.shape[1] * own
    return watched(answer, (x, qkv, out, heads), right, products + 4 * len(x) ** 2 * own)


def no_out(seen, out):
    """What the heads give, of which `out` has not been applied; on one rank it shows at once."""
    one, rows = seen[0], len(out[0])
    return (
        len(seen) == 1
        and one.shape[1:] == (rows,)
        and {"rank": 0, "wide": list(one.shape), "shape": list(one.want_shape)}
    )


def passed(seen):
    sent = max(elements_sent(one.messages, 4) for one in seen[-1])
    enough = 2 * 3 / 4 * POSITIONS * WIDTH
    return Passed((("sent by a rank of 4, at most", sent, enough, "elements"),))


EXERCISE = RankAnswer(
    parallel_attention,
    run=run,
    cases=[case(1, 2), case(3, 3), case(3, 6), case(4, 4), case(4, 8)],
    mistakes=[
        ("no_sum", {f"    {SUM}\n": ""}),
        ("mean", {"return y": "return y / n"}),
        ("rank_0", {SUM: "dist.broadcast(y, 0)"}),
        ("n_times", {OWN: "third", HEADS: "heads", OUT: "out"}),
        ("straight", {THIRDS: "qkv.tensor_split(n, dim=1)[rank].chunk(3, dim=1)", OWN: "third"}),
        ("all_heads", {HEADS: "heads"}),
        ("one_head", {HEADS: "1"}),
        ("one_head", {OWN: "third.split(len(out) // heads, dim=1)[rank]", HEADS: "1",
                      OUT: "out.split(len(out) // heads)[rank]"}),
        ("other_rows", {OUT: "out.tensor_split(n)[rank - 1]"}),
        ("order", {"q, k, v = ": "k, q, v = "}),
        ("order", {"q, k, v = ": "q, v, k = "}),
        ("order", {"q, k, v = ": "v, k, q = "}),
        ("first_keys",
         {PROJECT: f"{PROJECT}\n    k, v = (x @ t.tensor_split(n, dim=1)[0] for t in thirds[1:])"}),
        ("rank_0_heads", {OWN: "third.tensor_split(n, dim=1)[0]"}),
        ("columns", {OWN: "third[:, rank::n]", OUT: "out[rank::n]"}),
        ("per_head", {THIRDS: "qkv.unflatten(1, (heads, 3, -1)).transpose(1, 2).flatten(1)"
                              ".chunk(3, dim=1)"}),
        ("width", {THIRDS: "[qkv[:, k * x.shape[1] : (k + 1) * x.shape[1]] for k in range(3)]",
                   OUT: "out[: x.shape[1]].tensor_split(n)[rank]"}),
        ("dealt", {OWN: "third.unflatten(1, (heads, -1))[:, rank::n].flatten(1)",
                   HEADS: "heads // n"}),
        ("scores_of_terms", {OWN: "third.tensor_split(n, dim=0)[rank]", PROJECT: TERMS,
                             HEADS: "heads", OUT: "out"}),
        ("adds_heads", {f"{HEADS}) @ {OUT}": f"{HEADS})",
                        SUM: f"{SUM}\n    y = y @ {OUT}\n    {SUM}"}),
        Mistake("shapes", {OUT: "out.tensor_split(n, dim=1)[rank]"}, when=rows_of_all),
        Mistake("part_of_x", {PROJECT: TERMS}, when=part_of_x),
        Mistake("all_of_x", {OWN: "third.tensor_split(n, dim=0)[rank]"}, when=rows_of_the_first),
        Mistake("no_out", {f" @ {OUT}": ""}, when=no_out),
        Mistake("joined", {SUM: GATHERED + "torch.cat(parts, dim=1)"}, when=joined),
        Mistake("reduce", {SUM: "dist.reduce(y, 0)"}, when=reduced_to_one),
        Mistake("in_place", {SUM: "", "return y": "return dist.all_reduce(y)"}, when=nothing_back),
        Mistake("never_waited", {SUM: "dist.all_reduce(y, async_op=True)"}, when=not_waited),
    ],
    same=SAME,
    wire=lambda seen: None,  # a mistake is in the numbers, however they were sent
    facts=facts,
    waste=lambda seen, n: too_much(seen, POSITIONS * WIDTH, n),
    passed=passed,
)  # fmt: skip
