"""Write paper, proposal, slides and rubric: Typst sources with their data, and PDFs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from dtlib.config.files import back_up, write_atomically
from dtlib.errors import BadInput, Unavailable
from dtlib.study import scaling
from dtlib.study.capstone import charts, contents, sections
from dtlib.study.capstone.evidence import Evidence
from dtlib.study.capstone.request import Costs, costs
from dtlib.study.capstone.words import ASKED, Words

PAGES = {"paper": 4, "proposal": 1, "slides": 5, "rubric": 1}
"""How many pages a document should have."""

LOOK = "look.typ"


def write(evidence: Evidence, words: Words, out: Path) -> Iterator[str]:
    """Write all documents into a folder, and yield what to tell the student, line by line.

    The Typst sources are written first; without the package typst a line says how to get it, and
    the sources stay. The evidence should have been checked before (`claims.of_everything`).

    Raises
    ------
    BadInput
        When there is no scaling study, or a row that the words name does not exist.
    """
    if not sections.curves(evidence):
        raise BadInput(
            "there is no study of strong or weak scaling to write about: make one with `dtlib study"
            " strong text --ranks 1,2`."
        )
    price = None
    try:
        price = costs(words.request, evidence.studies)
    except BadInput as why:
        yield f"No proposal: {why}"
    names = sources(evidence, words, price, out)
    yield f"Typst sources: {', '.join(f'{name}.typ' for name in names)} in {out}"
    try:
        for name in names:
            yield pdf(name, out)
    except Unavailable as missing:
        yield str(missing)
    if words.missing:
        asked = ", ".join(f"{part} ({ASKED[part]})" for part in words.missing)
        yield f"You have still to write: {asked}."


def sources(evidence: Evidence, words: Words, price: Costs | None, out: Path) -> list[str]:
    """Write templates, data and figures into a folder; return the documents' names."""
    data: dict[str, Any] = {"paper": contents.paper(evidence, words)}
    if price is not None:
        data["proposal"] = contents.proposal(words, evidence, price)
    data["slides"] = contents.slides(words, evidence, price)
    data["rubric"] = contents.rubric()
    for kind, rows in sections.curves(evidence).items():
        write_atomically(out / f"{kind}.svg", charts.curve(kind, rows))
    if evidence.shares:
        write_atomically(out / "shares.svg", charts.step_shares(evidence.shares))
    studies = {kind: evidence.studies.get(kind, ()) for kind in scaling.KINDS}
    write_atomically(out / "slides.svg", charts.efficiencies(studies, (9.5, 3.4), 15))
    for file in (LOOK, *(f"{name}.typ" for name in data)):
        _keep(out / file, _template(file))
        write_atomically(out / file, _template(file))
    for name in PAGES.keys() - data.keys():  # of an earlier call
        _keep(out / f"{name}.typ", _template(f"{name}.typ"))
        for kind in ("typ", "json", "pdf"):
            (out / f"{name}.{kind}").unlink(missing_ok=True)
    for name, content in data.items():
        text = json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True)
        write_atomically(out / f"{name}.json", text + "\n")
    return list(data)


def _template(file: str) -> bytes:
    return resources.files("dtlib.study.capstone").joinpath(file).read_bytes()


def _keep(path: Path, template: bytes) -> None:
    """Copy a file that is no longer the template, before it is overwritten or removed."""
    if path.exists() and path.read_bytes() != template:
        print(f"{path} has changed since dtlib wrote it; it is kept as {back_up(path).name}.")


def pdf(name: str, out: Path) -> str:
    """Set one document, and return a line with its number of pages.

    Raises `Unavailable` without the package typst.
    """
    compiler = _compiler(name, out)
    write_atomically(out / f"{name}.pdf", compiler.compile(format="pdf"))
    pages = int(compiler.query("<pages>", field="value", one=True))
    said = f"{out / name}.pdf: {pages} page{'s' * (pages > 1)}"
    wanted = PAGES[name]
    if pages != wanted:
        change = "shorter" if pages > wanted else "longer"
        said += f"; it should have {wanted}, so make your words or tables {change}"
    return said + "."


def images(name: str, out: Path, resolution: int = 60) -> list[bytes]:
    """Return the pages of a document that `write` has written as PNG images.

    Parameters
    ----------
    resolution
        Pixels per inch.

    Raises
    ------
    Unavailable
        Without the package typst.
    """
    pages = _compiler(name, out).compile(format="png", ppi=resolution)
    return list(pages) if isinstance(pages, list) else [pages]


def _compiler(name: str, out: Path) -> Any:
    try:
        import typst
    except ImportError:
        raise Unavailable(
            "the PDFs need the package typst: in the project's folder, run pip install -e"
            f" '.[workshop]' -c constraints.txt; until then their Typst sources are in {out}."
        ) from None
    # the fonts that come with the package, so that a document is the same on every machine
    return typst.Compiler(str(out / f"{name}.typ"), root=str(out), ignore_system_fonts=True)
