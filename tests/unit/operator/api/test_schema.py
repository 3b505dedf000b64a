"""Declarations: one makes the schema and reads the value, and both agree."""

from dataclasses import dataclass, field

import pytest
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.api.schema import (
    Choice,
    Declared,
    Flag,
    ListOf,
    MapOf,
    Nested,
    Number,
    Record,
    Text,
    declare,
    json_name,
    load,
)
from readonly_operator.api.values import INT_OR_PERCENT, QUANTITY, Duration

WORD = Text(8, "[a-z]+", "must be a word")


@dataclass(frozen=True, slots=True)
class Inner:
    size: str = field(default="1Gi", metadata=declare(Text(8), "How large.", stored=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    word: str = field(metadata=declare(WORD, "A word.", required="give a word"))
    max_cpu: int = field(default=3, metadata=declare(Number(1, 9), "How many."))
    inner: Inner = field(default=Inner(), metadata=declare(Nested(Inner), "What is inside.", stored=True))
    inside_only: int = 7


def test_the_same_dataclass_reads_values():
    assert load(Outer, {"word": "a"}, "spec") == Outer(word="a")
    assert load(Outer, {"word": "a", "maxCPU": 5, "inner": {"size": "2Gi"}}, "spec") == Outer(
        word="a", max_cpu=5, inner=Inner("2Gi")
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "spec.word is missing: give a word"),
        ([], "spec must be an object, not list"),
        ({"word": "A"}, "spec.word must be a word, not 'A'"),
        ({"word": 5}, "spec.word must be a string, not int"),
        ({"word": "a", "maxCPU": 10}, "spec.maxCPU must be a whole number from 1 to 9, not 10"),
        ({"word": "a", "inner": "1Gi"}, "spec.inner must be an object, not str"),
    ],
)
def test_what_cannot_be_read_names_the_field(value, message):
    with pytest.raises(ApiSpecError) as caught:
        load(Outer, value, "spec")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        (Choice(("A", "B")), "C", "x must be one of A, B, not 'C'"),
        (Flag(), "true", "x must be true or false, not 'true'"),
        (Number(2), 1, "x must be a whole number of at least 2, not 1"),
        (ListOf(WORD, 2), "a", "x must be a list, not str"),
        (ListOf(WORD, 2), ["a", "b", "c"], "x must have 0 to 2 items, not 3"),
        (ListOf(WORD, 2), ["a", "B"], "x[1] must be a word, not 'B'"),
        (MapOf(WORD, 2), [], "x must be an object, not list"),
        (MapOf(WORD, 2), {"k": "B"}, "x.k must be a word, not 'B'"),
        (Record({"a": Declared(WORD, "", required=True)}), {}, "x.a is missing"),
        (Record({"a": Declared(WORD, "")}), {"a": "B"}, "x.a must be a word, not 'B'"),
        (Record({}), 5, "x must be an object, not int"),
        (
            QUANTITY,
            "much",
            "x must be a quantity, for example 500m or 2 for CPUs and 512Mi or 2Gi for memory, not 'much'",
        ),
        (QUANTITY, True, "x must be a quantity, for example 500m or 2 for CPUs and 512Mi or 2Gi for memory, not True"),
        (
            INT_OR_PERCENT,
            "120%",
            "x must be a number of brokers or a percentage of them, for example 1 or 25%, not '120%'",
        ),
        (Duration("1s"), "1m", "x must be a whole number of ms or s, from 10ms to 9999s, for example 1s, not '1m'"),
        (Duration("1s"), 1, "x must be a whole number of ms or s, from 10ms to 9999s, for example 1s, not 1"),
    ],
)
def test_values_that_are_wrong(schema, value, message):
    with pytest.raises(ApiSpecError) as caught:
        schema.parse(value, "x")
    assert str(caught.value) == message


@pytest.mark.parametrize("value", [1, "1", "0.5", "500m", "2Gi", "1e3", "1.5Gi"])
def test_quantities(value):
    assert QUANTITY.parse(value, "x") == value


def test_a_number_or_text_has_the_pattern_of_its_text():
    made = INT_OR_PERCENT.openapi()
    assert made["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert made["pattern"] == "^([0-9]+|(100|[1-9]?[0-9])%)$"


def test_a_cheap_text_is_checked_by_its_pattern():
    assert Text(8, "[a-z]+", "must be a word", cheap=True).openapi() == {
        "type": "string",
        "maxLength": 8,
        "pattern": "^([a-z]+)$",
    }


def test_quotes_and_backslashes_reach_the_rule():
    (rule,) = Text(8, r"\d'", "must be so").openapi()["x-kubernetes-validations"]
    assert rule["rule"] == r"self.matches('^(\\d\')$')"


def test_names():
    assert json_name("target_cpu_utilization") == "targetCPUUtilization"
    assert json_name("max_connections_per_ip") == "maxConnectionsPerIp"


def test_sources_can_be_compared_and_are_equal_where_their_specs_are(pool_body):
    """They are keys: pools of the same source cluster share its checks."""
    secured = {"authentication": {"secretRef": {"name": "reader"}}, "tls": {"brokers": {"hostnameVerification": False}}}
    body = pool_body()
    body["spec"]["source"] |= secured
    assert {Pool.load(body).source, Pool.load(body).source} == {Pool.load(body).source}
    assert Pool.load(body).source != Pool.load(pool_body()).source
