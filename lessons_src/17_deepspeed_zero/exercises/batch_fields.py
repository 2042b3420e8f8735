"""Exercise 17.3: three fields of a DeepSpeed configuration that agree, or a refusal."""

import numbers

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

REFUSED, SILENT = "refused", "refused without a word"
NAMES = ("train", "micro", "accumulation")

batch_fields = solution("batch_fields", globals())


def case(n, train=None, micro=None, accumulation=None, *, key=None):
    """What a JSON says, and on how many ranks it is started; a misfit has a `key` for answers."""
    given = (train, micro, accumulation)
    said = [f"{name} {v}" for name, v in zip(NAMES, given, strict=True) if v is not None]
    label = f"{', '.join(said)}, {n} rank{'s' * (n > 1)}"
    return label, (n, given), *([key] if key else [])


def run(answer, n, given):
    """Three numbers, None, or how it was refused."""
    try:
        got = answer(n, *given)
    except ValueError as error:
        return REFUSED if str(error).strip() else SILENT
    except AssertionError:
        raise Wrong("assertion") from None
    except Exception as error:
        if type(error) in (Exception, RuntimeError):
            raise Wrong("other_exception", got=type(error).__name__) from None
        raise
    if got is None:
        return None
    if not isinstance(got, (tuple, list)) or len(got) != 3:
        raise Wrong("kind", got=described(got))
    if None in got:
        raise Wrong("gap" if given[:2] != (None, None) else "gap_from_nothing", got=described(got))
    if any(isinstance(value, float) for value in got):
        raise Wrong("floats", got=described(got))
    if not all(isinstance(value, numbers.Integral) for value in got):
        raise Wrong("kind", got=described(got))
    return tuple(map(int, got))


def described(got):
    """The numbers, or the type of what was returned."""
    if isinstance(got, (tuple, list)):
        return "(" + ", ".join(map(str, got)) + ")"
    return f"a {type(got).__name__}"


def refused(got):
    """Whether the answer refused, with a message or without one."""
    return got in (REFUSED, SILENT)


def changed(got, given):
    """The first number that was given and is different now."""
    both = zip(given, got, strict=True)
    return next(({"given": a, "now": b} for a, b in both if a not in (None, b)), False)


def facts(got, want, n):
    """The numbers of the answer; for a refusal, those that would have been right."""
    fields = got if isinstance(got, tuple) else want
    if refused(fields):
        return {}
    product, shown = fields[1] * fields[2] * n, described(got)
    named = dict(zip(NAMES, fields, strict=True))
    seen = f"{shown}, and the product is {product}"
    return {**named, "product": product, "got": shown, "seen": seen}


def passed(got, want):
    """How many cases were answered and how many refused, beside how many should have been."""
    mine, right = (sum(map(refused, outcomes)) for outcomes in (got, want))
    answered = ("answered", len(got) - mine, len(want) - right, "cases")
    return Passed((answered, ("refused", mine, right, "cases")))


EXERCISE = Answer(
    batch_fields,
    run=run,
    # First what can be derived, then what agrees, then what has to be refused.
    cases=[
        case(1, micro=4, accumulation=2),
        case(3, micro=4, accumulation=2),
        case(1, train=8, micro=4),
        case(3, train=24, micro=4),
        case(4, train=24, accumulation=3),
        case(3, train=24, micro=4, accumulation=2),
        case(3, micro=4),
        case(4, train=24),
        case(1, micro=1, accumulation=4),
        case(1, train=1),
        case(1, train=16, micro=4, accumulation=1, key="unchecked"),
        case(4, train=16, micro=4, accumulation=2, key="unchecked"),
        case(3, train=30, micro=4, key="floors"),
        case(4, train=30, key="floors"),
        case(3, train=30, accumulation=4, key="floors"),
        case(4, train=8, micro=4, key="floors"),
        case(1, train=0, key="zero"),
        case(3, accumulation=2, key="from_nothing"),
    ],
    mistakes=[
        Mistake("silent", when=lambda got, want: (got, want) == (SILENT, REFUSED)),
        Mistake("returns_none", when=lambda got, want: (got, want) == (None, REFUSED)),
        Mistake("none", when=lambda got: got is None),
        Mistake("refuses_agreement",
                when=lambda got, n, given: refused(got) and n > 1 and None not in given),
        Mistake("wants_more", when=lambda got, given: refused(got) and given.count(None) == 2),
        Mistake("refuses", when=refused),
        Mistake("order", when=lambda got, want: not refused(want) and sorted(got) == sorted(want)),
        Mistake(
            "without_ranks",
            when=lambda got, want, n: not refused(want) and n > 1 and got[0] == got[1] * got[2],
        ),
        Mistake("changes_given",
                when=lambda got, want, given: not refused(want) and changed(got, given)),
        Mistake("mends", when=lambda got, given: given[0] is not None and changed(got, given)),
        Mistake("zero",
                when=lambda got, want, given: (
                    refused(want) and given[0] is not None and None in given and 0 in got[1:]
                )),
    ],
    other="unrecognised",
    facts=facts,
    passed=passed,
)  # fmt: skip
