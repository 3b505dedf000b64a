"""The page of names has every option, and every field of a pool that becomes one."""

from __future__ import annotations

import pytest
from readonly_engine.config.option import NO_FIELD, SET_BY_OPERATOR, options_of
from readonly_engine.config.settings import EngineConfig
from readonly_engine.config.tiered import TieredConfig
from readonly_operator.api.pool import Pool
from readonly_operator.model.engine import engine_config

from docsite import names

GROUPS = ("source.", "limits.", "tieredStorage.", "cache.")
"""Groups whose fields are settings of a broker, all of them."""

PARTS_OF_OTHERS = (
    ".secretName",
    ".configMapName",
    ".key",
    ".name",
    ".secretRef",
    ".messages",
    ".bytes",
    ".clientCertificate",
)
"""Ends of fields that say where a file is, or are a part of a mapping."""

NAMED = {one.field for one in (*options_of(EngineConfig), *options_of(TieredConfig))}

OF_THE_OPERATOR = {"source.authentication.type", "source.authentication", "source.tls", "source.metadataStoreLogin"}
"""Fields that group others."""


def body(**spec):
    source = {"serviceUrl": "pulsar://a:6650", "adminUrl": "http://a:8080", "metadataStoreUrl": "zk:a:2181"}
    metadata = {"namespace": "n", "name": "p", "uid": "u", "generation": 1}
    return {"metadata": metadata, "spec": {"source": source, "image": "i", **spec}}


def test_every_option_has_a_field_that_exists_or_a_reason():
    assert names.fields() | {SET_BY_OPERATOR, NO_FIELD} >= NAMED


def test_every_field_of_a_broker_is_on_the_page():
    left = {
        one
        for one in names.fields()
        if one.startswith(GROUPS)
        and one not in NAMED | OF_THE_OPERATOR
        and not one.endswith(PARTS_OF_OTHERS)
        and not one.startswith("source.authentication.oauth2.")
        and not any(other.startswith(f"{one}.") for other in NAMED)
    }
    assert left == set()


@pytest.mark.parametrize(
    ("spec", "key", "value"),
    [
        ({"cache": {"size": "1Gi"}}, "cache-size", "1GiB"),
        ({"cursors": "Local"}, "cursors", "local"),
        ({"cursorPartitions": 32}, "cursor-partitions", 32),
        ({"lookup": {"unbound": "Proxy"}}, "lookup-unbound", "proxy"),
        ({"limits": {"maxBufferedMemory": "1Gi"}}, "max-buffered-bytes", "1GiB"),
        ({"limits": {"maxConnectionsPerIp": 7}}, "max-connections-per-ip", 7),
        ({"logLevel": "debug"}, "log-level", "debug"),
    ],
)
def test_the_operator_writes_a_field_as_the_option_of_the_page(spec, key, value):
    """The table is what the operator does."""
    assert engine_config(Pool.load(body(**spec)))[key] == value
    (group,) = spec
    (field,) = (one.field for one in options_of(EngineConfig) if one.key == key)
    assert field.startswith(group)


@pytest.mark.parametrize(
    ("option", "field", "same"),
    [
        ("admin-url", "source.adminUrl", True),
        ("cache-size", "cache.size", True),
        ("lookup-unbound", "lookup.unbound", True),
        ("writer-url", "source.serviceUrl", False),
        ("metadata-store", "source.metadataStoreUrl", False),
        ("topics", "binding: topics", True),
    ],
)
def test_whether_the_words_are_the_same(option, field, same):
    assert names.same_name(option, field) is same


def test_the_page_has_forms_choices_and_commands():
    page = names.page()
    assert "| `writer-url` | `source.serviceUrl` | another |  | `demo`, `subscriptions` |" in page
    assert "| `lookup-unbound` | `lookup.unbound` | the same | `Redirect`, `Proxy`, `Reject` |  |" in page
    assert "| `pool` | the operator sets it |" in page
