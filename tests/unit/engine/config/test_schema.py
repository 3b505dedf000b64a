"""The JSON Schema of the file accepts what a broker accepts, and refuses wrong forms of values."""

import pytest
from readonly_engine.config import schema
from readonly_engine.config.option import ConfigError, options_of
from readonly_engine.config.reader import make_config
from readonly_engine.config.settings import EngineConfig

from tests.support.json_schema import is_valid
from tests.unit.engine.config.test_settings import MALFORMED, REQUIRED

SCHEMA = schema.document()

LATER: dict[str, tuple[object, ...]] = {
    "service-url": ("pulsar://host:99999",),
    "listen": ("host:65536",),
}
"""Wrong values that no pattern finds: a broker refuses them at its start."""

VALID = {
    "metadata-store-url": ["zk:a:1,b:2/chroot", "metadata-store:zk:a:1", "oxia://a:6648/ns", "zk:[::1]:2181"],
    "service-url": ["pulsar://a:1,b:1", "pulsar+ssl://a:1", "pulsar://a", "pulsar://a:1/", "pulsar://[fe80::1%eth0]:1"],
    "admin-url": ["http://a:1", "https://a"],
    "listen": ["*:6650", "[::1]:0"],
    "metadata-store-tls-hostname-verification": [True, False, "true", "false"],
    "cache-size": [1024, "1024", "64MiB", "64Mi", 0],
    "max-connections": [0, "10", 10],
    "workers": [1, "2", 64],
    "topics": [["persistent://a/b/c.*"], []],
    "locality": ["/zone/rack", "/rack"],
    "advertised-listeners": ["internal:pulsar://a:1", ["internal:pulsar://a:1", "other:pulsar+ssl://a:2"]],
    "tiered-storage": [{}, {"read-priority": "bookkeeper-first"}, "{region: eu}", {"request-timeout": 1.5}],
    "dispatch-rate-per-broker": [{"messages": 5}, "{bytes: 1MiB}"],
    "admin-oauth2": [{"issuer-url": "https://i", "key-file": "/k"}],
    "unknown-keys": ["warn"],
    "lookup-unbound": ["proxy"],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in VALID.items() for value in values])
def test_what_a_broker_accepts_is_valid(key, value):
    given = {**REQUIRED, key: value}
    if key != "topics":
        make_config(given, {})
    assert is_valid(SCHEMA, given)


@pytest.mark.parametrize("key", sorted(MALFORMED))
def test_wrong_forms_are_invalid(key):
    _, values = MALFORMED[key]
    found = [value for value in values if is_valid(SCHEMA, {key: value})]
    # a mapping may be given as a text of YAML, which only a broker reads
    texts = SCHEMA["properties"][key].get("anyOf", [{}])[-1].get("description") == "the mapping as a text of YAML"
    numbers = [value for value in found if isinstance(value, str) and value.isdecimal()]
    assert [one for one in found if not (texts and isinstance(one, str)) and one not in LATER.get(key, ())] == numbers


BOTH_REFUSE = {
    "service-url": [
        "pulsar://a:1?x=1", "pulsar://a:1#x", "pulsar://a:", "pulsar://a\n:1", "pulsar://a b:1", "pulsar://a:1\n",
        "pulsar://a:1/,b:1", "PULSAR://a:1",
    ],
    "admin-url": ["http://a:1?x", "https://a:", "http://a b"],
    "advertised-url": ["PULSAR://a:1", "pulsar://a:1?x"],
    "listen": ["a:1\n", "a\n:1", "a b:1"],
    "metadata-store-url": ["zk:a:1\n"],
    "cache-size": ["1\n", "1MiB\n"],
    "locality": ["/a\n"],
    "dispatch-rate-per-broker": [{}],
    "admin-oauth2": [{}, {"key-file": "/k"}],
}  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BOTH_REFUSE.items() for value in values])
def test_a_broker_and_the_schema_refuse_the_same(key, value):
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
