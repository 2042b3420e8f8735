"""Arguments, results and errors that cannot travel, or are none: one sentence, nothing lost."""

import os

import pytest
import rank_functions as on_ranks

from dtlib.errors import BadInput, DtlibError
from dtlib.ranks.launcher import RankFailed, launch


@pytest.mark.parametrize(("options", "sentence"), [
    ({"ranks": 1000}, "ranks=1000 is more processes than one machine should start; use at"),
    ({"threads": 0}, "threads=0 is not a number of threads"),
    ({"threads": 1.5}, "threads=1.5 is not a number of threads"),
    ({"timeout": 0}, "timeout=0 is not a time; use seconds above 0"),
    ({"timeout": float("nan")}, "timeout=nan is not a time"),
    ({"timeout": float("inf")}, "timeout=inf is not a time"),
    ({"timeout": None}, "timeout=None is not a time"),
    ({"timeout": 1e10}, "up to 1000000000"),
    ({"limit": -1}, "limit=-1 is not a time"),
])  # fmt: skip
def test_numbers_that_are_none_are_refused(options, sentence):
    with pytest.raises(BadInput) as caught:
        launch(on_ranks.pid, **options)
    assert sentence in str(caught.value)


def test_a_working_folder_that_is_gone_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(BadInput, match="working folder of this process has been removed"):
        launch(on_ranks.pid, ranks=1)


def raise_without_text() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise KeyError("no text")

    raise Silent


def raise_own(kind: str) -> None:
    class Two(BadInput):
        def __init__(self, what: str, number: int) -> None:
            super().__init__(f"{what} is {number}.")

    if kind == "two arguments":  # pickles, but does not come out of the pickle
        raise Two("width", 3)
    error = BadInput("width is 3.")
    error.line = (number for number in range(3))  # type: ignore[attr-defined]  # does not pickle
    raise error


def test_an_error_that_cannot_say_its_text_is_still_named():
    with pytest.raises(RankFailed, match=r"Rank 0 raised Silent: \(its text cannot be printed"):
        launch(raise_without_text, ranks=1, show=False)


@pytest.mark.parametrize("kind", ["two arguments", "does not pickle"])
def test_an_error_of_our_own_kind_that_cannot_travel_is_still_told(kind):
    with pytest.raises(RankFailed, match=r"Rank 0 raised \w+: width is 3"):
        launch(raise_own, kind, ranks=1, show=False)


class ComesOutBroken:
    """Pickles, but cannot be made again."""

    def __reduce__(self) -> tuple[type[int], tuple[str]]:
        return int, ("no number",)


def test_a_result_that_cannot_be_made_again_is_a_sentence():
    with pytest.raises(DtlibError, match=r"result of rank 0 arrived, but cannot be unpickled here"):
        launch(ComesOutBroken, ranks=1, show=False)
    assert launch(os.getpid, ranks=1) != [os.getpid()]  # and the next launch works
