"""Lessons that are written for one test."""

from pathlib import Path

HEADER = {"number": '"{number}"', "title": "Lesson {number}", "does": "run a cell",
          "objectives": "[one, two, three]", "minutes": "{{read: 1, exercises: 0}}",
          "needs": "[laptop]", "builds_on": "[]"}  # fmt: skip


def write(folder: Path, number: str, /, *cells: str, sidecar: str = "", **header: str) -> Path:
    """Write a lesson of some code cells; keywords replace lines of the header, "" removes one."""
    lines = [
        f"# {key}: {value.format(number=number) if value is HEADER.get(key) else value}"
        for key, value in {**HEADER, **header}.items()
        if value
    ]
    parameters = '# %% tags=["parameters"]\nspeed = 1\nname = "a"'
    parts = ["# %% [raw]\n" + "\n".join(lines), parameters]
    parts += [cell if cell.startswith("# %%") else f"# %%\n{cell}" for cell in cells]
    path = folder / f"{number}_lesson{number}" / "lesson.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    if sidecar:
        path.with_suffix(".yaml").write_text(sidecar, encoding="utf-8")
    return path
