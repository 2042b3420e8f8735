"""Exercise 1.2: GB of model states by kind; the total alone would hide mistakes that cancel."""

from collections.abc import Mapping

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.ratios import near, short
from dtlib.learn.readers import number
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

KINDS = ("parameters", "gradients", "fp32_copy", "optimizer")

states_gb = solution("states_gb", globals())


def case(precision, optimizer, parameters=1e9):
    """The states of so many parameters."""
    return f"Ψ = {parameters:g}, {precision}, {optimizer}", (parameters, precision, optimizer)


def read(got):
    """A number for each kind."""
    if not isinstance(got, Mapping):
        raise Wrong("one_number", got=short(number(got)))
    missing = [kind for kind in KINDS if kind not in got]
    more = [str(kind) for kind in got if kind not in KINDS]
    if missing or more:
        raise Wrong("kinds", missing=", ".join(missing), more=", ".join(more))
    return {kind: number(got[kind]) for kind in KINDS}


def each(key, kind, size, *where):
    """A mistake: one kind takes so many bytes per parameter, in a precision with an optimizer."""

    def program(parameters, *how):
        found = states_gb(parameters, *how)
        return found | {kind: size * parameters / 1e9} if how == where else found

    def when(got, want, parameters, precision, optimizer):
        wanted = size * parameters / 1e9
        here = (precision, optimizer) == where and not near(wanted, want[kind])
        return here and (near(got[kind], wanted) or got[kind] == wanted == 0)

    return Mistake(key, program, when)


def odd(got, want, parameters):
    """The first kind that is wrong, and its bytes per parameter."""
    kind = next(kind for kind in KINDS if not near(got[kind], want[kind]))
    return {"kind": kind, "got": short(got[kind] * 1e9 / parameters)}


def passed(got):
    """What the last case needs in all."""
    total = round(float(sum(got[-1].values())), 3)
    row = ("7 billion parameters, mixed, adamw", total, 112, "GB")
    return Passed((row,), "One 80 GB GPU has 80 GiB, which are 85.9 GB.")


EXERCISE = Answer(
    states_gb,
    other="unrecognised",
    read=read,
    cases=[
        *(case(p, o) for p in ("mixed", "fp32") for o in ("adamw", "sgd", "sgd-plain")),
        case("mixed", "adamw", 3.5e8),
        case("mixed", "adamw", 7e9),
    ],
    mistakes=[
        ("unit_bytes", {" / 1e9": ""}),
        ("unit_gib", {"1e9": "2**30"}),
        ("whole_gb", {"/ 1e9": "// 1e9"}),
        ("unit_bits", {"/ 1e9": "* 8 / 1e9"}),
        ("unit_mega", {"1e9": "1e6"}),
        each("fp32_weights", "parameters", 4, "mixed", "adamw"),
        each("fp32_gradients", "gradients", 4, "mixed", "adamw"),
        each("no_gradients", "gradients", 0, "mixed", "adamw"),
        each("no_copy", "fp32_copy", 0, "mixed", "adamw"),
        each("half_copy", "fp32_copy", 2, "mixed", "adamw"),
        each("one_moment", "optimizer", 4, "mixed", "adamw"),
        each("copy_twice", "optimizer", 12, "mixed", "adamw"),
        each("sgd_as_adam", "optimizer", 8, "mixed", "sgd"),
        each("no_momentum", "optimizer", 0, "mixed", "sgd"),
        each("plain_state", "optimizer", 4, "mixed", "sgd-plain"),
        each("plain_state", "optimizer", 8, "mixed", "sgd-plain"),
        each("fp32_as_16", "parameters", 2, "fp32", "adamw"),
        each("fp32_gradient_as_16", "gradients", 2, "fp32", "adamw"),
        each("copy_of_fp32", "fp32_copy", 4, "fp32", "adamw"),
        Mistake("bytes", when=odd),
    ],
    facts=lambda got, want: {
        "got": (total := short(sum(got.values()))),
        "total": total,
        "right": short(sum(want.values())),
    },
    passed=passed,
)
