"""What stands in the paper, the proposal and the slides: text and tables, as JSON for Typst.

Every string is shown as it is: Typst reads it as data and never as markup.
"""

from __future__ import annotations

from typing import Any

from dtlib.sim import hardware
from dtlib.sim.estimate import Setup, estimate
from dtlib.study import scaling
from dtlib.study.capstone import gains, sections
from dtlib.study.capstone.evidence import Evidence
from dtlib.study.capstone.request import Costs, Request, short
from dtlib.study.capstone.words import ASKED, Words, paragraphs

Content = dict[str, Any]

RUBRIC = (
    ("Question", "One sentence says what is asked, and who needs the answer."),
    (
        "Repeatable",
        "Machine, versions, model, data, settings and commands are there: you could run"
        " it tomorrow.",
    ),
    (
        "One thing varies",
        "Strong and weak scaling have a curve each. Within a curve the number of"
        " ranks alone changes.",
    ),
    (
        "Baseline",
        "Every efficiency is relative to one rank without communication, in the same turn.",
    ),
    ("Spread", "Every number comes from three repeats or more, as a median with its range."),
    ("Cause", "A profile says where the time goes, and the discussion uses it."),
    ("Gains", "What helped is compared with noise. What did not help is reported, too."),
    ("Limits", "Nothing is claimed beyond the ranks that were measured, unless it is marked."),
    ("Request", "Each line of the arithmetic has a unit and a source. You get the same number."),
    ("Slides", "The result slide can be understood in ten seconds without the speaker."),
)
"""What a peer looks for, each worth 0 to 2 points: missing, partly there, there."""


def own(words: Words, part: str) -> Content:
    """Return a part that the student writes, or the sentence that asks for it."""
    found = paragraphs(getattr(words, part))
    return {"text": found, "asks": "" if found else ASKED[part]}


def paper(evidence: Evidence, words: Words) -> Content:
    """Return the paper's content."""
    return {
        "title": words.title,
        "author": own(words, "author"),
        "abstract": " ".join(sections.results(evidence)),
        "question": own(words, "question"),
        "method": sections.method(evidence),
        "settings": sections.settings(evidence),
        "curves": [sections.curve(evidence, kind) for kind in scaling.KINDS],
        "shares": sections.shares(evidence),
        "helped": gains.helped(evidence, words.helped),
        "claims": claims(words),
        "discussion": own(words, "discussion"),
        "limits": own(words, "limits"),
        "known_limits": sections.known_limits(evidence),
        "predictions": gains.predictions(evidence.kept),
        "terms": sections.terms(),
        "runs": sections.all_runs(evidence),
        "commands": [one for one in evidence.commands if one],
    }


def claims(words: Words) -> Content:
    """Return the student's claims, which have been compared with the runs."""
    rows = [
        [str(one["study"]), str(one.get("gpus", one.get("ranks"))),
         f"{float(one['efficiency']):.2f}",
         "extrapolated: not measured" if one.get("extrapolated") else "equals the median"]
        for one in words.claims
    ]  # fmt: skip
    return {"head": ["scaling", "on", "efficiency", "compared with the runs"], "rows": rows}


def proposal(words: Words, evidence: Evidence, costs: Costs) -> Content:
    """Return the proposal's content."""
    wanted = words.request
    return {
        "title": words.title,
        "author": own(words, "author"),
        "purpose": own(words, "purpose"),
        "request": f"{costs.middle:,} node-hours",
        "what": what_runs(wanted),
        "lines": [[line.what, line.how, line.said, line.source] for line in costs.lines],
        "spread": [
            ["as in the worst repeat", f"{costs.worst:,}"],
            ["as in the median (the request)", f"{costs.middle:,}"],
            ["as in the best repeat", f"{costs.best:,}"],
        ],
        "evidence": sections.result(wanted.study, evidence.studies[wanted.study]),
        "extrapolated": beyond(wanted, costs),
        "fits": fits(wanted),
        "machine": evidence.machine,
    }  # fmt: skip


def what_runs(wanted: Request) -> str:
    """Say which runs are asked for."""
    return (
        f"{wanted.runs} run{'s' * (wanted.runs > 1)} of {wanted.model} on"
        f" {short(wanted.tokens)} tokens, each on {wanted.gpus} GPUs"
        f" ({hardware.DEVICES[wanted.device]['title']}), {wanted.gpus_per_node} to a node."
    )


def beyond(wanted: Request, costs: Costs) -> str:
    """Mark an efficiency beyond the ranks that were measured; "" where it was measured."""
    if wanted.gpus <= costs.measured_on:
        return ""
    return (
        f"The efficiency was measured on {costs.measured_on} ranks, and {wanted.gpus} GPUs are"
        " beyond that: the value used is simulated, and a first small allocation has to replace"
        " it by a measured one."
    )


def fits(request: Request) -> str:
    """Say what a GPU would hold, by the formulas of `dtlib.sim`."""
    setup = Setup(request.model, ranks=request.gpus, precision="autocast", loss="auto")
    moment, size = estimate(setup).peak()
    device = hardware.DEVICES[request.device]
    return (
        f"A GPU holds {size / 1e9:.1f} GB at its peak, {moment}, with DDP, autocast and a"
        f" micro-batch of 1 (dtlib.sim, without CUDA's own half GB); the device has"
        f" {device['memory'] / 1e9:.1f} GB ({device['memory'] / 2**30:.0f} GiB)."
        + ("" if size < device["memory"] else " It does not fit: the states have to be sharded.")
    )


def slides(words: Words, evidence: Evidence, costs: Costs | None) -> Content:
    """Return what stands on the five slides."""
    found = {kind: sections.result(kind, rows) for kind, rows in sections.curves(evidence).items()}
    lines = gains.helped(evidence, words.helped)
    where = sections.shares(evidence)
    return {
        "title": words.title,
        "author": own(words, "author"),
        "question": own(words, "question"),
        "settings": [line for line in sections.settings(evidence) if line[0] in (
            "machine", "versions", "task, model", "precision", "threads of a rank")],
        "repeats": [f"{kind}: {len({row['repeat'] for row in rows})} repeats on"
                    f" {', '.join(map(str, sorted({row['world_size'] for row in rows})))} ranks"
                    for kind, rows in sections.curves(evidence).items()],
        "results": list(found.values()),
        "alt": "Efficiency over ranks. " + " ".join(found.values()),
        "shares": where["missing"] or where["says"],
        "helped": lines,
        "limits": own(words, "limits"),
        "known_limits": sections.known_limits(evidence)[:1],
        "what": what_runs(words.request),
        "extrapolated": beyond(words.request, costs) if costs else "",
        "request": f"{costs.middle:,} node-hours ({costs.best:,} to {costs.worst:,})" if costs
        else "",
    }  # fmt: skip


def rubric() -> Content:
    """Return the page on which a peer notes points."""
    return {"criteria": [list(one) for one in RUBRIC], "most": 2 * len(RUBRIC)}
