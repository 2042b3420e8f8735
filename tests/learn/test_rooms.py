"""`lesson` means the open lesson's room: in the kernel, on ranks, in a script of its own."""

from pathlib import Path

from processes import python

from dtlib import launch
from dtlib.learn import rooms, source

ROOT = Path(__file__).resolve().parents[2]


def test_the_alias_is_the_module_itself_here_on_ranks_and_in_scripts(monkeypatch) -> None:
    for name in ("DTLIB_ROOM", "PYTHONPATH"):
        monkeypatch.setenv(name, str(ROOT) if name == "PYTHONPATH" else "")
    opened = source.find("22")
    rooms.enter(opened)
    import lesson.what_if as here  # type: ignore[import-not-found]

    assert here is rooms.module(opened, "what_if")
    function = next(n for n in vars(here) if callable(getattr(here, n)) and not n.startswith("_"))

    def on_a_rank() -> str:
        import lesson.what_if

        return getattr(lesson.what_if, function).__module__

    assert launch(on_a_rank, ranks=2, show=False) == ["22_twenty_percent.what_if"] * 2
    code = f"from lesson.what_if import {function} as f; print(f.__module__)"
    ran = python("-c", code)
    assert ran.stdout.strip() == "22_twenty_percent.what_if", ran.stderr
