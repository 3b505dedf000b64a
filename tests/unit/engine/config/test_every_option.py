"""Every option, whatever declares it: what is written becomes its value, and what is wrong is refused with the right form.

The JSON Schema of the file accepts and refuses the same, but for what no schema can say.
"""

import re

import pytest
import yaml
from readonly_engine.config import schema
from readonly_engine.config.option import ConfigError, options_of, read_options
from readonly_engine.config.reader import make_config, read_config_file
from readonly_engine.config.settings import EngineConfig

from tests.support.json_schema import is_valid
from tests.unit.engine.config.values import OPTIONS, REQUIRED, values_of

SCHEMA = schema.document()
EACH = [pytest.param(cls, one, id=f"{cls.__name__}-{one.key}") for cls, one in OPTIONS]


def allowed(one):
    """The schema of an option, whichever mapping it belongs to."""
    found = schema._values(one)
    return lambda value: is_valid({"type": "object", "properties": {"it": found}}, {"it": value})


@pytest.mark.parametrize(("cls", "one"), EACH)
def test_what_is_written_becomes_the_value(cls, one, tmp_path):
    right = values_of(one).right
    assert any(value != getattr(cls, one.name, None) for _, value in right), "the default alone shows nothing"
    for written, value in right:
        given = {one.key: written}
        if cls is EngineConfig:
            file = tmp_path / "engine.yaml"
            file.write_text(yaml.safe_dump(given))
            given = read_config_file(file)
        found = read_options(cls, given)[one.name]
        assert (found, type(found) is bool) == (value, type(value) is bool), written
        assert allowed(one)(written), written


@pytest.mark.parametrize(("cls", "one"), EACH)
def test_what_is_wrong_is_shown_with_its_option_and_the_expected_form(cls, one):
    values = values_of(one)
    assert values.wrong
    for value in (*values.wrong, *values.late):
        says = re.escape(f": must be {one.kind.expected}, not {value!r}")
        with pytest.raises(ConfigError, match=f"^{one.key}{says}$"):
            read_options(cls, {one.key: value})
        if cls is EngineConfig:
            with pytest.raises(ConfigError, match=f"^--{one.key}{says}$"):
                make_config({}, {**REQUIRED, one.key: value})
            with pytest.raises(ConfigError, match=f"^{one.key} in the file of --config{says}$"):
                make_config({**REQUIRED, one.key: value}, {})


@pytest.mark.parametrize(("cls", "one"), EACH)
def test_the_schema_refuses_what_a_broker_refuses(cls, one):
    values, valid = values_of(one), allowed(one)
    assert [value for value in values.wrong if valid(value)] == []
    assert [value for value in values.late if not valid(value)] == [], "not late: the schema finds it"
    assert one.key in SCHEMA["properties"] or cls is not EngineConfig


@pytest.mark.parametrize(
    ("key", "value"), [("dispatch-rate-per-broker", {}), ("admin-oauth2", {}), ("admin-oauth2", {"key-file": "/k"})]
)
def test_a_broker_and_the_schema_refuse_the_same_mappings(key, value):
    assert not is_valid(SCHEMA, {key: value})
    with pytest.raises(ConfigError):
        make_config({**REQUIRED, key: value}, {})


def test_unknown_keys_are_invalid_at_every_level():
    assert not is_valid(SCHEMA, {"colour": "red"})
    assert not is_valid(SCHEMA, {"tiered-storage": {"colour": "red"}})


def test_every_option_is_described_with_its_default():
    assert list(SCHEMA["properties"]) == [one.key for one in options_of(EngineConfig)]
    for one in options_of(EngineConfig):
        text = SCHEMA["properties"][one.key]["description"]
        assert text.endswith(".")
        assert not one.default or one.default in text
