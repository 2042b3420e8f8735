"""What tests of a lesson's calls share."""

from pathlib import Path

import pytest

from dtlib import learn

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def demo_lesson(own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo lesson, opened in an empty folder."""
    monkeypatch.setenv("DTLIB_LESSONS", str(FIXTURES / "lessons_src"))
    monkeypatch.delenv("DTLIB_STRICT", raising=False)
    monkeypatch.syspath_prepend(str(FIXTURES))
    learn.start("90")
