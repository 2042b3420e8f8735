"""Exercise 3.2: which tokens of a packed window may attend to which."""

import torch

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

may_attend = solution("may_attend", globals())

# words of the solution
NUMBER, SAME = "is_end.cumsum(0) - is_end.long()", "number[:, None] == number[None, :]"
CAUSAL = "torch.ones(s, s, dtype=torch.bool).tril()"
BOTH = "causal & same"


def read(value, window):
    """A square of yes and no, as lists."""
    if value is None:
        raise Wrong("none")
    try:
        square = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("kind", got=type(value).__name__) from None
    s = len(window)
    if tuple(square.shape) != (s, s):
        raise Wrong("not_square", got=list(square.shape), s=s)
    if square.is_floating_point():
        raise Wrong("floats", got=str(square.dtype).removeprefix("torch."))
    return square.bool().tolist()


def facts(got, want, window):
    """The first pair that is wrong."""
    pairs = [(i, k) for i in range(len(window)) for k in range(len(window))]
    i, k = next(((i, k) for i, k in pairs if got[i][k] != want[i][k]), (0, 0))
    says = ["may not", "may"]
    return {"i": i, "k": k, "got": says[got[i][k]], "want": says[want[i][k]], "s": len(window)}


def open_forgotten(window, end):
    """Pairs are filled in when a document's end-of-text is met: the last one may have none."""
    s, start = len(window), 0
    mask = torch.zeros(s, s, dtype=torch.bool)
    for i, token in enumerate(window.tolist()):
        if token == end:
            mask[start : i + 1, start : i + 1] = True
            start = i + 1
    return mask.tril()


EXERCISE = Answer(
    may_attend,
    read=read,
    changed="changed",
    cases=[
        ("one document of 3 tokens", (torch.tensor([5, 6, 7]), 0)),
        ("documents of 2 and 2 tokens", (torch.tensor([5, 6, 0, 7, 8]), 0)),
        ("documents of 1, 3 and 2 tokens", (torch.tensor([5, 0, 6, 7, 8, 0, 9, 5]), 0)),
        ("end 9, documents of 2, 1 and 0 tokens", (torch.tensor([1, 2, 9, 0, 9, 9, 3]), 9)),
        ("a window that begins with end", (torch.tensor([0, 5, 6, 0, 7]), 0)),
        ("a word that is there twice", (torch.tensor([5, 0, 5, 6, 0, 5]), 0)),
    ],
    mistakes=[
        ("no_documents", {BOTH: "causal"}),
        ("not_causal", {BOTH: "same"}),
        ("everything", {BOTH: "causal | ~causal"}),
        ("either", {BOTH: "causal | same"}),
        ("not_itself", {".tril()": ".tril(-1)"}),
        ("future", {".tril()": ".triu()"}),
        ("one_ahead", {".tril()": ".tril(1)"}),
        ("inverted", {BOTH: "~(causal & same)"}),
        ("others", {SAME: "number[:, None] != number[None, :]"}),
        ("end_is_next", {NUMBER: "is_end.cumsum(0)"}),
        ("end_alone", {NUMBER: "2 * is_end.cumsum(0) - is_end.long()"}),
        ("end_for_all", {SAME: f"({SAME}) | is_end[None, :]"}),
        ("two_kinds", {NUMBER: "(is_end.cumsum(0) - is_end.long()) % 2"}),
        ("kinds_of_token", {NUMBER: "is_end.long()"}),
        ("equal_tokens", {NUMBER: "window"}),
        ("first_only", {SAME: "(number[:, None] == 0) & (number[None, :] == 0)"}),
        ("first_end_only", {NUMBER: "(is_end.cumsum(0) - is_end.long()).clamp(max=1)"}),
        ("neighbours", {SAME: "number[:, None] - number[None, :] <= 1"}),
        ("no_end", {BOTH: "causal & same & ~is_end[None, :] & ~is_end[:, None]"}),
        ("no_pairs", {BOTH: "causal & ~causal"}),
        ("open_forgotten", open_forgotten),
        ("itself_only", {BOTH: "torch.eye(s, dtype=torch.bool)"}),
        ("literal", {"window == end": "window == 0"}),
    ],
    facts=facts,
    passed=lambda got: Passed((("windows masked", len(got), 6, ""),)),
)
