"""`dtlib capstone FOLDER`: a paper, a request for node-hours and five slides from measured studies.

What a student has measured (`evidence`) is checked as a reviewer would (`review`, `claims`); with
the student's own words (`words`) and the arithmetic of a request (`request`) it becomes the content
of three documents (`sections`, `gains`, `contents`), which Typst sets (`documents`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dtlib.config.files import writable_folder
from dtlib.config.flags import Parser
from dtlib.errors import BadInput

WORDS = "my_paper.yaml"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the documents and say where they are; return the exit code."""
    parser = Parser(
        prog="dtlib capstone",
        description="Make a four-page paper, a request for node-hours and five slides, as PDF,"
        " from your studies of strong and weak scaling and from my_runs.csv.",
    )
    parser.add_argument(
        "folders", metavar="FOLDER", nargs="+", help="a study's folder, or one that holds studies"
    )
    parser.add_argument(
        "--words", metavar="FILE", default=WORDS,
        help=f"your own words; begun for you if it is missing (default: {WORDS})",
    )  # fmt: skip
    parser.add_argument(
        "--out", metavar="DIR", default="capstone", help="where to write (default: capstone)"
    )
    settings = parser.parse_args(list(sys.argv[1:] if argv is None else argv))
    from dtlib.study.capstone import claims, documents, evidence, words

    found = evidence.gather([Path(folder) for folder in settings.folders])
    mine = words.read(Path(settings.words))
    faults = claims.of_everything(found, mine)
    for fault in faults:
        print(f"- {fault.sentence}")
    if faults:
        many = f"{len(faults)} error{'s' * (len(faults) > 1)}"
        raise BadInput(f"a reviewer would refuse this paper for {many}: mend what is listed above.")
    for line in documents.write(found, mine, writable_folder(Path(settings.out))):
        print(line)
    return 0
