"""Label selectors of the operator: as those of kubectl without sets."""

import pytest
from readonly_operator.selector import MAX_REQUIREMENTS, LabelSelector

LABELS = {"operator": "canary", "example.com/team": "data", "empty": ""}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("operator=canary", True),
        ("operator==canary", True),
        ("operator = canary , example.com/team", True),
        ("operator=stable", False),
        ("operator!=canary", False),
        ("operator!=stable", True),
        ("absent!=x", True),
        ("absent=", False),
        ("empty=", True),
        ("absent", False),
        ("!absent", True),
        ("!operator", False),
        ("operator=canary,example.com/team=web", False),
        (",".join(["operator"] * MAX_REQUIREMENTS), True),
    ],
)
def test_a_selector_matches_as_in_kubernetes(text, selected):
    found = LabelSelector.parse(text)
    assert found.matches(LABELS) is selected
    assert LabelSelector.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "a=b,",
        "=b",
        "a=b=c",
        "a in (b,c)",
        "a=b c",
        "-a=b",
        f"a={'x' * 64}",
        f"{'k' * 64}=x",
        "!a=b",
        ",".join(["operator"] * (MAX_REQUIREMENTS + 1)),
    ],
)
def test_other_texts_are_none(text):
    assert LabelSelector.parse(text) is None
