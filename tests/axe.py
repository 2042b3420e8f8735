"""axe-core in a page: what keeps people from using it."""

from pathlib import Path
from typing import Any

import npm


def script(folder: Path) -> Path:
    """Bring axe-core into a folder and return its file; skip the test where that fails."""
    return npm.install(folder, "axe-core@4.14.1") / "axe.min.js"


def serious(page: Any, axe: Path) -> list[tuple[str, str]]:
    """Rule and place of each serious violation in a page."""
    page.evaluate(axe.read_text("utf-8"))  # a page's own policy may forbid a script element
    found = page.evaluate("axe.run(document)")
    assert len(found["passes"]) > 15
    return [
        (rule["id"], rule["nodes"][0]["html"][:200])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]
