"""Exercise 11.1: an MLP whose first matrix is cut by columns and whose second is cut by rows."""

import torch  # noqa: F401 (the solution uses it)
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
    fails_with,
    joined,
    part_of_x,
    rows_of_all,
    rows_of_the_first,
    too_much,
    watched,
)

POSITIONS, WIDTH = 2, 4
# words of the solution
A, B = "a.tensor_split(n, dim=1)[rank]", "b.tensor_split(n, dim=0)[rank]"
Y, SUM = "F.gelu(x @ own_a) @ own_b", "dist.all_reduce(y)"
MINE = "x.tensor_split(n, dim=1)[rank]"  # this rank's columns of x
ROWS = "a.tensor_split(n, dim=0)[rank]"

parallel_mlp = solution("parallel_mlp", globals())


def case(n, inner):
    """So many ranks, and so many columns in the middle."""
    words = f"{POSITIONS} positions, width {WIDTH}, {inner} columns between the matrices"
    made = drawn(1, POSITIONS, WIDTH), drawn(2, WIDTH, inner), drawn(3, inner, WIDTH)
    return n, words, lambda rank, n: tuple(x.clone() for x in made)


def run(answer, x, a, b):
    widest = -(-a.shape[1] // dist.get_world_size())
    right = F.gelu(x @ a) @ b
    return watched(answer, (x, a, b), right, 4 * len(x) * x.shape[1] * widest)


def reduced_to_one(got, seen):
    """Only the rank that `reduce` delivers to is right."""
    right = [one.rank for one in seen if one.right]
    wrong = [one.rank for one in seen if not one.right]
    return bool(right and wrong and "reduce" in seen[0].collectives) and {
        "root": right[0], "rank": wrong[0]}  # fmt: skip


def passed(seen):
    sent = max(elements_sent(one.messages, 4) for one in seen[-1])
    enough = 2 * 3 / 4 * POSITIONS * WIDTH
    return Passed((("sent by a rank of 4, at most", sent, enough, "elements"),))


GATHERED = (
    "parts = [torch.empty_like(y) for _ in range(n)]\n    dist.all_gather(parts, y)\n    y = "
)

EXERCISE = RankAnswer(
    parallel_mlp,
    run=run,
    cases=[case(1, 3), case(3, 6), case(3, 7), case(4, 8), case(4, 5)],
    mistakes=[
        ("no_sum", {f"    {SUM}\n": ""}),
        ("mean", {"return y": "return y / n"}),
        ("rank_0", {SUM: "dist.broadcast(y, 0)"}),
        ("n_times", {A: "a", B: "b"}),
        ("gelu_of_terms", {A: ROWS, B: "b", "x @ own_a": f"{MINE} @ own_a"}),
        ("gelu_last", {Y: "F.gelu(x @ own_a @ own_b)"}),
        ("gelu_last", {Y: "x @ own_a @ own_b", "return y": "return F.gelu(y)"}),
        ("no_gelu", {Y: "x @ own_a @ own_b"}),
        ("tanh", {"F.gelu(x @ own_a)": "F.gelu(x @ own_a, approximate='tanh')"}),
        ("other_rows", {B: "b.tensor_split(n, dim=0)[rank - 1]"}),
        ("other_rows", {B: "b.tensor_split(n, dim=0)[(rank + 1) % n]"}),
        ("other_rows", {B: "b.tensor_split(n, dim=0)[n - 1 - rank]"}),
        ("adds_columns", {Y: "x @ own_a", SUM: f"{SUM}\n    y = F.gelu(y) @ own_b\n    {SUM}"}),
        Mistake("shapes", {B: "b.tensor_split(n, dim=1)[rank]"}, when=rows_of_all),
        Mistake("part_of_x", {Y: f"F.gelu({MINE} @ own_a) @ own_b"}, when=part_of_x),
        Mistake("all_of_x", {A: ROWS}, when=rows_of_the_first),
        ("remainder", {A: "a[:, rank * (a.shape[1] // n) : (rank + 1) * (a.shape[1] // n)]",
                       B: "b[rank * (len(b) // n) : (rank + 1) * (len(b) // n)]"}),
        Mistake("chunk", {A: "a.chunk(n, dim=1)[rank]", B: "b.chunk(n)[rank]"},
                when=lambda seen: len(seen) == 4 and fails_with(seen, "tuple index"), hangs=True),
        Mistake("joined", {SUM: GATHERED + "torch.cat(parts, dim=1)"}, when=joined),
        Mistake("reduce", {SUM: "dist.reduce(y, 0)"}, when=reduced_to_one),
        Mistake("in_place", {SUM: "", "return y": "return dist.all_reduce(y)"}, when=nothing_back),
        Mistake("never_waited", {SUM: "dist.all_reduce(y, async_op=True)"},
                when=not_waited),
    ],
    same=SAME,
    wire=lambda seen: None,  # a mistake is in the numbers, however they were sent
    facts=facts,
    waste=lambda seen, n: too_much(seen, POSITIONS * WIDTH, n),
    passed=passed,
)  # fmt: skip
