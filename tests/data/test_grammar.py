"""The grammar: its entropy, its probabilities and its text, against one another and by hand."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from dtlib.data.english import ENGLISH_RULES, english
from dtlib.data.grammar import Grammar
from dtlib.errors import BadInput

# Brackets: a sentence is n opening, n closing and "."; n is geometric.
BRACKETS = Grammar({"S": [(1.0, "B .")], "B": [(0.6, ""), (0.4, "( B )")]})


def small_english() -> Grammar:
    """The English grammar with one word a class, so that its sentences can be listed."""
    classes = {name for name, rules in ENGLISH_RULES.items() if all(" " not in r for _, r in rules)}
    lexical = classes - {"ADJ", "ADV", "NP"}
    return Grammar(
        {k: [(1.0, rules[0][1])] if k in lexical else rules for k, rules in ENGLISH_RULES.items()}
    )


def sentences(grammar: Grammar, depth: int) -> dict[int, list[tuple[tuple[int, ...], float]]]:
    """List (sentence, probability) of all derivations at most `depth` rules deep, by symbol."""
    t = grammar.table
    made: dict[int, list] = {i: [((i,), 1.0)] for i in range(t.terminals)}
    for _ in range(depth):
        new = dict(made)
        for x in set(t.left.tolist()):
            new[x] = []
            for rule in np.flatnonzero(t.left == x):
                parts = [made.get(y, []) for y in t.right[rule]]
                for parts_made in itertools.product(*parts):
                    words = tuple(itertools.chain(*(w for w, _ in parts_made)))
                    p = t.probability[rule] * math.prod(p for _, p in parts_made)
                    new[x].append((words, p))
        made = new
    return made


def log_prob(grammar: Grammar, tokens) -> float:
    """Log of the probability that a text begins with these tokens, in nats."""
    return -float(grammar.surprisals(tokens).sum())


def mass(grammar: Grammar, depth: int) -> float:
    """Probability that a derivation is at most `depth` rules deep, by recursion on symbols."""
    t = grammar.table
    q = np.r_[np.ones(t.terminals), np.zeros(len(t.names) - t.terminals)]
    for _ in range(depth):
        new = q.copy()
        new[t.terminals :] = 0
        for rule, right in enumerate(t.right):
            new[t.left[rule]] += t.probability[rule] * math.prod(q[y] for y in right)
        q = new
    return float(q[grammar.start])


def test_brackets_by_hand():
    # n is geometric: E[n] = 0.4/0.6, length 2n + 1; -log p = -(n log 0.4 + log 0.6).
    n = 0.4 / 0.6
    entropy = -(n * math.log(0.4) + math.log(0.6))
    assert BRACKETS.tokens_per_sentence == pytest.approx(2 * n + 1, rel=1e-12)
    assert BRACKETS.sentence_entropy == pytest.approx(entropy, rel=1e-12)
    assert BRACKETS.entropy == pytest.approx(entropy / (2 * n + 1), rel=1e-12)
    # I - hK = -n log 0.4 - log 0.6 - h (2n + 1); Var(n) = 0.4 / 0.6².
    slope = -math.log(0.4) - 2 * BRACKETS.entropy
    variance = slope**2 * 0.4 / 0.6**2
    expected = math.sqrt(variance / (700 * (2 * n + 1)))
    assert BRACKETS.sampling_error(700) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("grammar", "depth"), [(BRACKETS, 12), (small_english(), 6)])
def test_each_sentence_has_one_derivation_and_probabilities_sum_to_the_mass(grammar, depth):
    listed = sentences(grammar, depth)[grammar.start]
    assert len(listed) > 8
    assert max(Counter(words for words, _ in listed).values()) == 1, "an ambiguous sentence"
    for words, p in listed:
        assert math.exp(log_prob(grammar, words)) == pytest.approx(p, rel=1e-9)
    total = sum(math.exp(log_prob(grammar, words)) for words, _ in listed)
    assert total == pytest.approx(mass(grammar, depth), rel=1e-9)


def test_the_mass_of_all_finite_sentences_is_one():
    assert mass(english(), 400) == pytest.approx(1.0, abs=1e-9)


def test_next_token_probabilities_sum_to_one_after_any_prefix():
    grammar = english()
    text = grammar.sample(60, 3)
    for length in range(0, 60, 7):
        total = 0.0
        for token in range(len(grammar.vocabulary)):
            try:
                total += math.exp(-grammar.surprisals([*text[:length], token])[-1])
            except BadInput:
                continue
        assert total == pytest.approx(1.0, rel=1e-9)


def test_entropy_is_what_fresh_text_measures():
    grammar = english()
    n = 200_000
    measured = grammar.surprisals(grammar.sample(n, 11)).mean()
    # Four standard errors: chance alone exceeds them once in 16,000 seeds, and this seed is fixed.
    assert abs(measured - grammar.entropy) < 4 * grammar.sampling_error(n)


def test_sampling_error_is_the_spread_of_texts():
    grammar = english()
    n, texts = 2000, 200
    # Pieces of one text; where a piece cuts a sentence costs little beside its 260 sentences.
    means = grammar.surprisals(grammar.sample(n * texts, 7)).reshape(texts, n).mean(1)
    # A deviation from 200 draws has a relative standard error of 1/sqrt(400) = 5 %; allow four.
    assert np.std(means) == pytest.approx(grammar.sampling_error(n), rel=0.20)


def test_knowledge_comes_in_stages():
    grammar = english()
    text = grammar.sample(400_000, 1)
    size = len(grammar.vocabulary)
    single = np.bincount(text, minlength=size) / len(text)
    unigram = -(single * np.log(single)).sum()
    pairs = np.bincount(text[:-1] * size + text[1:]) / (len(text) - 1)
    bigram = -(pairs[pairs > 0] * np.log(pairs[pairs > 0])).sum() - unigram
    assert grammar.entropy + 0.2 < bigram < unigram - 0.2


def test_text_is_the_same_however_much_is_made_and_another_for_another_seed():
    grammar = english()
    long = grammar.sample(150_000, 4, 0)
    assert long.dtype == np.int64
    assert len(long) == 150_000
    assert np.array_equal(grammar.sample(1000, 4, 0), long[:1000])
    assert not np.array_equal(grammar.sample(1000, 4, 1), long[:1000])
    assert not np.array_equal(grammar.sample(1000, 5, 0), long[:1000])
    assert len(grammar.sample(0, 4)) == 0


def test_verbs_agree_with_their_own_noun():
    grammar = english()
    number = {word: i for i, word in enumerate(grammar.vocabulary)}

    def tokens(text: str) -> list[int]:
        return [number[word] for word in text.split()]

    assert log_prob(grammar, tokens("these dogs that this cat chases sleep .")) < 0
    assert log_prob(grammar, tokens("this dog that these cats chase sleeps .")) < 0
    with pytest.raises(BadInput, match=r"token 6 \('sleeps'\) cannot come next"):
        log_prob(grammar, tokens("these dogs that this cat chases sleeps ."))
    with pytest.raises(BadInput, match=r"token 5 \('chase'\)"):
        log_prob(grammar, tokens("these dogs that this cat chase sleep ."))


def test_a_text_may_end_within_a_sentence():
    grammar = english()
    text = grammar.sample(100, 9)
    whole = grammar.surprisals(text)
    assert np.array_equal(grammar.surprisals(text[:41]), whole[:41])
    assert log_prob(grammar, text[:41]) == pytest.approx(-whole[:41].sum())


@pytest.mark.parametrize(("rules", "sentence"), [
    ({"S": [(0.5, "a ."), (0.4, "b .")]}, r"probabilities of S .* sum to 1, not 0\.9"),
    ({"S": [(0.5, "a b ."), (0.5, "a c .")]}, "two rules of S can begin with 'a'"),
    ({"S": [(1.0, "A A .")], "A": [(0.5, ""), (0.5, "a")]}, "two rules of A can begin with 'a'"),
    ({"S": [(0.5, "a S S"), (0.5, ".")]}, "no finite expected length"),
])  # fmt: skip
def test_grammars_that_would_break_the_promise_are_refused(rules, sentence):
    with pytest.raises(BadInput, match=sentence):
        _ = Grammar(rules).entropy
