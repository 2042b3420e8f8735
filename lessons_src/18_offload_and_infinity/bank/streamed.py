"""More answers to `streamed_step`, for the tests alone."""

from ..exercises.streamed import NEW, STEP, streamed_step
from ..stores import BETAS, DECAY, EPSILON, KINDS, RATE, adamw

MOMENT = 'host.write("first", start, first)'  # words of the solution


def reads_all_first(host, gradient, weights, window, step):
    """Clones every chunk before the first is written: right numbers, all of the state at once."""
    starts = range(0, len(gradient), window)
    kept = [
        {kind: host.read(kind, s, min(s + window, len(gradient))).clone() for kind in KINDS}
        for s in starts
    ]
    for start, part in zip(starts, kept, strict=True):
        stop = min(start + window, len(gradient))
        adamw(part["master"], gradient[start:stop], part["first"], part["second"], step)
        for kind in KINDS:
            host.write(kind, start, part[kind])
        weights[start:stop] = part["master"]


def does_nothing(host, gradient, weights, window, step):
    print(len(gradient), "elements,", window, "at a time, step", step)


def all_at_once(host, gradient, weights, window, step):
    n = len(gradient)
    parts = [host.read(kind, 0, n) for kind in KINDS]
    adamw(parts[0], gradient, *parts[1:], step)
    for kind, part in zip(KINDS, parts, strict=True):
        host.write(kind, 0, part)
    weights[:] = parts[0]


def scales_the_gradient(host, gradient, weights, window, step):
    streamed_step(host, gradient, weights, window, step)
    gradient *= 0


def weights_read_back(host, gradient, weights, window, step):
    streamed_step(host, gradient, weights, window, step)
    for start in range(0, len(gradient), window):
        stop = min(start + window, len(gradient))
        weights[start:stop] = host.read("master", start, stop)


def reaches_around(host, gradient, weights, window, step):
    """Changes the moments where they lie, which works only because they are in this memory."""
    for start in range(0, len(gradient), window):
        stop = min(start + window, len(gradient))
        master = host.read("master", start, stop)
        moments = [host.state[kind][start:stop] for kind in KINDS[1:]]
        adamw(master, gradient[start:stop], *moments, step)
        host.write("master", start, master)
        weights[start:stop] = master


def whole_at_the_end(host, gradient, weights, window, step):
    """Takes all master weights once more when the loop is done, and no call counts it."""
    for start in range(0, len(gradient), window):
        stop = min(start + window, len(gradient))
        parts = [host.read(kind, start, stop) for kind in KINDS]
        adamw(parts[0], gradient[start:stop], *parts[1:], step)
        for kind, part in zip(KINDS, parts, strict=True):
            host.write(kind, start, part)
    weights[:] = host.state["master"]


def reads_for_show(host, gradient, weights, window, step):
    """Reads and writes as asked, and works on the state itself."""
    for start in range(0, len(gradient), window):
        stop = min(start + window, len(gradient))
        for kind in KINDS:
            host.read(kind, start, stop)
        parts = [host.state[kind][start:stop] for kind in KINDS]
        adamw(parts[0], gradient[start:stop], *parts[1:], step)
        for kind, part in zip(KINDS, parts, strict=True):
            host.write(kind, start, part)
        weights[start:stop] = parts[0]


KEPT = {}


def keeps_the_moments(host, gradient, weights, window, step):
    """Reads the moments in the first step alone, and has them all in memory from then on."""
    for start in range(0, len(gradient), window):
        stop = min(start + window, len(gradient))
        if step == 1:
            KEPT[start] = [host.read(kind, start, stop).clone() for kind in KINDS[1:]]
        master = host.read("master", start, stop)
        adamw(master, gradient[start:stop], *KEPT[start], step)
        for kind, part in zip(KINDS, (master, *KEPT[start]), strict=True):
            host.write(kind, start, part)
        weights[start:stop] = master


def own_formula(host, gradient, weights, window, step):
    """AdamW by hand: right up to rounding."""
    for start in range(0, len(gradient), window):
        stop = min(start + window, len(gradient))
        master, first, second = (host.read(kind, start, stop) for kind in KINDS)
        g = gradient[start:stop].float()
        master = master * (1 - RATE * DECAY)
        first = BETAS[0] * first + (1 - BETAS[0]) * g
        second = BETAS[1] * second + (1 - BETAS[1]) * g * g
        size = (second / (1 - BETAS[1] ** step)).sqrt() + EPSILON
        master = master - RATE / (1 - BETAS[0] ** step) * first / size
        for kind, part in zip(KINDS, (master, first, second), strict=True):
            host.write(kind, start, part)
        weights[start:stop] = master


def overlapping(host, gradient, weights, window, step):
    """Steps back by one element, so that some are updated twice."""
    for start in range(0, len(gradient), max(1, window - 1)):
        stop = min(start + window, len(gradient))
        parts = {kind: host.read(kind, start, stop) for kind in KINDS}
        adamw(parts["master"], gradient[start:stop], parts["first"], parts["second"], step)
        for kind, part in parts.items():
            host.write(kind, start, part)
        weights[start:stop] = parts["master"]


# Right.
def by_kinds(host, gradient, weights, window, step):
    for chunk, into, start in zip(
        gradient.split(window), weights.split(window), range(0, len(gradient), window), strict=True
    ):
        parts = {kind: host.read(kind, start, start + len(chunk)) for kind in KINDS}
        adamw(parts["master"], chunk, parts["first"], parts["second"], step)
        for kind, part in parts.items():
            host.write(kind, start, part)
        into.copy_(parts["master"])


def from_the_end(host, gradient, weights, window, step):
    for start in reversed(range(0, len(gradient), window)):
        end = slice(start, min(start + window, len(gradient)))
        parts = [host.read(kind, end.start, end.stop) for kind in KINDS]
        adamw(parts[0], gradient[end], *parts[1:], step)
        weights[end] = parts[0].bfloat16()
        for kind, part in zip(KINDS, parts, strict=True):
            host.write(kind, start, part.clone())


def half_windows(host, gradient, weights, window, step):
    half = max(1, window // 2)
    for start in range(0, len(gradient), half):
        stop = min(start + half, len(gradient))
        parts = [host.read(kind, start, stop) for kind in KINDS]
        adamw(parts[0], gradient[start:stop], *parts[1:], step)
        for kind, part in zip(KINDS, parts, strict=True):
            host.write(kind, start, part)
        weights[start:stop] = parts[0]


ALSO_WRONG = [
    ("untouched", does_nothing),
    ("too_wide", all_at_once),
    ("too_wide", {"stop = min(start + window, len(gradient))": "stop = len(gradient)"}),
    ("in_flight", reads_all_first),
    ("around", reaches_around),
    ("around", whole_at_the_end),
    ("around", reads_for_show),
    ("kept", keeps_the_moments),
    ("nearly", own_formula),
    ("order", {STEP: "adamw(master, first, second, gradient[start:stop], step)"}),
    ("lengths", {"gradient[start:stop]": "gradient"}),
    ("behind_end", {"stop = min(start + window, len(gradient))": "stop = start + window"}),
    ("behind_end", {'host.write("master", start': 'host.write("master", stop'}),
    ("rounded_master", {'start, master)': "start, master.bfloat16())"}),
    ("one_chunk", {NEW: f"{NEW}\n        return weights"}),
    ("untouched", {"range(0, len(gradient), window)": "range(0, len(gradient) - window, window)"}),
    ("gradient_changed", scales_the_gradient),
    ("read_more", weights_read_back),
    ("read_more", {STEP: f'first = host.read("first", start, stop)\n        {STEP}'}),
    ("write_more", {MOMENT: f"{MOMENT}\n        {MOMENT}"}),
    ("unrecognised", {"gradient[start:stop]": "-gradient[start:stop]"}),
    ("unrecognised", overlapping),
]  # fmt: skip
ALSO_RIGHT = [by_kinds, from_the_end, half_windows]
