"""Which bindings claim the same topics."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.config.expression import Expression, ExpressionError
from readonly_engine.config.topic_patterns import is_name
from readonly_operator.api.binding import Binding
from readonly_operator.bindings.overlap import find_overlap
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.kube.names import PoolKey

P = "persistent://public/default/"


def binding(name: str, topics=(), namespaces=(), created: str = "") -> Binding:
    full = tuple(topic if ":" in topic else P + topic for topic in topics)
    return Binding("team", name, 1, PoolKey("team", "p"), full, tuple(namespaces), created=created)


def nothing():
    raise AssertionError("nothing need be asked")


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (["a", "b"], ["b"], P + "b"),
        (["a"], ["b"], ""),
        (["a"], ["a-partition-3"], P + "a-partition-3"),
        (["a-partition-2"], ["a-partition-3"], ""),
        (["orders-eu"], ["orders-.*"], P + "orders-eu"),
        (["orders"], ["orders-.*"], ""),
        (["orders-1-partition-0"], ["orders-1"], P + "orders-1-partition-0"),
        (["persistent://t/n/orders-eu"], ["orders-.*"], ""),
        (["orders"], ["x|.*"], P + "orders"),
        (["persistent://t/n/orders"], ["x|.*"], ""),  # the namespace is no part of the expression
        (["x.*"], ["x.*"], f"all topics that match {P}x.*"),
    ],
)
def test_names_and_expressions(one, other, both):
    assert find_overlap(binding("a", one), binding("b", other), nothing) == both
    assert find_overlap(binding("b", other), binding("a", one), nothing) == both


@pytest.mark.parametrize(
    ("topics", "both"),
    [
        (["orders"], P + "orders"),
        (["x.*"], f"topics that match {P}x.*"),
        (["persistent://t/n/orders"], ""),
        (["persistent://t/n/x.*"], ""),
        (["__change_events"], ""),
        (["a-s__transaction_pending_ack"], ""),
    ],
)
def test_a_namespace_is_all_its_topics_but_pulsars_own(topics, both):
    whole = binding("a", namespaces=["public/default", "shop/eu"])
    assert find_overlap(whole, binding("b", topics), nothing) == both
    assert find_overlap(binding("b", topics), whole, nothing) == both


def test_a_namespace_twice():
    assert (
        find_overlap(binding("a", namespaces=["t/n"]), binding("b", namespaces=["x/y", "t/n"]), nothing)
        == "all topics of t/n"
    )
    assert find_overlap(binding("a", namespaces=["t/n"]), binding("b", namespaces=["x/y"]), nothing) == ""


def test_two_expressions_clash_over_a_topic_that_there_is():
    older, younger = binding("a", [".*-eu"]), binding("b", ["orders-.*"])
    assert find_overlap(older, younger, lambda: [P + "logs-eu"]) == ""
    assert find_overlap(older, younger, lambda: [P + "logs-eu", P + "orders-eu"]) == P + "orders-eu"
    assert find_overlap(binding("a", ["persistent://t/n/.*-eu"]), younger, nothing) == ""


NAMES = ["a", "b", "ab", "abb", "ax", "a-partition-0", "a-partition-07", "persistent://t/n/a"]
EXPRESSIONS = [
    "a.*",
    "[ab]",
    "ab*",
    "ab?",
    "ab+",
    "b{0,1}a.*",
    "a|b",
    "(a|b)x",
    "ab*(x|y)",
    "(a)|b",
    "a\\w",
    "a-partition-0.*",
    "ab\\Q\\E*",
    "ab(?i)*",
    "A(?i)B",
    "a(?i:B)",
    "x|.*",
    "\\Qab\\E",
    "a\\pL",
    "ab{0}(?:)",
]
PARTS = ["a", "b", "?", "*", "{0}", "|", "(?i)", "(?i:b)", "\\Q", "\\E", "(", "(?:", ")", "."]
TOPICS = st.sampled_from([*NAMES, *EXPRESSIONS, "persistent://t/n/.+"])
CLAIMS = st.tuples(st.lists(TOPICS, max_size=3), st.lists(st.sampled_from(["public/default", "t/n"]), max_size=1))


@given(st.lists(CLAIMS, max_size=6), st.integers(0, 5))
def test_the_index_leaves_out_nobody_who_claims_the_same(claims, dropped):
    index = BindingTopicIndex()
    bindings = {("team", str(i)): binding(str(i), *claim) for i, claim in enumerate(claims)}
    for name, one in bindings.items():
        index.put(name, {"topics": ["none"], "namespaces": ["public/default"]})
        index.put(name, {"topics": list(one.topics), "namespaces": list(one.namespaces)})
    index.drop(("team", str(dropped)))
    bindings.pop(("team", str(dropped)), None)
    there_is = [name if "/" in name else P + name for name in NAMES]
    for name, one in bindings.items():
        found = index.conflicting(name)
        assert found <= bindings.keys() - {name}
        for other, another in bindings.items():
            if other != name and find_overlap(one, another, lambda: there_is):
                assert other in found


def test_the_index_finds_whoever_names_what_an_expression_of_re2_matches():
    names = [P + name for name in ("a", "ab", "abb", "aB", "aba", "A", "b", "x")]
    matched = 0
    for parts in itertools.product(PARTS, repeat=3):
        text = P + "ab" + "".join(parts)
        try:
            expression = Expression.parse(text)
        except ExpressionError:
            continue
        if is_name(text):
            continue
        index = BindingTopicIndex()
        index.put(("team", "a"), {"topics": [text]})
        for name in filter(expression.matches, names):
            index.put(("team", "b"), {"topics": [name]})
            assert index.conflicting(("team", "a")) == {("team", "b")}, (text, name)
            assert index.conflicting(("team", "b")) == {("team", "a")}, (text, name)
            matched += 1
    assert matched > 500, "the parts make expressions that match something"


@pytest.mark.parametrize(
    ("expression", "name", "may"),
    [
        ("orders-1-.*", "orders-1-eu", True),
        ("orders-1-.*", "orders-1", True),  # of a partitioned topic, no more is known than this
        ("orders-1-.*", "orders-2-eu", False),
        ("orders-1-.*", "orders-2-.*", False),
        ("orders-1-.*", "orders-.*", True),
        ("orders-10*", "orders-1", True),
        ("orders-10*", "orders-2", False),
        ("(eu|us)-orders", "asia-orders", True),
        ("x-(eu|us)", "y-eu", False),
        ("x|y", "y", True),
    ],
)
def test_only_what_can_begin_alike_is_compared(expression, name, may):
    index = BindingTopicIndex()
    index.put(("team", "a"), {"topics": [P + expression]})
    index.put(("team", "b"), {"topics": [P + name]})
    for one, other in (("a", "b"), ("b", "a")):
        assert (("team", other) in index.conflicting(("team", one))) == may


def test_a_binding_without_a_valid_topic_conflicts_with_none():
    index = BindingTopicIndex()
    index.put(("team", "a"), {"topics": "x", "namespaces": [7]})
    index.put(("team", "b"), {"topics": [P + "a"]})
    assert index.conflicting(("team", "a")) == set()
    assert index.conflicting(("team", "gone")) == set()
