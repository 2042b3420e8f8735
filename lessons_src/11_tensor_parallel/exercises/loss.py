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

from .cutting import SAME, all_reduced, drawn, facts, fails_with, first_wrong
from .mlp import reduced_to_one

# words of the solution
TOP, COLUMN, STACK, SUM, RETURN = (
    "    dist.all_reduce(top, dist.ReduceOp.MAX)\n",
    "(labels - first).where(own, 0)",
    "torch.stack([total, target])",
    "dist.all_reduce(sums)",
    "sums[0].log() + top - sums[1]",
)

vocabulary_loss = solution("vocabulary_loss", globals())


def both(key, words):
    """A mistake in an answer that adds the maximum at the end, and in one that subtracts it first.

    The second takes the label's logit of what is left after the subtraction, so that the same
    mistake gives other numbers.
    """
    if " + top" not in words:
        yield key, {**words, "logits.gather": "(logits - top[:, None]).gather", " + top": ""}
    yield key, words


def case(n, words, positions, large=0, since=0, by_position=False, labels=None):
    """So many ranks share so many words; the labels go through all of them.

    The logits from word `since` on are around `large`, or those before word -`since`; by position,
    around 0, `large` and -`large` in turn.
    """
    said = f"{words} words, {positions} positions" + f", logits around {large}" * bool(large)
    said += f" from word {since} on, else around 0" * (since > 0)
    said += f" before word {-since}, else around 0" * (since < 0)
    word = torch.arange(words)
    logits = drawn(7, positions, words) + large * (word >= since if since >= 0 else word < -since)
    if by_position:
        said = f"{words} words, positions with logits around 0, {large}, −{large} and so on"
        logits = drawn(7, positions, words)
        logits += large * torch.tensor([0, 1, -1] * positions)[:positions, None]
    said += f", labels {labels}" * bool(labels)
    target = torch.tensor(labels) if labels else torch.arange(positions) * 2 % words

    def make(rank, n):
        parts = [part.clone() for part in logits.tensor_split(n, dim=1)]
        first = sum(part.shape[1] for part in parts[:rank])
        return parts[rank], target.clone(), first, logits

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
    told, k = facts(got, want), 0
    if all(isinstance(values, list) and values for values in (*got, *want)):
        _, k = first_wrong(got, want)
    return {**told, "position": k, "label": int(labels[0][k]), "n": n}


def waste(seen, labels, n):
    """One all-reduce of three numbers per position is enough, however many words there are."""
    started = not_waited(seen)
    if started:
        return Wrong("never_waited", **started)
    enough = all_reduced(3 * len(labels[0]), n)
    for one in seen:
        sent = elements_sent(one.messages, n)
        if sent > enough:
            said = " and ".join(dict.fromkeys(one.collectives)) or "send"
            return Wrong("gathers", rank=one.rank, n=n, sent=number(sent), enough=number(enough),
                         calls=said, positions=len(labels[0]))  # fmt: skip
    return None


def own_softmax(logits, labels, first):
    own = mine(logits, labels, first)
    loss = F.cross_entropy(logits, (labels - first).where(own, 0), reduction="none")
    loss = loss.where(own, 0)
    dist.all_reduce(loss)
    return loss


def mine(logits, labels, first):
    """Which labels are this rank's own words."""
    return (labels >= first) & (labels < first + logits.shape[1])


def left_early(logits, labels, first):
    if not mine(logits, labels, first).any():
        return torch.zeros(len(labels), dtype=logits.dtype)
    return vocabulary_loss(logits, labels, first)


def waits_if_owner(logits, labels, first):
    return "all_reduce" if mine(logits, labels, first).any() else None


def passed(seen):
    sent = max(elements_sent(one.messages, 4) for one in seen[-1])
    positions = len(seen[-1][0].values)
    return Passed((("sent by a rank of 4 per position", sent / positions, 4.5, "elements"),))


EXERCISE = RankAnswer(
    vocabulary_loss,
    run=run,
    cases=[case(1, 4, 3), case(3, 6, 4), case(3, 7, 4), case(3, 6, 4, 1000),
           case(3, 6, 4, 1000, since=4), case(3, 6, 4, 1000, by_position=True),
           case(3, 6, 3, 1000, since=-2, labels=[0, 1, 0]),
           case(4, 9, 5), case(4, 9, 5, 1000, since=7)],
    mistakes=[
        *both("own_max", {TOP: ""}),
        ("mean_max", {TOP: "    dist.all_reduce(top); top /= dist.get_world_size()\n"}),
        *both("overflow", {"logits - top[:, None]": "logits", " + top": ""}),
        *both("strangers", {"[:, 0].where(own, 0)": "[:, 0]"}),
        *both("strangers", {COLUMN: "(labels - first).clamp(0, logits.shape[1] - 1)",
                            "[:, 0].where(own, 0)": "[:, 0]"}),
        ("one_max", {"logits.max(dim=1).values": "logits.max()", "top[:, None]": "top"}),
        ("one_max", {"logits.max(dim=1).values": "logits.abs().max(dim=1).values"}),
        ("one_max", {"logits.max(dim=1).values": "logits.max(dim=1).values.clamp(min=0)"}),
        ("summed_max", {", dist.ReduceOp.MAX": ""}),
        ("top_forgotten", {" + top": ""}),
        ("top_twice", {"logits.gather": "(logits - top[:, None]).gather"}),
        *both("target_stays", {SUM: "dist.all_reduce(sums[0])"}),
        *both("total_stays", {SUM: "dist.all_reduce(sums[1])"}),
        *both("stays_home", {SUM: "pass"}),
        *both("first_forgotten", {COLUMN: "labels % logits.shape[1]"}),
        ("logs_added", {STACK: "torch.stack([total.log(), target])", "sums[0].log()": "sums[0]"}),
        ("logs_added", {TOP: "", STACK: "torch.stack([logits.logsumexp(1), target])",
                        RETURN: "sums[0] - sums[1]"}),
        *both("next_word", {"labels >= first": "labels > first"}),
        *both("next_word", {"labels < first": "labels <= first",
                            COLUMN: "(labels - first).clamp(0, logits.shape[1] - 1)"}),
        *both("strangers", {COLUMN: "(labels - first) % logits.shape[1]",
                            "[:, 0].where(own, 0)": "[:, 0]"}),
        ("smallest_max", {"ReduceOp.MAX": "ReduceOp.MIN"}),
        ("rank_0_max", {TOP: "    dist.broadcast(top, 0)\n"}),
        ("overflow", {"logits - top[:, None]": "logits - 1000", " + top": " + 1000"}),
        ("mean", {SUM: "dist.all_reduce(sums); sums /= dist.get_world_size()"}),
        ("sign", {RETURN: "sums[1] - sums[0].log() - top"}),
        ("no_log", {"sums[0].log()": "sums[0]"}),
        ("averaged", {RETURN: f"({RETURN}).mean()"}),
        ("own_softmax", own_softmax),
        Mistake("left_early", left_early, hangs=waits_if_owner),
        Mistake("out_of_part", {COLUMN: "labels - first"},
                when=lambda seen: fails_with(seen, "out of bounds"), hangs=True),
        Mistake("reduce", {SUM: "dist.reduce(sums, 0)"}, when=reduced_to_one),
        Mistake("in_place", {RETURN: "dist.all_reduce(sums)"}, when=nothing_back),
        Mistake("never_waited", {SUM: "dist.all_reduce(sums, async_op=True)"}, when=not_waited),
    ],
    same=SAME,
    wire=lambda seen: None,  # a mistake is in the numbers, in however many messages they go
    facts=facts_of_loss,
    waste=waste,
    passed=passed,
)  # fmt: skip
