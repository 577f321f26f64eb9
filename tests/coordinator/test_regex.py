"""Regular expressions in RE2's syntax: what they match, what is refused, and what they cost."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.errors import InvalidRegularExpression
from ottla.coordinator.group.regex import charset, parser
from ottla.coordinator.group.regex.matcher import Matcher
from ottla.coordinator.group.regex.nodes import PROGRAM_MAX

NAME_MAX = 249
"""Characters of a topic name."""


@pytest.mark.parametrize(
    ("expression", "name", "expected"),
    [
        ("foo.*", "foobar", True),
        ("foo", "foobar", False),
        ("a{2,3}", "aaa", True),
        ("a{2,3}", "aaaa", False),
        ("a{2,}", "aaaaa", True),
        ("a{,2}", "a{,2}", True),
        ("(?i)FOO-[a-c]+", "foo-ABC", True),
        ("(?i:F)oo", "foo", True),
        ("(?i:F)oo", "fOO", False),
        ("(?i)[\u212a]", "k", True),
        (r"\bfoo\b.bar", "foo-bar", True),
        (r"fo\Bo", "foo", True),
        (r"\Afoo\z", "foo", True),
        ("^foo$|bar", "bar", True),
        ("a^b", "ab", False),
        ("(a|b)*?c", "ababc", True),
        (r"[[:alpha:]]+\d{3}", "abc123", True),
        (r"[^\d]+", "abc", True),
        (r"[a\-z]+", "a-z", True),
        ("[]a]+", "a]", True),
        ("[a-]+", "a-", True),
        (r"\pL\p{Nd}\P{L}", "a1-", True),
        (r"\p{^Greek}", "a", True),
        (r"\p{Latin}+", "abc", True),
        (r"\Qa.b\E+", "a.bb", True),
        (r"\Qa.b", "a.b", True),
        (r"\x41\x{42}\103", "ABC", True),
        (r"(?P<one>a)(?<two>b)", "ab", True),
        (r"a\.b", "a.b", True),
        ("()*", "", True),
        ("(|a)+", "aaa", True),
        ("é", "a", False),
    ],
)
def test_what_an_expression_matches(expression: str, name: str, expected: bool) -> None:
    assert Matcher(expression).matches(name) is expected


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a**", "invalid nested repetition operator"),
        ("a{2}{3}", "invalid nested repetition operator"),
        ("(", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("[a", "missing closing ]"),
        ("[]", "missing closing ]"),
        ("[z-a]", "invalid character class range"),
        ("[[:word!:]]", "invalid character class range"),
        (r"\p{Klingon}", "invalid character class range"),
        (r"\1", "invalid escape sequence"),
        (r"\Z", "invalid escape sequence"),
        (r"\xZZ", "invalid escape sequence"),
        (r"\x{110000}", "invalid escape sequence"),
        ("\\", "trailing backslash at end of expression"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?i", "invalid or unsupported Perl syntax"),
        ("(?P<1-2>a)", "invalid named capture"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("*a", "missing argument to repetition operator"),
        ("(+a)", "missing argument to repetition operator"),
        ("x{1001}", "invalid repeat count"),
        ("x{3,2}", "invalid repeat count"),
        ("((x{10}){10}){50}", "expression is too large"),
        ("(" * 101 + ")" * 101, "expression nests too deeply"),
        ("(abcde){1000}", "expression is too large"),
        ("a" * 4097, "expression is too large"),
    ],
)
def test_what_is_refused(expression: str, reason: str) -> None:
    with pytest.raises(InvalidRegularExpression) as refusal:
        Matcher(expression)
    assert refusal.value.message == reason


LITERALS = st.sampled_from("ab._-1")
ATOMS = st.one_of(
    LITERALS.map(re.escape), st.sampled_from([".", "[ab]", "[^a]", r"\d", r"\w", r"\b", "^", "$"])
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.text("ab._-1", max_size=8))
def test_it_matches_what_another_engine_matches(expression: str, name: str) -> None:
    expected = re.compile(expression, re.ASCII).fullmatch(name) is not None
    assert Matcher(expression).matches(name) is expected


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_is_refused(expression: str) -> None:
    with contextlib.suppress(InvalidRegularExpression):
        Matcher(expression).matches("topic")


@pytest.mark.parametrize(
    "expression", ["(a*)*b", "(a|a)*b", "(a?){60}a{60}b", "(.*){20}b", "(a*)*" * 40 + "b"]
)
def test_no_expression_costs_more_than_its_size_times_the_name(expression: str) -> None:
    matcher = Matcher(expression)
    assert not matcher.matches("a" * NAME_MAX)
    assert matcher.work <= (NAME_MAX + 2) * (PROGRAM_MAX + 1)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.coordinator.group.regex.matcher.REMEMBERED_MAX", 4)
    matcher = Matcher("(a|b|c|d)*")
    assert matcher.matches("abcdabcd" * 4)
    assert len(matcher._memory) <= 4


def test_every_class_is_a_part_of_ascii() -> None:
    for name in ("L", "Lu", "N", "P", "Any", "Common"):
        mask = charset.unicode_class(name)
        assert mask is not None
        assert 0 < mask <= charset.ALL
    assert charset.unicode_class("Han") == charset.NONE
    assert parser.REPEAT_MAX == 1_000
