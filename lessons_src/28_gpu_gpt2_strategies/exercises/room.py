"""Exercise 28.1: GiB that stay free on a card, from 2 + 2 + 12 bytes a parameter and activations.

Ψ is 2³⁰ in most cases, so that a GiB is a byte a parameter and a mistake is easy to recognise.
"""

from dtlib.learn.answers import Answer
from dtlib.learn.readers import number
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from ..what_if import GIB, GPT2, computing

LEFT = "card_gib - held / 2**30"  # words of the solution
STATES = "weights, gradients, optimizer = 2, 2, 12"

room_left = solution("room_left", globals())


def case(strategy, ranks, card=100, kept=0):
    """A case of 2³⁰ parameters; `kept` is GiB of activations."""
    activations = f" and {kept:g} GiB of activations" if kept else ""
    cards = f"ranks = {ranks}, {'a card' if strategy == 'single' else 'cards'}"
    label = f"2³⁰ parameters{activations}, {strategy}, {cards} of {card} GiB"
    return label, (GIB, kept * GIB, strategy, ranks, card)


NAME, LAYERS, WIDTH, HEADS, PARAMETERS = GPT2[-1]
REAL = (
    f"{NAME} on 4 cards of 24 GiB",
    (PARAMETERS, computing(LAYERS, WIDTH, HEADS, 4), "zero2", 4, 24),
)


def under(wrong, each):
    """A mistake about the strategy `wrong`: each of n ranks holds `each(n)` bytes a parameter."""

    def program(parameters, computing, strategy, ranks, card_gib):
        if strategy != wrong:
            return room_left(parameters, computing, strategy, ranks, card_gib)
        return card_gib - (each(ranks) * parameters + computing) / GIB

    return program


def read(got):
    """Read a number, and refuse a yes or no."""
    if isinstance(got, bool):
        raise Wrong("boolean", got="yes" if got else "no")
    return number(got)


def passed(got, want):
    """Compare what is left beside the largest GPT-2."""
    rows = (f"{NAME}, zero2 on 4 cards of 24 GiB", f"{got[-2]:.2f}", f"{want[-2]:.2f}", "GiB left")
    return Passed((rows,))


EXERCISE = Answer(
    room_left,
    read=read,
    # Each case adds one thing: the units, who shares, each stage, what lies elsewhere, activations.
    cases=[
        case("single", 1),
        case("ddp", 3),
        case("zero1", 3),
        case("zero2", 3),
        case("zero3", 4),
        case("offload", 3),
        case("infinity", 4),
        case("ddp", 3, kept=6),
        case("zero3", 4, kept=6),
        case("ddp", 4, card=20, kept=6),
        REAL,
        case("single", 3),  # one card, although the call says 3
    ],
    mistakes=[
        ("held", {LEFT: "held / 2**30"}),
        ("sign", {LEFT: "held / 2**30 - card_gib"}),
        ("bytes", {LEFT: "card_gib * 2**30 - held"}),
        ("gigabytes", {"2**30": "1e9"}),
        ("card_in_gigabytes", {LEFT: "card_gib * 1e9 / 2**30 - held / 2**30"}),
        ("never_negative", {LEFT: f"max(0, {LEFT})"}),
        ("fp32_states", {STATES: "weights, gradients, optimizer = 4, 4, 12"}),
        ("no_copy", {STATES: "weights, gradients, optimizer = 2, 2, 8"}),
        ("weights_alone", lambda Ψ, kept, strategy, n, card: card - (2 * Ψ + kept) / GIB),
        ("ddp_shares", under("ddp", lambda n: 16 / n)),
        ("single_shares", under("single", lambda n: 16 / n)),
        ("gradients_at_1", {'("zero2", "zero3")': '("zero1", "zero2", "zero3")'}),
        ("all_at_1", under("zero1", lambda n: 16 / n)),
        ("copy_whole", under("zero1", lambda n: 8 + 8 / n)),
        *(
            ("nothing_shared", under(strategy, lambda n: 16))
            for strategy in ("zero1", "zero2", "zero3", "offload", "infinity")
        ),
        ("weights_at_2", {'strategy == "zero3"': 'strategy in ("zero2", "zero3")'}),
        ("gradients_whole", {'("zero2", "zero3")': '("zero3",)'}),
        ("weights_whole", {'strategy == "zero3"': "False"}),
        ("offload_stays", under("offload", lambda n: 2 + 14 / n)),
        ("offload_gradients", under("offload", lambda n: 2 + 2 / n)),
        ("offload_gradients", under("offload", lambda n: 4)),
        ("infinity_weights", {'strategy == "infinity"': "False"}),
        ("infinity_as_3", under("infinity", lambda n: 16 / n)),
        ("no_activations", {" + computing": ""}),
        ("activations_shared", {" + computing": " + computing / ranks"}),
    ],
    facts=lambda got, ranks, card_gib, computing: {
        "got": f"{got:.4g}", "n": ranks, "card": card_gib, "kept": f"{computing / GIB:g}",
    },
    passed=passed,
)  # fmt: skip
