"""axe-core in a page: what keeps people from using it."""

from pathlib import Path
from typing import Any

import npm


def script(folder: Path) -> Path:
    """Bring axe-core into a folder and return its file; skip the test where that fails."""
    return npm.install(folder, "axe-core@4.14.1") / "axe.min.js"


def violations(
    page: Any, core: Path, part: str = "document", only: list[str] | None = None
) -> list[dict[str, Any]]:
    """What breaks a rule in a part of a page, which JavaScript names; by default all rules."""
    page.evaluate(core.read_text("utf-8"))  # a page's own policy may forbid a script element
    rules = {"runOnly": only} if only else {}
    found = page.evaluate(f"rules => axe.run({part}, rules)", rules)
    # Rules that pass show that axe found something to look at.
    least = len(only) if only else 16 if part == "document" else 6
    assert len(found["passes"]) >= least
    return found["violations"]


def serious(page: Any, core: Path, only: list[str] | None = None) -> list[tuple[str, str]]:
    """Rule and place of each serious violation in a page."""
    return [
        (rule["id"], rule["nodes"][0]["html"][:200])
        for rule in violations(page, core, only=only)
        if rule["impact"] in ("serious", "critical")
    ]
