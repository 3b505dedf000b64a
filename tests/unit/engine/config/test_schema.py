"""The JSON Schema of the file as a whole; test_every_option.py compares it with a broker option by option."""

import pytest
from readonly_engine.config import schema
from readonly_engine.config.option import ConfigError, options_of
from readonly_engine.config.reader import make_config
from readonly_engine.config.settings import EngineConfig

from tests.support.json_schema import is_valid
from tests.unit.engine.config.values import REQUIRED

SCHEMA = schema.document()


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
