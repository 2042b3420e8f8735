"""`dtlib report FOLDER`: one HTML page about a run or a batch job, from the files in its folder.

The page needs no network and no scripts. Parts without records are listed as missing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dtlib.config.files import write_atomically
from dtlib.config.flags import Parser
from dtlib.errors import BadInput, in_words
from dtlib.study.report.content import Page

__all__ = ["Page", "main", "page_of", "write"]


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page and print where it is; return the exit code."""
    parser = Parser(
        prog="dtlib report",
        description="Make one HTML page about a run or a batch job from the files in its folder.",
    )
    parser.add_argument(
        "folder", metavar="FOLDER", help="a run's or a job's folder (batch/NAME-JOBID)"
    )
    parser.add_argument(
        "--to", metavar="FILE", help="the page's file (default: FOLDER/report.html)"
    )
    settings = parser.parse_args(list(sys.argv[1:] if argv is None else argv))
    folder = Path(settings.folder)
    page = page_of(folder)
    to = write(page, Path(settings.to) if settings.to else folder / "report.html")
    print(f"{page.title}: {page.ended}")
    for missing in page.missing:
        print(f"  missing: {missing}")
    print(f"Report: {to}")
    return 0


def page_of(folder: str | Path) -> Page:
    """Make a page from the folder of a run (`config.json`) or a job (`job.json`, `exit-code.r0`).

    Raises `BadInput` when it is neither, or its records can't be read.
    """
    folder = Path(folder)
    if (folder / "job.json").exists() or any(folder.glob("exit-code.*")):
        from dtlib.study.report.jobs import page_of_job

        return page_of_job(folder)
    if (folder / "config.json").exists():
        from dtlib.study.report.runs import page_of_run

        return page_of_run(folder)
    raise BadInput(
        f"the folder {folder} holds neither a run (config.json) nor a job (job.json): give one"
        " that `dtlib train` or `dtlib batch status` printed."
    )


def write(page: Page, to: Path) -> Path:
    """Write a page as HTML, and return the file.

    Raises `BadInput` when it can't be written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("dtlib.study.report", "."), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    text = environment.get_template("page.html").render(page=page)
    try:
        if to.is_dir():
            there = to / "report.html"
            raise BadInput(f"{to} is a folder: give a file name, such as {there}.")
        if to.exists() and not to.is_file():  # a rename would replace a device or a pipe
            raise BadInput(f"{to} is not a regular file, so it is left alone: choose another --to.")
        to.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(to, text)
    except OSError as error:
        raise BadInput(
            f"{to} cannot be written ({in_words(error)}): choose another --to."
        ) from None
    return to
