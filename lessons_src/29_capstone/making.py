"""Lesson 29's harness: what the student has, two small studies, and pages as pictures."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from dtlib import study
from dtlib.errors import BadInput, Unavailable
from dtlib.learn import history
from dtlib.learn.show import Shown, escape, say, show, table
from dtlib.study import family, scaling
from dtlib.study.capstone import documents, evidence, gains, review

OWN = "capstone"  # the folder of this lesson's studies, in `studies/`
MODEL = "text --model nano --max-length 32 --num-samples 128"


def what_you_have(folder: Path) -> None:
    """Show the rows and the studies that the documents could use, or say where they come from."""
    kept = [row for row in history.runs() if row["lesson"] != "29"]
    inside = evidence.studies_in(folder) if folder.is_dir() else {}
    found = [path.parent for paths in inside.values() for path in paths]
    found = [path for path in found if OWN not in path.parts]
    if not kept and not found:
        say(
            "Nothing yet.",
            "There is no my_runs.csv and no study here: lessons 21 and 22 give studies and gains,"
            " 20 a profile, and every lesson predictions; this lesson continues with two small"
            " studies of its own.",
        )
        return
    rows = [[row["what"], f"{row['measured']} {row['unit']}".strip(), row["source"]]
            for row in gains.chosen(kept, ())]  # fmt: skip
    rows += [["a study, for the parameters above", str(path), "measured"] for path in found]
    lessons = len({row["lesson"] for row in kept})
    title = f"Gains and studies; my_runs.csv has {len(kept)} rows of {lessons} lessons"
    show(table(rows or [["no gain and no study", "", ""]], ["what", "value", "source"], title))


def measure(kind: str, ranks: str, repeats: int, steps: int, batch: int) -> Path:
    """Run a small study, show its table, and return its folder."""
    out = family.begin(Path("studies") / OWN / kind)
    words = f"{kind} {MODEL} --global-batch {batch} --steps {steps} --repeats {repeats}".split()
    with (out / "runs.log").open("w") as log, redirect_stdout(log):
        study.main([*words, "--ranks", ranks, "--out", str(out)])
    text = (out / f"{kind}.txt").read_text()
    print(text.partition("\nTargets")[0], end="\n\n")
    return out


def refuse_without_curve(studies: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Refuse studies that have no efficiency, in the sentences of the reviewer.

    Raises
    ------
    BadInput
        When a study is missing, or no run of it can be compared with `single` in its turn.
    """
    for kind in scaling.KINDS:
        rows = studies.get(kind, [])
        faults = review.of_curve(kind, rows)
        alone = {row["repeat"] for row in rows if row["strategy"] == "single"}
        several = {row["repeat"] for row in rows if row["world_size"] > 1}
        none = not alone & several or {"untimed", "wrong_baseline"} & {one.key for one in faults}
        if faults and none:
            raise BadInput(" ".join(fault.sentence for fault in faults))


def tell(mark: str, lines: Iterable[str]) -> None:
    """Show some sentences as one message; nothing if there are none."""
    said = list(lines)
    if said:
        say(mark, *said)


def show_pages(name: str, out: Path, faults: Sequence[str], resolution: int = 96) -> None:
    """Show the pages of a document as pictures; say what is missing if there are none.

    `faults` are the sentences by which the documents were refused; then there are none.
    """
    if faults or not (out / f"{name}.typ").exists():
        say("No pages.", f"The {name} was not written: mend what is said above, and run again.")
        return
    try:
        pages = documents.images(name, out, resolution)
    except Unavailable as missing:
        say("No pictures.", str(missing))
        return
    width = "20rem" if name == "slides" else "30rem"  # of a page at least, so that it can be read
    drawn = []
    for number, page in enumerate(pages, start=1):
        alt = f"Page {number} of {len(pages)} of the {name}; {out / name}.pdf has it as text."
        data = base64.b64encode(page).decode()
        look = f"flex:1 1 {width};min-width:0;max-width:46rem;border:1px solid #888;height:auto"
        drawn.append(f'<img alt="{escape(alt)}" style="{look}" src="data:image/png;base64,{data}">')
    text = f"{out / name}.pdf, {len(pages)} page{'s' * (len(pages) > 1)}"
    show(Shown(text, f'<div style="display:flex;flex-wrap:wrap;gap:0.8rem">{"".join(drawn)}</div>'))
