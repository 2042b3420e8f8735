"""The student's own words: a small YAML file, or a dict in a cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dtlib.config.files import read_yaml, write_atomically
from dtlib.errors import BadInput, did_you_mean
from dtlib.study.capstone.request import Request

ASKED = {
    "author": "Who wrote this, and where?",
    "question": "What do you want to know, and who needs the answer?",
    "discussion": "What do the curves and the shares say about your question?",
    "limits": "What did you not measure, and what could be different elsewhere?",
    "purpose": "What will the node-hours be used for?",
}
"""The parts that only the student can write, and what each is asked for in one sentence."""

TITLE = "How a small model scales"
BEGINNING = f"""\
# Your words. A blank line begins a new paragraph. No character has a special meaning, so write
# #, $, @, <, * and quotes as they are. What you leave empty is asked for in the document.
title: |
  {TITLE}
author: |

question: |

discussion: |

limits: |

purpose: |

# Claims about your curves; they are compared with the runs. Beyond the ranks that you measured
# write `extrapolated: true`.
claims: []
#  - {{study: strong, ranks: 2, efficiency: 0.83}}

# Rows of my_runs.csv for “What helped”, by their `what`; [] takes those that name a gain.
helped: []

# The training that you ask node-hours for.
request: {{model: gpt2-xl, tokens: 30.0e+9, device: h100, gpus: 16, gpus_per_node: 8, mfu: 0.4,
  runs: 3, reserve: 0.1, study: weak}}
"""

# A sentence with one of these says itself that its number is not one of the student's.
_MARKED = re.compile(
    r"simulat|predict|assum|target|cited|extrapolat|https?:|\[\d+\]", re.IGNORECASE
)
_RESULT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(%|per ?cent\b|times\b|×)")


@dataclass(frozen=True)
class Words:
    """What the student writes; every part may be empty.

    Attributes
    ----------
    claims
        Each with `study`, `ranks` (or `gpus`), `efficiency` and, if need be, `extrapolated`.
    helped
        The `what` of rows of `my_runs.csv`; empty takes those that name a gain.
    """

    title: str = TITLE
    author: str = ""
    question: str = ""
    discussion: str = ""
    limits: str = ""
    purpose: str = ""
    claims: Sequence[Mapping[str, Any]] = ()
    helped: Sequence[str] = ()
    request: Request = field(default_factory=Request)

    @property
    def missing(self) -> list[str]:
        """The parts of `ASKED` that are empty."""
        return [name for name in ASKED if not getattr(self, name).strip()]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Words:
        """Make words from the entries of a file or a dict.

        Raises `BadInput` for an unknown entry, or one of the wrong kind.
        """
        known = list(cls.__dataclass_fields__)
        found: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise BadInput(
                    f"your words have an entry {name!r}; choose from {', '.join(known)}."
                    + did_you_mean(str(name), known)
                )
            if value is not None:
                found[name] = value
        for name in ("title", *ASKED):
            found[name] = str(found.get(name, "")).strip()
        found["title"] = found["title"] or TITLE
        for name, kind, what in (("claims", Mapping, "entries such as {study: strong, ranks: 2, "
                                  "efficiency: 0.83}"), ("helped", str, "texts")):  # fmt: skip
            items = found.get(name, [])
            if not isinstance(items, (list, tuple)) or not all(isinstance(i, kind) for i in items):
                raise BadInput(f"{name} in your words must be a list of {what}; write [] for none.")
        wanted = found.pop("request", {})
        if not isinstance(wanted, Mapping):
            raise BadInput(f"request in your words is {wanted!r}; write {{model: gpt2, runs: 3}}.")
        return cls(**found, request=Request.of(wanted))


def read(path: Path) -> Words:
    """Read the student's file; write one to fill in if there is none.

    Raises `BadInput` when it cannot be read.
    """
    if not path.exists():
        write_atomically(path, BEGINNING)
        print(f"{path} is new: it asks for your question, discussion and limits; fill it in.")
    return Words.of(read_yaml(path))


def paragraphs(text: str) -> list[str]:
    """Split a text at its blank lines; a single line break is a space."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]


def results_in(words: Words) -> Iterator[tuple[str, str, float]]:
    """Yield the percentages and ratios in the student's text: part, as written, as a share.

    A sentence that calls its number simulated, predicted, assumed, extrapolated, cited or a target,
    or that names its source, is left out.
    """
    for part in ("question", "discussion", "limits"):
        for sentence in re.split(r"(?<=[.!?])\s+", getattr(words, part)):
            if _MARKED.search(sentence):
                continue
            for hit in _RESULT.finditer(sentence):
                share = 100 if hit[2][0] in "%p" else 1
                yield part, hit[0], float(hit[1]) / share
