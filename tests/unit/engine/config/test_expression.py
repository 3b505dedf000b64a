"""Regular expressions that users write."""

import time

import pytest
from readonly_engine.broker.pool.bindings import load_bindings
from readonly_engine.config.expression import MAX_LENGTH, MAX_PROGRAM_SIZE, Expression, ExpressionError
from readonly_engine.metadata.topic_name import parse_topic_name

DEADLINE_S = 5.0
"""Python's own engine takes years for each of these."""


@pytest.mark.parametrize("text", ["(a+)+b", "(a|aa)+b", "(.*.*.*){10}b", "(a*)*b", "(a?){100}a{100}b"])
def test_no_expression_takes_long(text):
    expression = Expression.parse(text)
    began = time.monotonic()
    assert not expression.matches("a" * 5000)
    assert time.monotonic() - began < DEADLINE_S
    assert expression.matches("a" * 100 + "b")


def test_a_binding_whose_expressions_are_the_worst_is_looked_up_at_once(tmp_path):
    path = tmp_path / "bindings.yaml"
    path.write_text(
        "{revision: r1, bindings: [{name: a, topics: ['persistent://t/n/(a+)+b'], subscriptions: ['(a+)+b']}]}"
    )
    bindings = load_bindings(path)
    began = time.monotonic()
    assert not bindings.covers(parse_topic_name("persistent://t/n/" + "a" * 200))
    assert not bindings.serves(parse_topic_name("persistent://t/n/aab"), "a" * 200)
    assert time.monotonic() - began < DEADLINE_S
    assert bindings.serves(parse_topic_name("persistent://t/n/aab"), "ab")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(?=a)b", "invalid perl operator: (?=; it must be in RE2 syntax, which has no lookaround and no"),
        ("(?<!a)b", "it must be in RE2 syntax"),
        (r"(a)\1", r"invalid escape sequence: \1; it must be in RE2 syntax"),
        ("a++", "bad repetition operator: ++"),
        ("x{0,1001}", "invalid repetition size"),
        ("(x{900}|.{900}){10}", "invalid repetition size"),
        (r"[\pL\pN]{1000}", "pattern too large"),
        (r"[\pL\pN]{9}", f"instructions; at most {MAX_PROGRAM_SIZE} are allowed"),
        ("a" * (MAX_LENGTH + 1), f"it has {MAX_LENGTH + 1} characters; at most {MAX_LENGTH} are allowed"),
        ("\ud800", "it is not valid Unicode"),
    ],
)
def test_what_is_refused_says_why_and_nothing_is_printed(text, says, capfd):
    with pytest.raises(ExpressionError) as error:
        Expression.parse(text)
    assert says in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_what_is_large_but_not_too_large_is_taken():
    assert Expression.parse(".{1000}").matches("ö" * 1000)
    assert Expression.parse("a" * MAX_LENGTH).matches("a" * MAX_LENGTH)
