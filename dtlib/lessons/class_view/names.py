"""Pseudonyms and secrets of a class: what may be one, and new ones."""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from collections.abc import Collection

from dtlib.lessons.class_view.refusals import Refused

LONGEST = 24  # characters of a pseudonym
_FIRST = (
    "amber", "brave", "brisk", "calm", "clever", "cosy", "curious", "eager", "fair", "gentle",
    "glad", "golden", "jolly", "keen", "kind", "lively", "lucky", "merry", "nimble", "patient",
    "quick", "quiet", "silver", "steady", "sunny", "swift", "warm", "wise",
)  # fmt: skip
_SECOND = (
    "badger", "beaver", "bee", "crane", "crow", "deer", "dolphin", "duck", "falcon", "finch",
    "fox", "hare", "hedgehog", "heron", "koala", "lark", "lynx", "marten", "mole", "otter",
    "owl", "panda", "puffin", "raven", "robin", "seal", "sparrow", "squirrel", "swan", "wren",
)  # fmt: skip
# Without 0, O, 1, I and L, which look alike on a board.
_LETTERS = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"


def checked(name: str) -> str:
    """Return a pseudonym as it is kept: letters, digits, spaces and hyphens.

    Raises `Refused` for any other; so there is never markup in one, nor a spreadsheet's formula.
    """
    name = " ".join(unicodedata.normalize("NFC", name).split())
    if not 1 <= len(name) <= LONGEST:
        raise Refused(
            422, f"This pseudonym has {len(name)} characters: choose one of 1 to {LONGEST}."
        )
    odd = [one for one in name if not (_plain(one) or one in " -")]
    if odd or not name[0].isalnum():
        what = f"contains {odd[0]!a}" if odd else f"begins with {name[0]!r}"
        raise Refused(
            422,
            f"This pseudonym {what}: choose one of letters, digits, spaces and hyphens that begins"
            " with a letter or a digit.",
        )
    return name


def _plain(one: str) -> bool:
    """Whether a character is a letter, a digit, or a mark on the letter before it."""
    return one.isalnum() or unicodedata.category(one) in ("Mn", "Mc")


def new_name(taken: Collection[str]) -> str:
    """Return a pseudonym that nobody has; `taken` are case-folded."""
    pairs = [f"{first} {second}" for first in _FIRST for second in _SECOND]
    free = [name for name in pairs if name not in taken]
    return secrets.choice(free) if free else f"student {len(taken) + 1}"


def new_code() -> str:
    """Return a join code, `K7PM-Q2XW`: eight letters of 31, about 8.5e11 of them."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(8))
    return f"{letters[:4]}-{letters[4:]}"


def hashed(token: str) -> str:
    """Return the hash by which a token is kept; a random token of 256 bits needs no salt."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
