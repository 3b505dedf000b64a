"""The validator refuses what JSON Schema refuses."""

from __future__ import annotations

import pytest

from tests.support.json_schema import is_valid

OBJECT = {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "integer", "minimum": 1}}}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (OBJECT, [{}, {"a": 1}], [{"a": 0}, {"a": True}, {"b": 1}, [], "a"]),
        ({"type": "array", "items": {"type": "string", "minLength": 1}}, [[], ["a"]], [[""], [1], "a"]),
        ({"anyOf": [{"type": "integer"}, {"pattern": "^a$", "type": "string"}]}, [1, "a"], ["b", 1.5, None]),
        ({"enum": [True, "true"]}, [True, "true"], [1, "yes", False]),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 2}, [0.5, 2], [0, 2.5, "1"]),
    ],
)
def test_values(schema, valid, invalid):
    assert [value for value in valid if not is_valid(schema, value)] == []
    assert [value for value in invalid if is_valid(schema, value)] == []


def test_an_unknown_keyword_is_an_error():
    with pytest.raises(KeyError):
        is_valid({"oneOf": []}, 1)
