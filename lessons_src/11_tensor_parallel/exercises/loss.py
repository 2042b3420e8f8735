"""Exercise 11.3: cross-entropy of logits of which each rank has some words."""

import torch
import torch.distributed as dist
from torch.nn import functional as F

from dtlib.learn.explanations import not_waited, nothing_back, number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.reports import close
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.learn.wire import elements_sent

from .cutting import SAME, drawn, facts, fails_with
from .mlp import reduced_to_one

# words of the solution
TOP, TOTAL, COLUMN, TARGET, STACK, SUM, RETURN = (
    "    dist.all_reduce(top, dist.ReduceOp.MAX)\n",
    "(logits - top[:, None]).exp().sum(dim=1)",
    "(labels - first).where(own, 0)",
    "logits.gather(1, column[:, None])[:, 0].where(own, 0)",
    "torch.stack([total, target])",
    "dist.all_reduce(sums)",
    "sums[0].log() + top - sums[1]",
)

vocabulary_loss = solution("vocabulary_loss", globals())


def case(n, words, positions, large=0, since=0):
    """So many ranks share so many words; the labels go through all of them.

    The logits from word `since` on are around `large`.
    """
    said = f"{words} words, {positions} positions" + f", logits around {large}" * bool(large)
    said += f" from word {since} on, else around 0" * bool(since)
    logits = drawn(7, positions, words) + large * (torch.arange(words) >= since)
    labels = torch.arange(positions) * 2 % words

    def make(rank, n):
        parts = [part.clone() for part in logits.tensor_split(n, dim=1)]
        first = sum(part.shape[1] for part in parts[:rank])
        return parts[rank], labels.clone(), first, logits

    return n, said, make


def run(answer, logits, labels, first, whole):
    """What the answer returns, if it leaves the logits as they were."""
    before = logits.clone()
    found = answer(logits, labels, first)
    right = F.cross_entropy(whole, labels, reduction="none")
    same = isinstance(found, torch.Tensor) and close(found, right, SAME)
    if same and not torch.equal(before, logits):
        raise Wrong("changed", rank=dist.get_rank())
    return found


def facts_of_loss(got, want, labels, n):
    """Beside the first number that is wrong, its position and label."""
    told = facts(got, want)
    wrong = zip(got[told["rank"]], want[told["rank"]], strict=False) if isinstance(
        got[told["rank"]], list) else ()  # fmt: skip
    k = next((k for k, (x, y) in enumerate(wrong) if not abs(x - y) < SAME), 0)
    if isinstance(got[told["rank"]], list) and len(got[told["rank"]]) > k:
        told |= {"got": number(got[told["rank"]][k]), "want": number(want[told["rank"]][k])}
    return {**told, "position": k, "label": int(labels[0][k]), "n": n}


def waste(seen, labels, n):
    """Three numbers per position are enough, however many words there are."""
    started = not_waited(seen)
    if started:
        return Wrong("never_waited", **started)
    enough = 2 * (n - 1) / n * 3 * len(labels[0])
    for one in seen:
        sent = elements_sent(one.messages, n)
        if sent > enough + 1e-9:
            return Wrong("gathers", rank=one.rank, n=n, sent=number(sent), enough=number(enough))
    return None


def own_softmax(logits, labels, first):
    own = (labels >= first) & (labels < first + logits.shape[1])
    loss = F.cross_entropy(logits, (labels - first).where(own, 0), reduction="none")
    loss = loss.where(own, 0)
    dist.all_reduce(loss)
    return loss


def passed(seen):
    sent = max(elements_sent(one.messages, 4) for one in seen[-1])
    positions = len(seen[-1][0].values)
    return Passed((("sent by a rank of 4 per position", sent / positions, 4.5, "elements"),))


EXERCISE = RankAnswer(
    vocabulary_loss,
    run=run,
    cases=[case(1, 4, 3), case(3, 6, 4), case(3, 7, 4), case(3, 6, 4, 1000),
           case(3, 6, 4, 1000, since=4), case(4, 9, 5)],
    mistakes=[
        ("own_max", {TOP: ""}),
        ("smallest_max", {"ReduceOp.MAX": "ReduceOp.MIN"}),
        ("overflow", {"logits - top[:, None]": "logits", " + top": ""}),
        ("summed_max", {", dist.ReduceOp.MAX": ""}),
        ("stays_home", {SUM: "pass"}),
        ("target_stays", {SUM: "dist.all_reduce(sums[0])"}),
        ("total_stays", {SUM: "dist.all_reduce(sums[1])"}),
        ("strangers", {"[:, 0].where(own, 0)": "[:, 0]"}),
        ("strangers", {COLUMN: "(labels - first) % logits.shape[1]",
                       "[:, 0].where(own, 0)": "[:, 0]"}),
        ("first_forgotten", {COLUMN: "labels % logits.shape[1]"}),
        ("mean", {SUM: "dist.all_reduce(sums); sums /= dist.get_world_size()"}),
        ("logs_added", {STACK: "torch.stack([total.log(), target])", "sums[0].log()": "sums[0]"}),
        ("sign", {RETURN: "sums[1] - sums[0].log() - top"}),
        ("top_forgotten", {" + top": ""}),
        ("top_twice", {TARGET: "(logits - top[:, None]).gather(1, column[:, None])"
                               "[:, 0].where(own, 0)"}),
        ("no_log", {"sums[0].log()": "sums[0]"}),
        ("averaged", {RETURN: f"({RETURN}).mean()"}),
        ("own_softmax", own_softmax),
        Mistake("out_of_part", {COLUMN: "labels - first"},
                when=lambda seen: fails_with(seen, "out of bounds"), hangs=True),
        Mistake("reduce", {SUM: "dist.reduce(sums, 0)"}, when=reduced_to_one),
        Mistake("in_place", {RETURN: "dist.all_reduce(sums)"}, when=nothing_back),
        Mistake("never_waited", {SUM: "dist.all_reduce(sums, async_op=True)"}, when=not_waited),
    ],
    same=SAME,
    wire=lambda seen: [(m.kind, m.elements, m.waited) for m in seen.messages],
    facts=facts_of_loss,
    waste=waste,
    passed=passed,
)  # fmt: skip
