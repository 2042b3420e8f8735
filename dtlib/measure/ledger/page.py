"""What the ledger says about one step on one rank."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtlib.measure.columns import aligned
from dtlib.measure.ledger.census import KINDS
from dtlib.measure.ledger.collectives import Tally

MOMENTS = {
    "between_steps": "between steps",
    "before_update": "before the update",
    "most": "at most",
}
"""When bytes are counted; a page has an attribute with each of these names."""


@dataclass
class Page:
    """Bytes that a rank held, and what it sent, in one step.

    Attributes
    ----------
    rank, world_size, device
        Where it was measured.
    between_steps, before_update, most
        Kind to bytes: after the step; after backward, just before the optimizer changes the
        weights; and the most at any time in the step, for each kind separately.
    on_host
        Kind to bytes between steps that are in the CPU's memory.
    collectives
        Name to calls, payload and derived ring bytes, as torch's dispatcher saw them.
    along
        The same for each axis of a mesh, as in "all_reduce along tensor"; empty without a mesh.
    carried_out
        The same, as the flight recorder saw the backend do it; None without a recorder.
    gathered
        Bytes of sharded parameters that became whole in the step, counted each time it happened;
        checked whenever a tensor is saved or used and before every collective.
    allocated, peak
        Bytes of tensors when the step began, and the most during it; None if unknown.
    timeline
        [activations, gradients, gathered parameters, communication] in bytes, at each tensor that
        autograd saved or used.
    """

    rank: int = 0
    world_size: int = 1
    device: str = "cpu"
    between_steps: dict[str, int] = field(default_factory=dict)
    before_update: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    on_host: dict[str, int] = field(default_factory=dict)
    collectives: dict[str, Tally] = field(default_factory=dict)
    along: dict[str, Tally] = field(default_factory=dict)
    carried_out: dict[str, Tally] | None = None
    gathered: int = 0
    allocated: int | None = None
    peak: int | None = None
    timeline: list[tuple[int, int, int, int]] = field(default_factory=list)

    @property
    def payload(self) -> int:
        """Bytes of all collectives and sends of the step; a receive counts as the sender's send."""
        return sum(t.payload for name, t in self.collectives.items() if name != "recv")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the timeline."""
        found = dataclasses.asdict(self)
        del found["timeline"]
        return {**found, "payload": self.payload}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Page:
        """Return the page that `to_dict` was made from."""
        values = {key: value for key, value in found.items() if key != "payload"}
        for key in ("collectives", "along", "carried_out"):
            if values.get(key) is not None:  # a page of before there were meshes has no axes
                values[key] = {name: Tally(**tally) for name, tally in values[key].items()}
        return cls(**values)

    def table(self) -> str:
        """Return the page as text, for people."""
        return "\n\n".join(aligned(rows) for rows in self._tables())

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return "".join(_html(rows) for rows in self._tables())

    def _tables(self) -> list[list[list[str]]]:
        found = [self._bytes_held(), *self._calls()]
        if self.peak is not None and self.allocated is not None:
            numbers = [f"{self.allocated:,}", f"{self.peak:,}"]
            found.append([["bytes of all tensors", "at the start", "at most"], ["", *numbers]])
        return found

    def _bytes_held(self) -> list[list[str]]:
        rows = [[f"bytes held by rank {self.rank} of {self.world_size}", *MOMENTS.values()]]
        for kind in KINDS:
            numbers = [getattr(self, moment).get(kind, 0) for moment in MOMENTS]
            if any(numbers):
                rows.append([kind.replace("_", " "), *(f"{number:,}" for number in numbers)])
        return rows

    def _calls(self) -> list[list[list[str]]]:
        asked = _tally_rows("collective", self.along or self.collectives)
        if not self.collectives:
            return []
        done = self.carried_out
        if done is None or _same(self.collectives, done):
            return [asked]
        return [asked, _tally_rows("carried out as (flight recorder)", done)]


def _same(asked: Mapping[str, Tally], done: Mapping[str, Tally]) -> bool:
    """Whether the backend did what it was asked to do; messages and barriers do not count."""
    beside = ("send", "recv", "barrier")
    return {k: v for k, v in asked.items() if k not in beside} == {
        k: v for k, v in done.items() if k not in beside
    }


def _tally_rows(title: str, tallies: Mapping[str, Tally]) -> list[list[str]]:
    rows = [[title, "calls", "payload", "on a ring (derived)"]]
    for name, tally in sorted(tallies.items()):
        rows.append([name, f"{tally.calls:,}", f"{tally.payload:,}", f"{tally.wire:,.0f}"])
    return rows


def _html(rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Iterable[str], tags: Iterable[str]) -> str:
        return "".join(f"<{t}>{c}</{t.split()[0]}>" for t, c in zip(tags, cells, strict=True))

    head, *body = rows
    heads = line(head, ["th scope='col'"] * len(head))
    lines = [line(row, ["th scope='row'"] + ["td"] * (len(row) - 1)) for row in body]
    inside = "".join(f"<tr>{text}</tr>" for text in [heads, *lines])
    return f"<table>{inside}</table>"
