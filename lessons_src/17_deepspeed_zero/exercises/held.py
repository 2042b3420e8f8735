"""Exercise 17.1: what a rank holds under DeepSpeed, by kind, including its fp32 copy.

A total would hide mistakes: in 16 bits it stays the same if weights and gradients are swapped. So
every kind is compared, and a mistake is recognised by the kinds that it gets wrong.
"""

import math
from collections.abc import Mapping

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

KINDS = ("weights", "gradients", "moments", "fp32_copy")
DIVIDED = ("moments", "fp32_copy", "gradients", "weights")  # stage 1: two, 2: three, 3: all
COPY = "fp32_copy = 4 * parameters / ranks"  # words of the solution

held = solution("held", globals())


def case(parameters, ranks, stage, sixteen_bit):
    """A number of parameters on a number of ranks."""
    where = f"{ranks} rank{'s' * (ranks > 1)}, stage {stage}"
    label = f"{parameters} parameters, {where}, {'16 bits' if sixteen_bit else 'fp32'}"
    return label, (parameters, ranks, stage, sixteen_bit)


def read(got):
    """A number of bytes for each kind."""
    if got is None:
        raise Wrong("none")
    if not isinstance(got, Mapping):
        raise Wrong("kind", got=type(got).__name__)
    if {*got} != {*KINDS}:
        raise Wrong("keys", got=", ".join(sorted(map(str, got))) or "no key")
    return {kind: _bytes(kind, got[kind]) for kind in KINDS}


def _bytes(kind, value):
    try:
        return to_number(value, nan=True)
    except Wrong:
        raise Wrong("no_number", which=kind, got=type(value).__name__) from None


def off(got, want, **factors):
    """Whether these kinds are the right number times these factors."""
    return all(math.isclose(got[k], want[k] * f, rel_tol=1e-6) for k, f in factors.items())


def wrong(got, want):
    """The kinds that are wrong; nan is wrong, too."""
    return [kind for kind in KINDS if not off(got, want, **{kind: 1})]


def shared(at, alone=False, **powers):
    """Recognises kinds that a stage divides once too often (-1), or fails to divide (1).

    `alone` says that nothing else may be wrong.
    """

    def when(got, want, ranks, stage):
        factors = {kind: float(ranks) ** power for kind, power in powers.items()}
        others = alone and {*wrong(got, want)} != {*powers}
        return ranks > 1 and stage in at and not others and off(got, want, **factors)

    return when


def all_wrong(factor):
    """Recognises answers in which everything that is wrong is off by the same factor."""
    return lambda got, want: off(got, want, **dict.fromkeys(wrong(got, want), factor))


def facts(got, want, parameters, ranks):
    """The bytes of each kind, in all and for each parameter."""
    each = {f"{kind}_each": f"{got[kind] / parameters:g}" for kind in KINDS}
    sizes = {kind: f"{got[kind]:g}" for kind in KINDS}
    kinds = wrong(got, want)
    seen = f"{kinds[0].replace('_', ' ')}: {sizes[kinds[0]]} bytes for {parameters} parameters"
    which = " and ".join(sorted(kinds))
    return {"n": ranks, "held": "fp32", "which": which, "seen": seen, **sizes, **each}


def passed(got, want):
    """The network of the lesson."""
    mine, right = (f"{sum(found[-1].values()):,.0f}" for found in (got, want))
    return Passed((("811,520 parameters, 2 ranks, stage 2, fp32", mine, right, "bytes"),))


EXERCISE = Answer(
    held,
    read=read,
    # One rank in fp32, then three and four, each stage, then 16 bits.
    cases=[
        case(12, 1, 1, False),
        case(12, 3, 1, False),
        case(12, 4, 2, False),
        case(12, 4, 3, False),
        *(case(1200, n, stage, True) for n in (3, 4) for stage in (1, 2, 3)),
        case(811_520, 2, 2, False),
    ],
    mistakes=[
        ("elements", lambda *given: {kind: size / 4 for kind, size in held(*given).items()}),
        ("bits", lambda *given: {kind: size * 8 for kind, size in held(*given).items()}),
        ("gigabytes", lambda *given: {kind: size / 1e9 for kind, size in held(*given).items()}),
        ("no_copy", {COPY: f"{COPY} if sixteen_bit else 0"}),
        ("copy_whole", {COPY: "fp32_copy = 4 * parameters"}),
        Mistake("weights_at_2", {"stage >= 3": "stage > 1", "stage >= 2": "stage >= 3"},
                when=shared([2], weights=-1, gradients=1)),
        Mistake("weights_sharded_at_2", {"stage >= 3": "stage > 1"}, shared([2], weights=-1)),
        Mistake("all_at_1", lambda parameters, ranks, stage, bits: held(parameters, ranks, 3, bits),
                when=shared([1], alone=True, gradients=-1, weights=-1)),
        Mistake("gradients_at_1", {"stage >= 2": "stage > 0"}, shared([1], gradients=-1)),
        Mistake("moments_whole", {"8 * parameters / ranks": "8 * parameters"},
                when=shared([1, 2, 3], moments=1)),
        Mistake("half_moments", {"moments = 8": "moments = 2 * each"},
                when=lambda got, want, sixteen_bit: sixteen_bit and off(got, want, moments=0.5)),
        Mistake("one_moment", {"moments = 8": "moments = 4"},
                when=lambda got, want: off(got, want, moments=0.5)),
        Mistake("still_fp32",
                lambda parameters, ranks, stage, bits: held(parameters, ranks, stage, False),
                when=lambda got, want, sixteen_bit: (
                    sixteen_bit and all_wrong(2)(got, want)
                    and {*wrong(got, want)} <= {"weights", "gradients"})),
        Mistake(
            "not_sharded", {"gradients = each * parameters / (ranks if stage >= 2 else 1)":
                            "gradients = each * parameters"},
            when=lambda got, want, ranks, stage: (
                ranks > 1 and all_wrong(ranks)(got, want)
                and {*wrong(got, want)} <= {*DIVIDED[:stage + 1]}),
        ),
    ],
    other="unrecognised",
    facts=facts,
    passed=passed,
)  # fmt: skip
