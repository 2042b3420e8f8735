"""Schedules of a pipeline, with no process at all: bubble, memory, and what cannot run."""

import random

import pytest

from dtlib.errors import BadInput
from dtlib.scratch import pipeline as p
from dtlib.scratch.pipeline.messages import peer, receipts
from dtlib.sim import pipeline as formulas

# Name in `formulas`, schedule, chunks.
ALL = [
    ("gpipe", p.gpipe, 1),
    ("1f1b", p.one_forward_one_backward, 1),
    ("interleaved", p.interleaved(2), 2),
    ("interleaved", p.interleaved(3), 3),
    ("zb-h1", p.zero_bubble_h1, 1),
]
NAMES = [f"{name}-{chunks}" for name, _, chunks in ALL]


def seconds(forward, backward, weight, chunks=1):
    """The times of one stage, of which a rank has several."""
    return {
        "Forward": forward / chunks,
        "Backward": (backward + weight) / chunks,
        "BackwardInput": backward / chunks,
        "BackwardWeight": weight / chunks,
    }


def drawn(name, count=25):
    """Ranks, micro-batches and times for which the formula of a schedule holds."""
    draw = random.Random(name)
    for _ in range(count):
        ranks = draw.randint(1, 6)
        many = draw.randint(ranks if name == "zb-h1" else 1, 4 * ranks)
        many = ranks * -(-many // ranks) if name == "interleaved" else many
        forward, backward = draw.randint(1, 9), draw.randint(1, 9)
        most = min(forward, backward) if name == "zb-h1" else 9
        yield ranks, many, forward, backward, draw.randint(1, most)


@pytest.mark.parametrize(("name", "schedule", "chunks"), ALL, ids=NAMES)
def test_the_bubble_read_off_is_the_papers(name, schedule, chunks):
    for ranks, many, *times in drawn(name):
        lists = p.with_messages(p.for_all_ranks(schedule, ranks, many))
        spans = p.follow(lists, seconds(*times, chunks=chunks))
        want = formulas.bubble(name, ranks, many, *times, chunks)
        assert p.idle_share(spans) == pytest.approx(want, abs=1e-9), (ranks, many, times)


@pytest.mark.parametrize(("name", "schedule", "chunks"), ALL, ids=NAMES)
def test_kept_activations_and_messages_are_the_formulas(name, schedule, chunks):
    for ranks, many, *_ in drawn(name):
        lists = p.for_all_ranks(schedule, ranks, many)
        for rank, (lines, whole) in enumerate(zip(lists, p.with_messages(lists), strict=True)):
            want = formulas.kept_activations(name, rank, ranks, many, chunks)
            assert p.kept_at_most(lines) == chunks * want, (ranks, many, rank)
            sent = [line for line in whole if isinstance(line, p.SendActivation | p.SendGradient)]
            assert len(sent) == formulas.messages(rank, ranks, many, chunks)


def test_the_papers_own_numbers():
    # GPipe, section 2.3: (K - 1)/(M + K - 1) of the whole time; negligible for M = 4K.
    share = formulas.bubble("gpipe", 4, 16)
    assert share / (1 + share) == pytest.approx(3 / 19)
    # Narayanan et al., figure 4: interleaving two stages halves the bubble of 3/8.
    assert formulas.bubble("1f1b", 4, 8) == 3 / 8
    assert formulas.bubble("interleaved", 4, 8, chunks=2) == 3 / 16
    # Qi et al., section 2.1: where F = B = W, the bubble of ZB-H1 is a third of that of 1F1B.
    assert formulas.bubble("zb-h1", 4, 8) == pytest.approx(3 / 8 / 3)


def words(lines):
    """Short words of a list: F0 B0, I and W for the halves of a backward."""
    short = {p.Forward: "F", p.Backward: "B", p.BackwardInput: "I", p.BackwardWeight: "W"}
    return " ".join(f"{short[type(line)]}{line.micro_batch}" for line in lines)


# Of two ranks and three micro-batches.
WORDS = {
    ("gpipe", 0): "F0 F1 F2 B2 B1 B0",
    ("one_forward_one_backward", 0): "F0 F1 B0 F2 B1 B2",
    ("one_forward_one_backward", 1): "F0 B0 F1 B1 F2 B2",
    ("zero_bubble_h1", 0): "F0 F1 I0 W0 F2 I1 W1 I2 W2",
    ("zero_bubble_h1", 1): "F0 I0 F1 I1 W0 F2 I2 W1 W2",
}


@pytest.mark.parametrize(("name", "rank"), WORDS)
def test_two_ranks_word_by_word(name, rank):
    assert words(getattr(p, name)(rank, 2, 3)) == WORDS[name, rank]


def test_interleaved_word_by_word():
    """Narayanan et al., figure 4, first rank: two micro-batches through stage 0, then stage 2."""
    lines = p.interleaved(2)(0, 2, 2)
    assert [line.stage for line in lines] == [0, 0, 2, 2, 2, 2, 0, 0]
    assert words(lines) == "F0 F1 F0 F1 B0 B1 B0 B1"
    with pytest.raises(BadInput, match="groups of 2, one for each rank, but there are 3"):
        p.interleaved(2)(0, 2, 3)


def test_a_message_takes_its_time():
    lists = p.with_messages(p.for_all_ranks(p.gpipe, 3, 4))
    spans = p.follow(lists, seconds(1, 1, 1), message=0.5)
    # The first micro-batch crosses two links forward, and the last gradient two links back.
    assert max(span.end for span in spans) == (4 + 3 - 1) * 3 + 2 * 2 * 0.5


def test_sends_that_wait_stop_1f1b_and_not_gpipe():
    p.follow(p.with_messages(p.for_all_ranks(p.gpipe, 4, 8)), blocking=True)
    lists = p.with_messages(p.for_all_ranks(p.one_forward_one_backward, 2, 4))
    with pytest.raises(BadInput) as refused:
        p.follow(lists, blocking=True)
    # Both send to each other: an activation down, a gradient up.
    assert (
        "rank 0, line 4, SendActivation(micro_batch=1, stage=0) waits for rank 1, which waits "
        "itself (rank 1, line 4, SendGradient(micro_batch=0, stage=1))" in str(refused.value)
    )


# Rank 0 computes both micro-batches before it sends the first.
BOTH_FIRST = [
    [p.Forward(0, 0), p.Forward(1, 0), p.SendActivation(0, 0), p.SendActivation(1, 0),
     p.ReceiveGradient(1, 0), p.Backward(1, 0), p.ReceiveGradient(0, 0), p.Backward(0, 0)],
    p.with_messages(p.for_all_ranks(p.gpipe, 2, 2))[1],
]  # fmt: skip


def test_a_send_that_waits_ends_when_it_is_received():
    spans = p.follow(BOTH_FIRST, seconds(1, 1, 1), blocking=True)
    # Rank 1 receives at 2, computes until 3, and only then receives again.
    assert [x.end for x in spans if isinstance(x.line, p.SendActivation)] == [2, 3]
    spans = p.follow(BOTH_FIRST, seconds(1, 1, 1))
    assert [x.end for x in spans if isinstance(x.line, p.SendActivation)] == [2, 2]


ONE = [p.Forward(0, 0), p.SendActivation(0, 0), p.ReceiveGradient(0, 0), p.Backward(0, 0)]
TWO = [p.ReceiveActivation(0, 1), p.Forward(0, 1), p.Backward(0, 1), p.SendGradient(0, 1)]


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (ONE[1:], TWO, "rank 0's list has no Forward(micro_batch=0, stage=0): add it."),
        (ONE[:3], TWO, "rank 0's list has Forward(micro_batch=0, stage=0), but no "
         "Backward(micro_batch=0, stage=0): add it, or drop the forward"),
        ([*ONE, p.BackwardWeight(0, 0)], TWO, "stage=0) and a half of it, too: keep one."),
        ([*ONE[:3], p.BackwardInput(0, 0)], TWO, "rank 0's list has no BackwardWeight("),
        ([*ONE, ONE[0]], TWO, "rank 0, line 5, Forward(micro_batch=0, stage=0) is there twice"),
        ([*ONE, p.Forward(0, 1)], TWO, "is for stage 1, which is on rank 1: move it"),
        ([ONE[0], *ONE[2:]], TWO, "rank 1 has ReceiveActivation(micro_batch=0, stage=1), but ra"),
        (ONE, TWO[:3], "rank 0 has ReceiveGradient(micro_batch=0, stage=0), but rank 1 has no Se"),
        (ONE, [*TWO[:2], *TWO[3:], TWO[2]], "rank 1, line 3, SendGradient(micro_batch=0, stage=1),"
         " needs BackwardInput(micro_batch=0, stage=1) before it."),
        ([*ONE[:2], ONE[3], ONE[2]], TWO, "rank 0, line 3, Backward(micro_batch=0, stage=0), needs "
         "ReceiveGradient("),
        ([ONE[1], ONE[0], *ONE[2:]], TWO, "rank 0, line 1, SendActivation(micro_batch=0, stage=0), "
         "needs Forward("),
        ([ONE[2], *ONE[:2], ONE[3]], TWO, "rank 0, line 1, ReceiveGradient(micro_batch=0, stage=0) "
         "waits for rank 1, which waits itself (rank 1, line 1, ReceiveActivation("),
    ],
)  # fmt: skip
def test_what_no_worker_could_do_is_refused(one, two, said):
    p.follow([ONE, TWO])
    with pytest.raises(BadInput) as refused:
        p.follow([one, two])
    assert said in str(refused.value)


def test_one_rank_with_several_stages_needs_no_message_but_an_order():
    lines = p.interleaved(2)(0, 1, 2)
    assert p.with_messages([lines]) == [lines]
    assert p.idle_share(p.follow([lines])) == 0
    with pytest.raises(BadInput, match=r"line 1, Forward\(.*stage=1\), needs Forward\(.*stage=0"):
        p.follow([[lines[1], lines[0], *lines[2:]]])
    with pytest.raises(BadInput, match=r"Backward\(.*stage=0\), needs BackwardInput\(.*stage=1"):
        p.follow([[p.Forward(0, 0), p.Forward(0, 1), p.Backward(0, 0), p.Backward(0, 1)]])


@pytest.mark.parametrize(("name", "schedule", "chunks"), ALL, ids=NAMES)
def test_a_receipt_names_sends_that_have_been_received(name, schedule, chunks):
    """Follow the lists; at each receive, what it proves must have been received already."""
    lists = p.with_messages(p.for_all_ranks(schedule, 3, 6))
    proofs = [receipts(lists, rank) for rank in range(3)]
    arrived, proven = set(), 0
    for _, line, *_ in p.follow(lists):
        if isinstance(line, p.ReceiveActivation | p.ReceiveGradient):
            gone = 1 if isinstance(line, p.ReceiveGradient) else -1
            kind = p.SendGradient if gone == 1 else p.SendActivation
            arrived.add(kind(line.micro_batch, line.stage + gone))
            assert arrived.issuperset(proofs[line.stage % 3][line])
            proven += len(proofs[line.stage % 3][line])
    assert proven > 0
    assert {peer(line, 3) for line in lists[1] if isinstance(line, p.SendGradient)} == {0}
