"""The grammar of the data set `grammar`: a little English.

A model learns it in stages: how often words occur (the unigram entropy), which classes of words
follow one another, and last that a verb agrees with its own noun across a nested clause, as in
"these dogs that this cat chases sleep ."
"""

from __future__ import annotations

import functools

from dtlib.data.grammar import Grammar


def words(text: str) -> list[tuple[float, str]]:
    """Return rules that give each word of `text`, with probabilities that fall as 1/rank (Zipf)."""
    listed = text.split()
    total = sum(1 / k for k in range(1, len(listed) + 1))
    return [(1 / k / total, word) for k, word in enumerate(listed, 1)]


_NOUNS = "cat dog bird child farmer horse teacher sailor king robot singer wizard"
_INTRANSITIVE = "sleep run sing laugh fall wait dream shout"
_TRANSITIVE = "see chase like follow hear help find fear"


def _singular(verbs: str) -> str:
    return " ".join(verb + "s" for verb in verbs.split())


# Number agrees throughout: _s is singular, _p plural. Terminals are the words without a rule.
ENGLISH_RULES: dict[str, list[tuple[float, str]]] = {
    "S": [(0.55, "NP_s VP_s ."), (0.45, "NP_p VP_p .")],
    "NP_s": [(1.0, "Det_s ADJ N_s REL_s")],
    "NP_p": [(1.0, "Det_p ADJ N_p REL_p")],
    "ADJ": [(0.7, ""), (0.3, "Adj ADJ")],
    "REL_s": [(0.75, ""), (0.25, "that CLAUSE_s")],
    "REL_p": [(0.75, ""), (0.25, "that CLAUSE_p")],
    "CLAUSE_s": [(0.5, "VP_s"), (0.25, "NP_s Vt_s"), (0.25, "NP_p Vt_p")],
    "CLAUSE_p": [(0.5, "VP_p"), (0.25, "NP_s Vt_s"), (0.25, "NP_p Vt_p")],
    "VP_s": [(0.5, "Vi_s ADV"), (0.5, "Vt_s NP")],
    "VP_p": [(0.5, "Vi_p ADV"), (0.5, "Vt_p NP")],
    "NP": [(0.55, "NP_s"), (0.45, "NP_p")],
    "ADV": [(0.7, ""), (0.3, "Adv")],
    "Det_s": words("this every another"),
    "Det_p": words("these many some"),
    "Adj": words("small old happy grey tall clever brave quiet"),
    "Adv": words("often quietly today again alone outside"),
    "N_s": words(_NOUNS),
    "N_p": words(
        "cats dogs birds children farmers horses teachers sailors kings robots singers wizards"
    ),
    "Vi_s": words(_singular(_INTRANSITIVE)),
    "Vi_p": words(_INTRANSITIVE),
    "Vt_s": words(_singular(_TRANSITIVE)),
    "Vt_p": words(_TRANSITIVE),
}


@functools.cache
def english() -> Grammar:
    """Return the grammar of the data set `grammar`."""
    return Grammar(ENGLISH_RULES)
