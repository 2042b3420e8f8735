"""Exercise 7.2: send to the right, receive from the left, on a ring of any size."""

import torch
import torch.distributed as dist  # noqa: F401  # the solution uses it

from dtlib.learn.explanations import number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.rounds import painted
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

# 16 MB: with a few bytes a message has left before its buffer can be overwritten.
LARGE = 4_000_000
FLAGS = {"one_buffer": "overlaps", "early_write": "changed"}
# Words of the solution.
SENDS, RECEIVES = "sending = dist.isend(x, (rank + 1) % n)", "dist.recv(arrived, (rank - 1) % n)"
WAITS = "\n    sending.wait()"


def touched(seen):
    """What a rank did to a tensor on its way: keys of sentences."""
    found = [key for key, flag in FLAGS.items() if any(getattr(m, flag) for m in seen.messages)]
    return found + ["never_waited"] * bool(left(seen))


def left(seen):
    """The call that a rank started and did not wait for: isend, irecv or None."""
    return next((f"i{m.kind}" for m in seen.messages if m.peer is not None and not m.waited), None)


def right(x, seen):
    return seen.right and (x.numel() < LARGE or not touched(seen))


def held(seen):
    return seen.counts or {v: seen.values.count(v) for v in seen.values}


def saw(seen, n):
    """What a rank received, in words, the most of it first; None where it is as it should be."""
    owner = {10.0**rank: f"rank {rank}'s tensor" for rank in range(n)}
    most = sorted(held(seen).items(), key=lambda item: -item[1])
    if len(most) > 1:
        parts = [f"{count:,} numbers are {owner.get(v, number(v))}" for v, count in most[:2]]
        return "received a mixture: " + " and ".join(parts)
    source = (seen.rank - 1) % n
    if not most or most[0][0] == 10.0**source:
        return None
    what = owner.get(most[0][0], number(most[0][0]))
    return f"received {what} where rank {source}'s tensor was due"


def touches(key):
    """Recognise a tensor that was touched on its way."""

    def when(got, seen, n):
        if n == 1 or not any(key in touched(one) for one in seen):
            return False
        # The rank that shows it best: one with a mixture, else any wrong one.
        best = min(seen, key=lambda one: (len(held(one)) < 2, saw(one, n) is None))
        lucky = "was lucky this time and received the right numbers"
        return {"rank": best.rank, "saw": saw(best, n) or lucky}

    return when


def never_waited(seen, n):
    """The tensor of one that returned is gone with the call, and the message may be, too."""
    ranks = [one for one in seen if one.failure is None and left(one)]
    return n > 1 and bool(ranks) and {"rank": ranks[0].rank, "call": left(ranks[0])}


def alone(seen, n):
    """A message, to oneself or to a rank that does not exist, where there is one rank."""
    return n == 1 and seen[0].failure is not None and bool(seen[0].messages)


def no_such_rank(seen, n):
    for one in seen:
        for m in one.messages:
            if n > 1 and m.peer is not None and not 0 <= m.peer < n:
                what = "sent to" if m.kind == "send" else "asked to receive from"
                return {"rank": one.rank, "what": what, "peer": m.peer}
    return False


def no_modulo(seen, n):
    found = no_such_rank(seen, n)
    return found and found["what"] == "sent to" and found["peer"] == n and found


def waste(x, seen, n):
    for one in seen if x[0].numel() == LARGE else ():
        if one.collectives:
            return Wrong("collective", call=one.collectives[0])
        if one.bytes_sent != 4 * LARGE:
            return Wrong("bytes", rank=one.rank, sent=one.bytes_sent, target=4 * LARGE)
    return None


def facts(seen, n):
    """What rank 1 holds, and from where where all was swapped."""
    return {"got": number(next(iter(held(seen[1 % n])), None)), "source": 2 % n}


def passed(seen):
    large = seen[2]
    slowest = max(one.seconds for one in large)
    return Passed(
        (("bytes sent by each rank", large[0].bytes_sent, 4 * LARGE, "bytes"),),
        f"16 MB went round 3 ranks in {slowest * 1e3:.0f} ms.",
    )


pass_right = solution("pass_right", globals())

EXERCISE = RankAnswer(
    pass_right,
    cases=[
        (1, "4 numbers", painted(4)),
        (3, "4 numbers", painted(4)),
        (3, "4,000,000 numbers", painted(LARGE)),
        (4, "4 numbers", painted(4)),
        (4, "a table of 3 by 2 integers", lambda rank, n: torch.full((3, 2), 10**rank)),
    ],
    judge=right,
    wire=touched,
    mistakes=[
        Mistake("alone", {"    if n == 1:\n        return x.clone()\n": ""}, alone),
        Mistake("no_modulo", {"(rank + 1) % n": "rank + 1"}, no_modulo, hangs=True),
        Mistake("no_such_rank", {"(rank - 1) % n": "rank - 1"}, no_such_rank, hangs=True),
        Mistake("never_waited", {"sending.wait()": ""}, never_waited, hangs=True),
        Mistake("never_waited", {"dist.recv": "dist.irecv"}, never_waited, hangs=True),
        Mistake("all_send", {"sending = dist.isend": "dist.send", WAITS: ""}, hangs=lambda: "send"),
        Mistake("all_receive",
                {SENDS: RECEIVES, f"{RECEIVES}{WAITS}": "dist.send(x, (rank + 1) % n)"},
                hangs=lambda: "recv"),
        Mistake("one_buffer", {"torch.empty_like(x)": "x"}, touches("one_buffer")),
        Mistake("early_write", {SENDS: f"{SENDS}\n    x.fill_(-1)"}, touches("early_write")),
        ("swapped", {"rank + 1": "rank - 1", RECEIVES: "dist.recv(arrived, (rank + 1) % n)"}),
        ("own", {"return arrived": "return x"}),
    ],
    waste=waste,
    facts=facts,
    passed=passed,
)  # fmt: skip
