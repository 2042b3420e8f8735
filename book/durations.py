"""Take the seconds of book/durations.yaml from the last run of .ci/run."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGES = {"install": "env"}  # the others have the name of what they make


def taken(text: str, summary: str, commit: str) -> str:
    """The text of durations.yaml with what passed in a summary of .ci/run, measured at `commit`."""
    # What took no second had been made before, such as the operators.
    for stage, seconds in re.findall(r"^(\S+) +passed +([1-9]\d*) s", summary, re.M):
        row = rf"^(  {re.escape(STAGES.get(stage, stage))}: {{seconds: )\d+, at: [^,]+"
        text = re.sub(row, rf"\g<1>{seconds}, at: {commit}", text, flags=re.M)
    return text


if __name__ == "__main__":
    summary, page = ROOT / "build/ci/summary", ROOT / "book/durations.yaml"
    if not summary.exists():
        sys.exit("There is no build/ci/summary: run .ci/run first.")
    words = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    page.write_text(taken(page.read_text("utf-8"), summary.read_text("utf-8"), commit.strip()))
    print("book/durations.yaml is new; `make notebooks` writes the pages.")
