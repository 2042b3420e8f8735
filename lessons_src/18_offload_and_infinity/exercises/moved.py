"""Exercise 18.1: the bytes that a rank moves in a step, by link.

The links are compared one by one, and a mistake is recognised by the first link that is wrong: two
mistakes in one answer would otherwise be no known mistake.
"""

import math
from collections.abc import Mapping

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

LINKS = ("to_host", "to_device", "disk_read", "disk_write")

bytes_moved = solution("bytes_moved", globals())


def case(parameters, ranks, way, micro_batches):
    """A number of parameters on a number of ranks."""
    where = f"{ranks} rank{'s' * (ranks > 1)}"
    several = f", {micro_batches} micro-batches" if micro_batches > 1 else ""
    label = f"{way}, {parameters} parameters, {where}{several}"
    return label, (parameters, ranks, way, micro_batches)


def read(got):
    """A number of bytes for each link."""
    if got is None:
        raise Wrong("none")
    if not isinstance(got, Mapping):
        raise Wrong("kind", got=type(got).__name__)
    if {*got} != {*LINKS}:
        raise Wrong("keys", got=", ".join(sorted(map(str, got))) or "no key")
    return {link: _bytes(link, got[link]) for link in LINKS}


def _bytes(link, value):
    try:
        return to_number(value, nan=True)
    except Wrong:
        raise Wrong("no_number", link=link, got=type(value).__name__) from None


def wrong(got, want):
    """The links that are wrong; nan is wrong, too."""
    return [link for link in LINKS if not math.isclose(got[link], want[link], rel_tol=1e-6)]


def off(of, link, each):
    """Recognises a link of way `of` with `each(micro_batches)` bytes a parameter of the share."""

    def when(got, want, parameters, ranks, way, micro_batches):
        moved = each(micro_batches) * parameters / ranks
        first = wrong(got, want)[0] == link
        return way == of and first and math.isclose(got[link], moved, rel_tol=1e-6)

    return when


def everything(factor):
    """Recognises answers in which all that was to be written is off by the same factor."""

    def when(got, want, ranks):
        links, times = wrong(got, want), factor(ranks)
        asked = {link for link in LINKS[1:] if want[link]}
        return (
            times != 1
            and asked <= {*links}
            and all(math.isclose(got[link], times * want[link], rel_tol=1e-6) for link in links)
        )

    return when


def of_all(got, want, ranks):
    """The first link that is wrong carries the bytes of all ranks."""
    link = wrong(got, want)[0]
    return ranks > 1 and math.isclose(got[link], ranks * want[link], rel_tol=1e-6)


def of_one(got, want, parameters, ranks):
    """The first link that is wrong has the bytes of one parameter of the share."""
    link = wrong(got, want)[0]
    return math.isclose(got[link] * parameters / ranks, want[link], rel_tol=1e-6) and got[link] > 0


def worked_line(got, want):
    """The gradients of the worked example are wrong now."""
    return wrong(got, want)[0] == "to_host"


def facts(got, want, parameters, ranks):
    """The first link that is wrong, and its bytes for each parameter of the share."""
    link = wrong(got, want)[0]
    share = parameters / ranks
    return {
        "link": link, "got": f"{got[link]:g}", "each": f"{got[link] / share:g}",
        "n": f"{ranks} rank{'s' * (ranks > 1)}", "seen": f"{link}: {got[link]:g} bytes",
    }  # fmt: skip


def passed(got, want):
    """The last case: infinity on several ranks with several micro-batches."""
    return Passed(tuple((link, int(got[-1][link]), int(want[-1][link]), "bytes") for link in LINKS))


# words of the solution
UP, DOWN = 'moved["to_device"] = 2 * share', 'moved["to_device"] = weights'
READ, WRITTEN = "weights + 12 * share", "2 * share + 12 * share"
NONE = 'moved["disk_read"] = moved["disk_write"] = 0'

EXERCISE = Answer(
    bytes_moved,
    read=read,
    cases=[
        case(1000, 1, "offload", 1),
        case(1000, 4, "offload", 1),
        case(1000, 1, "offload", 3),
        case(1000, 1, "infinity", 1),
        # 5 ranks: on 4 the weights of all ranks have as many bytes as a share with its state
        case(1200, 5, "infinity", 1),
        case(1200, 5, "infinity", 3),
    ],
    mistakes=[
        Mistake("in_gigabytes", when=everything(lambda ranks: 1e-9)),
        Mistake("fp32", when=everything(lambda ranks: 2)),
        Mistake("elements", when=everything(lambda ranks: 1 / 2)),
        Mistake("not_shared", when=everything(lambda ranks: ranks)),
        Mistake("shared_twice", when=everything(lambda ranks: 1 / ranks)),
        Mistake("worked_line", {"moved = {\"to_host\": 2 *": "moved = {\"to_host\": 4 *"},
                when=worked_line),
        Mistake("each_parameter", {"moved[\"to_device\"] = 2 * share":
                                   "moved[\"to_device\"] = 2"}, when=of_one),
        Mistake("nothing_up", {UP: 'moved["to_device"] = 0'},
                when=off("offload", "to_device", lambda k: 0)),
        Mistake("up_each_time",
                {UP: 'moved["to_device"] = 2 * share * micro_batches'},
                when=off("offload", "to_device", lambda k: 2 * k)),
        Mistake("state_travels",
                {UP: 'moved["to_device"] = 12 * share'},
                when=off("offload", "to_device", lambda k: 12)),
        Mistake("state_and_weights_travel",
                {UP: 'moved["to_device"] = 14 * share'},
                when=off("offload", "to_device", lambda k: 14)),
        Mistake("disk_in_offload",
                {NONE: NONE.replace("0", "12 * share")},
                when=lambda got, want, way: (
                    way == "offload" and wrong(got, want)[0][:4] == "disk"
                )),
        Mistake("stays_on_host", {DOWN: 'moved["to_device"] = 0'},
                when=off("infinity", "to_device", lambda k: 0)),
        ("as_offload", {DOWN: 'moved["to_device"] = 2 * share', READ: "0", WRITTEN: "0"}),
        Mistake("forward_only", {"2 * 2 * share": "2 * share"},
                when=off("infinity", "to_device", lambda k: 2 * k)),
        Mistake("as_offload", {DOWN: 'moved["to_device"] = 2 * share'},
                when=off("infinity", "to_device", lambda k: 2)),
        Mistake("not_shared", {DOWN: 'moved["to_device"] = weights * ranks'},
                when=lambda got, want, ranks: (
                    wrong(got, want)[0] != "to_host" and of_all(got, want, ranks)
                )),
        ("not_shared", {"2 * 2 * share": "2 * 2 * parameters"}),
        ("recomputed", {DOWN: 'moved["to_device"] = weights * 3 / 2'}),
        ("recomputed", {"2 * 2 * share": "3 * 2 * share"}),
        ("new_weights_up", {DOWN: 'moved["to_device"] = weights + 2 * share'}),
        Mistake("backward_once", {"2 * 2 * share * micro_batches":
                                  "2 * share * micro_batches + 2 * share"},
                when=off("infinity", "to_device", lambda k: 2 * k + 2)),
        Mistake("read_for_one", {"2 * 2 * share * micro_batches": "2 * 2 * share"},
                when=off("infinity", "to_device", lambda k: 4)),
        Mistake("state_to_device",
                {DOWN: 'moved["to_device"] = weights + 12 * share'},
                when=off("infinity", "to_device", lambda k: 4 * k + 12)),
        ("exchanged", {READ: "12 * share + 2 * share", WRITTEN: READ}),
        Mistake("state_not_read", {READ: "weights"},
                when=off("infinity", "disk_read", lambda k: 4 * k)),
        Mistake("weights_not_read", {READ: "12 * share"},
                when=off("infinity", "disk_read", lambda k: 12)),
        Mistake("disk_read_once", {READ: "weights / 2 + 12 * share"},
                when=off("infinity", "disk_read", lambda k: 2 * k + 12)),
        Mistake("disk_for_one", {READ: "4 * share + 12 * share"},
                when=off("infinity", "disk_read", lambda k: 16)),
        Mistake("update_each_time",
                {READ: "weights + 12 * share * micro_batches"},
                when=off("infinity", "disk_read", lambda k: 16 * k)),
        ("moments_alone", {READ: "weights + 8 * share", WRITTEN: "2 * share + 8 * share"}),
        Mistake("moments_alone", {READ: "weights + 8 * share"},
                when=off("infinity", "disk_read", lambda k: 4 * k + 8)),
        ("gradients_read", {READ: "weights + 16 * share", WRITTEN: "18 * share"}),
        ("gradients_read", {READ: "weights + 16 * share"}),
        Mistake("gradients_read", {READ: "weights + 14 * share"},
                when=off("infinity", "disk_read", lambda k: 4 * k + 14)),
        Mistake("state_not_written", {WRITTEN: "2 * share"},
                when=off("infinity", "disk_write", lambda k: 2)),
        Mistake("weights_not_written", {WRITTEN: "12 * share"},
                when=off("infinity", "disk_write", lambda k: 12)),
        Mistake("written_each_time",
                {WRITTEN: "(2 * share + 12 * share) * micro_batches"},
                when=off("infinity", "disk_write", lambda k: 14 * k)),
        Mistake("weights_written_each_time",
                {WRITTEN: "2 * share * micro_batches + 12 * share"},
                when=off("infinity", "disk_write", lambda k: 2 * k + 12)),
        Mistake("written_as_read",
                {WRITTEN: "weights + 12 * share"},
                when=off("infinity", "disk_write", lambda k: 4 * k + 12)),
        ("gradients_written", {WRITTEN: "18 * share"}),
        Mistake("gradients_written", {WRITTEN: "4 * share + 12 * share"},
                when=off("infinity", "disk_write", lambda k: 16)),
        Mistake("moments_written", {WRITTEN: "2 * share + 8 * share"},
                when=off("infinity", "disk_write", lambda k: 10)),
    ],
    other="unrecognised",
    facts=facts,
    passed=passed,
)  # fmt: skip
