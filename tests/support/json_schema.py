"""A validator of JSON Schema."""

from typing import Any

import fastjsonschema


def is_valid(schema: dict[str, Any], value: object) -> bool:
    """Return whether a value matches a schema of draft 7."""
    try:
        fastjsonschema.validate(
            {"$schema": "http://json-schema.org/draft-07/schema#", **schema}, value, use_default=False
        )
    except fastjsonschema.JsonSchemaValueException:
        return False
    return True
