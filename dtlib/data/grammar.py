"""Probabilistic grammars whose entropy is known exactly.

Text is a stream of independent sentences. No language model can have a lower expected loss on fresh
text than the entropy per token, so a lesson can say how far a model is from the best possible one.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dtlib.errors import BadInput

Array = np.ndarray
Rules = Mapping[str, Sequence[tuple[float, str]]]
BLOCK = 4096  # sentences that share one seed: the text is the same however much of it is made


@dataclass(frozen=True)
class _Table:
    """The rules as arrays; rules of one symbol are neighbours, and symbols have numbers."""

    names: tuple[str, ...]  # terminals first, so that a terminal's number is its token
    terminals: int
    left: Array  # the symbol that each rule expands [rules]
    probability: Array  # [rules]
    right: tuple[tuple[int, ...], ...]
    counts: Array  # how often each symbol occurs on each right side [rules, symbols]
    upper: Array  # left + probability of the symbol's rules up to and including this one [rules]


class Grammar:
    """A probabilistic context-free grammar that can be parsed with one token of look-ahead.

    At each symbol the next token alone determines which rule was used (an LL(1) grammar; Lewis and
    Stearns 1968). So a text has at most one derivation, and the probability of a text and of each
    next token is a product of rule probabilities.

    Parameters
    ----------
    rules : mapping
        For each symbol its (probability, right side) pairs; the first symbol is the sentence. A
        right side is words and symbols separated by spaces; "" is empty.

    Raises
    ------
    BadInput
        If probabilities do not sum to 1, the grammar is not LL(1), or sentences have no finite
        expected length.
    """

    def __init__(self, rules: Rules) -> None:
        self.table = _tabulate(rules)
        self.start = self.table.names.index(next(iter(rules)))
        self._choices = _choices(self.table, self.start)
        self.vocabulary = self.table.names[: self.table.terminals]

    # -- what is known exactly -------------------------------------------------------------------

    @functools.cached_property
    def _expected_uses(self) -> Array:
        """How often each symbol occurs in a sentence's derivation, terminals included [symbols].

        The vector c solves c = start + Mᵀc, where M[x, y] is the expected number of y on the right
        side of x.
        """
        t = self.table
        mean = np.zeros((len(t.names), len(t.names)))
        np.add.at(mean, t.left, t.probability[:, None] * t.counts)
        if np.abs(np.linalg.eigvals(mean)).max() >= 1:
            raise BadInput("this grammar's sentences have no finite expected length.")
        start = np.eye(len(t.names))[self.start]
        return np.linalg.solve(np.eye(len(t.names)) - mean.T, start)

    @property
    def tokens_per_sentence(self) -> float:
        """Expected length of a sentence, its "." included."""
        return float(self._expected_uses[: self.table.terminals].sum())

    @property
    def sentence_entropy(self) -> float:
        """Entropy of a sentence in nats: the sum over rules of expected uses times -log p."""
        t = self.table
        uses = self._expected_uses[t.left] * t.probability
        return float(-(uses * np.log(t.probability)).sum())

    @property
    def entropy(self) -> float:
        """Entropy rate in nats per token: entropy of a sentence over its expected length.

        Exact, because sentences are independent, marked by their "." and have one derivation each.
        """
        return self.sentence_entropy / self.tokens_per_sentence

    @functools.cached_property
    def _sentence_variance(self) -> float:
        """Variance of a sentence's I - hK: I is its surprisal, K its length, h the entropy rate.

        I - hK is a sum over the derivation of one number per rule use, so its mean m and variance v
        below each symbol x follow from the rules r of x, with p their probabilities:
        m[x] = E_r[d(r) + Σ m[y]], v[x] = Var_r(d(r) + Σ m[y]) + E_r[Σ v[y]].
        """
        t = self.table
        size = len(t.names)
        own = np.zeros(size)
        own[: t.terminals] = -self.entropy
        expected = np.zeros((size, len(t.left)))
        expected[t.left, np.arange(len(t.left))] = t.probability
        solve = functools.partial(np.linalg.solve, np.eye(size) - expected @ t.counts)
        mean = solve(own - expected @ np.log(t.probability))
        given_rule = t.counts @ mean - np.log(t.probability)
        spread = expected @ (given_rule - mean[t.left]) ** 2
        return float(solve(spread)[self.start])

    def sampling_error(self, tokens: int) -> float:
        """Return the standard error of the best model's mean loss over `tokens` fresh tokens.

        The mean loss over a text is ΣI/ΣK over its sentences, a ratio whose standard error is
        sqrt(Var(I - hK) / (n E[K])), for n tokens, a sentence's surprisal I and length K, and the
        entropy rate h (the delta method for a ratio; Cochran 1977). A trained model that is near
        the best has nearly the same standard error. It is in nats per token.
        """
        return math.sqrt(self._sentence_variance / (tokens * self.tokens_per_sentence))

    # -- text ------------------------------------------------------------------------------------

    def sample(self, tokens: int, *seed: int) -> Array:
        """Return the first `tokens` tokens of a seed's text, int64; the last sentence is cut."""
        blocks: list[Array] = []
        while sum(map(len, blocks)) < tokens:
            rng = np.random.default_rng([*seed, len(blocks)])
            blocks.append(self._sentences(rng, BLOCK))
        return np.concatenate(blocks)[:tokens] if blocks else np.zeros(0, np.int64)

    def _sentences(self, rng: np.random.Generator, count: int) -> Array:
        """Rewrite `count` start symbols, a whole level at a time, until only tokens are left."""
        t = self.table
        lengths = np.array([len(right) for right in t.right])
        starts = np.cumsum(lengths) - lengths
        flat = np.array([symbol for right in t.right for symbol in right])
        line = np.full(count, self.start)
        while (line >= t.terminals).any():
            rule = self._pick(rng, line)
            size = np.where(rule >= 0, lengths[rule], 1)
            origin = np.repeat(np.arange(len(line)), size)
            within = np.arange(len(origin)) - np.repeat(np.cumsum(size) - size, size)
            picked = rule[origin]
            line = np.where(picked >= 0, flat[starts[picked] + within], line[origin])
        return line.astype(np.int64)

    def _pick(self, rng: np.random.Generator, line: Array) -> Array:
        """Pick a rule for each symbol of `line`; -1 for a token."""
        # Rule r of symbol x owns a part of the interval from x to x + 1, as wide as its
        # probability; uniform draws in these intervals are looked up for all symbols at once.
        symbols = line >= self.table.terminals
        rule = np.full(len(line), -1)
        draw = line[symbols] + rng.random(int(symbols.sum()))
        rule[symbols] = np.searchsorted(self.table.upper, draw, side="right")
        return rule

    def surprisals(self, tokens: Sequence[int] | Array) -> Array:
        """Return -log p(token | all tokens before it) in nats, float64 [n]: the best possible loss.

        The text starts with a sentence and may end within one.

        Raises `BadInput` if the grammar cannot produce this text; the message names the first wrong
        token.
        """
        t = self.table
        log_p = np.log(t.probability)
        result = np.zeros(len(tokens))
        stack: list[int] = []
        for i, token in enumerate(int(token) for token in tokens):
            stack = stack or [self.start]
            while stack and stack[-1] != token:
                rule = self._choices.get((stack.pop(), token))
                if rule is None:
                    word = self.vocabulary[token] if 0 <= token < t.terminals else token
                    raise BadInput(f"token {i} ({word!r}) cannot come next in this grammar.")
                result[i] -= log_p[rule]
                stack.extend(reversed(t.right[rule]))
            stack.pop()
        return result


def _tabulate(rules: Rules) -> _Table:
    for symbol, alternatives in rules.items():
        total = math.fsum(p for p, _ in alternatives)
        if not math.isclose(total, 1.0) or min(p for p, _ in alternatives) <= 0:
            raise BadInput(f"probabilities of {symbol} must be positive and sum to 1, not {total}.")
    flat = [(symbol, p, right.split()) for symbol in rules for p, right in rules[symbol]]
    terminals = sorted({word for _, _, right in flat for word in right} - set(rules))
    names = (*terminals, *rules)
    number = {name: i for i, name in enumerate(names)}
    right = tuple(tuple(number[word] for word in side) for _, _, side in flat)
    counts = [np.bincount(np.array(side, int), minlength=len(names)) for side in right]
    upper: list[float] = []
    for symbol, alternatives in rules.items():
        sums = list(itertools.accumulate(p for p, _ in alternatives))
        upper.extend(number[symbol] + up_to for up_to in [*sums[:-1], 1.0])
    return _Table(
        names=names,
        terminals=len(terminals),
        left=np.array([number[symbol] for symbol, _, _ in flat]),
        probability=np.array([p for _, p, _ in flat]),
        right=right,
        counts=np.array(counts, dtype=float),
        upper=np.array(upper),
    )


def _choices(table: _Table, start: int) -> dict[tuple[int, int], int]:
    """Return the rule for each (symbol, next token): the LL(1) parsing table.

    A rule is chosen by the tokens its right side can begin with, and, where the right side can be
    empty, by those that can follow its symbol.
    """
    first, empty = _first(table)
    follow = _follow(table, start, first, empty)
    choices: dict[tuple[int, int], int] = {}
    for rule, (symbol, right) in enumerate(zip(table.left.tolist(), table.right, strict=True)):
        begins = set().union(*(first[y] for y in _prefix(right, empty)))
        if all(y in empty for y in right):
            begins |= follow[symbol]
        for token in begins:
            if choices.setdefault((symbol, token), rule) != rule:
                raise BadInput(
                    f"two rules of {table.names[symbol]} can begin with {table.names[token]!r}, so "
                    "one token of look-ahead does not tell them apart: begin them differently."
                )
    return choices


def _prefix(right: Sequence[int], empty: set[int]) -> Sequence[int]:
    """Return the symbols with which a right side can begin."""
    for length, symbol in enumerate(right, 1):
        if symbol not in empty:
            return right[:length]
    return right


def _first(table: _Table) -> tuple[list[set[int]], set[int]]:
    """Return the tokens that each symbol can begin with, and the symbols that can be empty."""
    first: list[set[int]] = [{i} if i < table.terminals else set() for i in range(len(table.names))]
    empty: set[int] = set()
    # Each pass carries tokens at least one rule further up, so one pass per symbol reaches all.
    for _ in table.names:
        for symbol, right in zip(table.left.tolist(), table.right, strict=True):
            first[symbol].update(*(first[y] for y in _prefix(right, empty)))
            if all(y in empty for y in right):
                empty.add(symbol)
    return first, empty


def _follow(table: _Table, start: int, first: list[set[int]], empty: set[int]) -> list[set[int]]:
    """Return the tokens that can come after each symbol."""
    follow: list[set[int]] = [set() for _ in table.names]
    follow[start] |= first[start]  # the next sentence
    for _ in table.names:
        for symbol, right in zip(table.left.tolist(), table.right, strict=True):
            after = set(follow[symbol])
            for y in reversed(right):
                follow[y] |= after
                after = first[y] | (after if y in empty else set())
    return follow
