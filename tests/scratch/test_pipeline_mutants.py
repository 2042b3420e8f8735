"""Mutants of the pipeline's kernels, modules with other words in them: each is caught.

Those of schedules, messages and reader are caught on paper, those of the worker on real ranks.
`pytest -s` prints how many were caught, and by what.
"""

import importlib
import inspect
import sys
import types
from collections import Counter
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch.distributed as dist

from dtlib.errors import BadInput
from dtlib.ranks.launcher import launch
from dtlib.scratch import pipeline as p
from dtlib.sim import pipeline as formulas
from tests.scratch.pipeline_cases import SCHEDULES, Case, counted, train
from tests.scratch.test_pipeline import outputs_alive, train_gpt
from tests.scratch.test_pipeline_schedules import BOTH_FIRST, ONE, TWO, WORDS, seconds, words
from tests.scratch_cases import ROUNDING

REAL = "dtlib.scratch.pipeline"
MODULES = (
    "messages", "refuse", "reading", "schedules", "stages", "split", "links", "computing", "worker",
)  # fmt: skip

ON_PAPER = [
    ("schedules", "reversed(range(micro_batches))", "range(micro_batches)"),
    ("schedules", "ranks - 1 - rank)\n", "ranks - rank)\n"),
    ("schedules", "backwards, ranks - 1 - rank", "backwards, rank"),
    ("schedules", "for line in (forward, next(back))", "for line in (next(back), forward)"),
    ("schedules", "return [*ahead, *pairs, *back]", "return [*ahead, *pairs]"),
    ("schedules", "(chunks - 1 - chunk) * ranks + rank", "chunk * ranks + rank"),
    ("schedules", "2 * (ranks - 1 - rank) + (chunks - 1) * ranks", "(ranks - 1 - rank)"),
    ("schedules", "+ (chunks - 1) * ranks)", "+ chunks * ranks)"),
    ("schedules", "chunk * ranks + rank) for m, chunk in order]\n        backwards",
     "rank * chunks + chunk) for m, chunk in order]\n        backwards"),
    ("schedules", "len(late) > rank", "len(late) > 0"),
    ("schedules", "len(late) > rank", "len(late) > ranks"),
    ("schedules", "late.pop(0)", "late.pop()"),
    ("schedules", "return [*lines, *late]", "return lines"),
    ("messages", "yield ReceiveGradient(m, s)\n        yield line",
     "yield line\n            yield ReceiveGradient(m, s)"),
    ("messages", "if forward and after:\n            y", "if backward and after:\n            y"),
    ("messages", "yield SendGradient(m, s)", "yield SendGradient(m, s + 1)"),
    ("messages", "backward and before", "backward and after"),
    ("messages", "(1 if forward else -1)", "1"),
    ("messages", "ranks > 1 and s > 0", "s > 0"),
    ("messages", "s < stages - 1", "s < stages - 2"),
    ("reading", "done[sent] + message) if", "done[sent]) if"),
    ("reading", "max(clock[rank], done[sent] + message)", "done[sent] + message"),
    ("reading", "max(clock[rank], clock[other])", "clock[rank]"),
    ("reading", "isinstance(line, Send) and blocking", "False"),
    ("reading", "- busy) / busy", "- busy) / total"),
    ("reading", "Backward | BackwardWeight", "Backward"),
    ("reading", "refuse_incomplete(lists)\n    refuse_early", "refuse_early"),
    ("reading", "refuse_early(lists)\n", "\n"),
    ("reading", "refuse_stuck(lists, at)\n", ""),
    ("refuse", "owner != rank", "False"),
    ("refuse", "line in every:", "False:"),
    ("refuse", "other not in every", "False"),
    ("refuse", "Forward(m, s) not in every", "False"),
    ("refuse", "len(missing) < 2", "not missing"),
    ("refuse", "whole not in every and missing", "False"),
    ("refuse", "s < stages - 1", "s < stages"),
    ("refuse", "Forward(m, s - 1) if alone", "Forward(m, s) if alone"),
]  # fmt: skip

ON_RANKS = [
    ("computing", " / self.count", ""),
    ("computing", " / self.count", " / len(self.targets[m])"),
    ("computing", "self.loss += y.item()", "self.loss = y.item()"),
    ("computing", "self.targets[m]", "self.targets[0]"),
    ("computing", "else self.x[m]", "else self.x[0]"),
    ("computing", "autograd.backward(edge, gradient)",
     "autograd.backward(edge, None if gradient is None else gradient * 2)"),
    ("computing", "self.later[m, s] = self.jobs[:]", "self.later[m, s] = self.jobs"),
    ("computing", "self.jobs.clear()", "pass"),
    ("computing", "for job in self.later.pop((m, s)):\n            job()",
     "self.later.pop((m, s))"),
    ("worker", "now.backward_input(m, s)\n                now.backward_weight(m, s)",
     "now.backward_input(m, s)"),
    ("computing", "self.kept.pop((m, s))", "self.kept[m, s]"),
    ("computing", "len(self.kept) + len(self.later)", "len(self.kept)"),
    ("worker", "now.inputs.pop((m, s + 1)))", "now.inputs[m, s + 1])"),
    ("worker", "now.gradients.pop((m, s - 1)))", "now.gradients.pop((m, s - 1)) / 2)"),
    ("worker", "self.links.send(line, now.gradients.pop((m, s - 1)))", "pass"),
    ("worker", "self.links.send(line, now.inputs.pop((m, s + 1)))", "pass"),
    ("links", "p.grad, holders)", "p.grad.clone(), holders)"),
    ("worker", "defer_weights(stage, self.jobs)", "defer_weights(stage, [])"),
    ("split", "gradient.T @ x", "2 * gradient.T @ x"),
    ("split", "gradient.sum(0)", "gradient.mean(0)"),
    ("split", "parameter.grad + gradient", "gradient"),
    ("split", "return gradient @ weight", "return gradient @ weight.T"),
    ("links", "1 + 2 * (line.stage << 12 | line.micro_batch)", "1 + 2 * line.stage"),
    ("links", "x.contiguous()", "x.clone()[:0]"),
    ("links", "for mine in self.receipts[line]:\n            self._arrived(mine)", ""),
    ("links", "self.bytes[kind] += x.nbytes", "self.bytes[kind] += x.numel()"),
    ("links", "if work is not None", "if False"),
    ("links", "x + part if self.rank == first else part", "part"),
    ("links", "x + part if self.rank == first else part", "x + part"),
    ("stages", "divmod(len(blocks), stages)", "(len(blocks) // stages, 0)"),
    ("stages", "k * short + min(k, longer)", "k * short"),
    ("stages", "p.requires_grad and len(on) > 1", "False"),
]  # fmt: skip

SAME = ("self.rank, ranks", "self.rank, ranks")
LIMIT = 0.5  # seconds of a message: a mutant that does not send is found out after as many


def mutant(module, old, new):
    """The package with one module changed; instructions are the real ones."""
    found = SimpleNamespace()
    for name in MODULES:
        text = inspect.getsource(importlib.import_module(f"{REAL}.{name}"))
        if name == module:
            assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {name}"
            text = text.replace(old, new)
        for known in MODULES:
            text = text.replace(f"{REAL}.{known}", f"mutant_{known}")
        made = types.ModuleType(f"mutant_{name}")
        sys.modules[made.__name__] = made
        exec(compile(text, made.__name__, "exec"), made.__dict__)
        setattr(found, name, made)
    return found


def caught_on_paper(kind):
    """What the mutant says or does that is not right; None if nothing is."""
    s = kind.schedules
    ways = [("gpipe", s.gpipe, 1), ("1f1b", s.one_forward_one_backward, 1),
            ("interleaved", s.interleaved(2), 2), ("zb-h1", s.zero_bubble_h1, 1)]  # fmt: skip
    try:
        for way in ways:
            for ranks, many in ((3, 6), (1, 3), (2, 4), (4, 12)):
                if reason := unlike_formula(kind, *way, ranks, many):
                    return reason
        if any(words(getattr(s, n)(rank, 2, 3)) != said for (n, rank), said in WORDS.items()):
            return "order"
        if [kind.messages.peer(line, 3) for line in (ONE[1], TWO[3])] != [1, 0]:
            return "peer"
        return unlike_clock(kind) or next(filter(None, refusals(kind)), None)
    except Exception as error:
        return type(error).__name__


def unlike_formula(kind, name, schedule, chunks, ranks, many):
    """Bubble, memory and messages that are not the formulas'."""
    lists = kind.schedules.for_all_ranks(schedule, ranks, many)
    whole = kind.messages.with_messages(lists)
    spans = kind.reading.follow(whole, seconds(3, 3, 2, chunks))
    want = formulas.bubble(name, ranks, many, 3, 3, 2, chunks)
    if abs(kind.reading.idle_share(spans) - want) > 1e-9:
        return "bubble"
    for rank, lines in enumerate(lists):
        most = chunks * formulas.kept_activations(name, rank, ranks, many, chunks)
        if kind.reading.kept_at_most(lines) != most:
            return "memory"
        # as many are received as sent
        if len(whole[rank]) - len(lines) != 2 * formulas.messages(rank, ranks, many, chunks):
            return "messages"
    return None


def unlike_clock(kind):
    """The times of a GPipe whose messages take time, and of one whose sends wait."""
    lists = kind.messages.with_messages(p.for_all_ranks(p.gpipe, 3, 4))
    spans = kind.reading.follow(lists, seconds(1, 1, 1), message=0.5)
    if max(span.end for span in spans) != 6 * 3 + 2:
        return "time of messages"
    spans = kind.reading.follow(BOTH_FIRST, seconds(1, 1, 1), blocking=True)
    ends = [span.end for span in spans if span.line == p.SendActivation(1, 0)]
    return None if ends == [3] else "time of sends"


def refusals(kind):
    """For each broken schedule, what is wrong with what the mutant says to it."""
    for lists in BROKEN:
        with pytest.raises(BadInput) as right:
            p.follow(lists)
        try:
            kind.reading.follow(lists)
        except Exception as error:
            yield None if str(error) == str(right.value) else "another refusal"
        else:
            yield "no refusal"


BROKEN = [
    [ONE[1:], TWO], [ONE[:3], TWO], [[*ONE, p.BackwardWeight(0, 0)], TWO],
    [[*ONE[:3], p.BackwardInput(0, 0)], TWO], [[*ONE, ONE[0]], TWO],
    [[*ONE, p.Forward(0, 1)], TWO[2:]], [[ONE[0], *ONE[2:]], TWO], [ONE, TWO[:3]],
    [ONE, [*TWO[:2], *TWO[3:], TWO[2]]], [[ONE[2], *ONE[:2], ONE[3]], TWO],
]  # fmt: skip


def test_every_mutant_on_paper_is_caught():
    assert caught_on_paper(mutant("worker", *SAME)) is None  # what is not changed is right
    report({words: caught_on_paper(mutant(*words)) for words in ON_PAPER})


def report(found):
    """Print how many mutants were caught, and by what; none may survive."""
    by = Counter(reason for reason in found.values() if reason)
    each = ", ".join(f"{reason} {count}" for reason, count in by.most_common())
    print(f"\n{by.total()} of {len(found)} mutants caught: {each}")
    assert [words for words, reason in found.items() if not reason] == []


def lists_of(ranks):
    """Three schedules, and one that uses micro-batches in another order than it gets them."""
    crossed = [
        [p.Forward(0, 0), p.Forward(1, 0), p.Backward(0, 0), p.Backward(1, 0)],
        [p.Forward(1, 1), p.Backward(1, 1), p.Forward(0, 1), p.Backward(0, 1)],
    ]
    names = ("1f1b", "interleaved", "zb-h1")
    return {n: p.for_all_ranks(SCHEDULES[n], ranks, 4) for n in names} | {"crossed": crossed}


def caught_on_ranks(words):
    """What is wrong with a run of the mutant on this rank; None if nothing is."""
    kind = mutant(*words)
    ranks = dist.get_world_size()
    limit = 15.0 if words[1:] == SAME else LIMIT  # what is right may meet a busy machine
    try:
        for name, lists in lists_of(ranks).items():
            many = len({line.micro_batch for line in lists[0]})
            case = Case(name, "sgd", many, 2 * many, [5, 4, 6, 3, 4, 5], lists)
            got, want = train(case, kind.worker.Pipeline, timeout=limit), counted(case)
            if max(got["gap"], got["loss_gap"]) > ROUNDING:
                return "weights or loss"
            if got["messages"] != want["messages"] or got["bytes"] != want["bytes"]:
                return "messages or bytes"
            if got["kept"] != p.kept_at_most(lists[dist.get_rank()]) or any(got["left"]):
                return "memory"
        if max(train_gpt("1f1b", kind.worker.Pipeline)[:2]) > ROUNDING:
            return "tied weights"
        if outputs_alive(kind.worker.Pipeline)[0] != 2 - dist.get_rank():
            return "memory"
    except Exception as error:
        return type(error).__name__
    return None


def all_on_ranks(mutants):
    """Each mutant in a process group of its own, since a late message spoils the group."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    store, found = dist.distributed_c10d._get_default_store(), []
    for number, changes in enumerate(mutants):
        dist.destroy_process_group()
        dist.init_process_group(
            "gloo", store=dist.PrefixStore(f"mutant {number}", store), rank=rank, world_size=ranks,
            timeout=timedelta(seconds=20),
        )  # fmt: skip
        found.append(caught_on_ranks(changes))
    return found


@pytest.mark.slow
def test_every_mutant_on_ranks_is_caught():
    zero, one = launch(
        all_on_ranks, [("worker", *SAME), *ON_RANKS], ranks=2, timeout=30, show=False
    )
    assert zero[0] is None and one[0] is None  # what is not changed is right
    pairs = zip(ON_RANKS, zero[1:], one[1:], strict=True)
    report({words: a or b for words, a, b in pairs})
