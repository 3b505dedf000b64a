"""A setting has one name in all places, and the page of names has every option and every field that becomes one."""

import re

import pytest
from readonly_engine.broker.consumer.limits import Limits
from readonly_engine.command import PARTS
from readonly_engine.config.option import NO_FIELD, SET_BY_OPERATOR, keys_of, options_of
from readonly_engine.config.reader import make_config
from readonly_engine.config.settings import EngineConfig
from readonly_engine.config.tiered import TieredConfig
from readonly_engine.tool.security import environment_of
from readonly_engine.tool.storage import BOOKKEEPER_ENVIRONMENT, ENVIRONMENT
from readonly_spark.option_list import OPTIONS as SPARK_OPTIONS

from docsite import configuration, names
from tests.unit.engine.config.values import REQUIRED

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


OF_ADMIN_ONLY = "adminTls."
"""Options of Spark for brokers' certificates: it asks the admin API alone, so broker-tls would promise too much."""

SHARED_WITH_SPARK = ("metadata", "bookkeeper", "bookie", "admin", "tieredStorage")
"""Beginnings of the options of Spark that are settings of a broker, too."""

OWN_OF_COMMANDS = {
    "--pool-service-url",
    "--pool-token-file",
    "--pool-tls-trust-certificates",
    "--pool-tls-hostname-verification",
    "--token-file",
}
"""Addresses, files and TLS of commands that are none of a broker's: of connections to a pool as a user, and of the demo."""


def test_a_setting_has_the_same_words_as_option_and_as_field():
    """Without this a setting gets a second name, as --writer-url had beside serviceUrl."""
    options = [one for one in options_of(EngineConfig) + options_of(TieredConfig) if one.field in names.fields()]
    others = {one.key for one in options if not names.same_name(one.key, one.field)}
    assert others == set(names.OTHER_WORDS)
    assert len(options) > 50


def test_an_option_and_its_field_have_the_same_choices():
    for one in options_of(EngineConfig) + options_of(TieredConfig):
        if one.field in names.fields() and (found := names.choices(one.field)):
            assert {text.lower() for text in found} == {text.replace("-", "") for text in one.kind.choices}, one.key


def test_options_of_spark_are_the_brokers_in_camel_case():
    shared = [one.name for one in SPARK_OPTIONS if one.name.startswith(SHARED_WITH_SPARK)]
    keys = set(keys_of(EngineConfig)) | {f"tiered-storage-{key}" for key in keys_of(TieredConfig)}
    assert {dashed(one) for one in shared if not one.startswith(OF_ADMIN_ONLY)} <= keys
    assert {dashed(one).replace("admin-", "broker-", 1) for one in shared if one.startswith(OF_ADMIN_ONLY)} <= keys
    assert len(shared) > 20


def test_commands_have_no_other_names_for_addresses_files_and_tls():
    flags = {
        flag for name in PARTS for flag in names.flags_of(name) if flag.endswith(("-url", "-file")) or "-tls-" in flag
    }
    assert flags - {one.flag for one in options_of(EngineConfig)} == OWN_OF_COMMANDS


def test_environment_variables_have_the_names_of_options():
    for variable, key in (
        (ENVIRONMENT, "metadata-store-url"),
        (BOOKKEEPER_ENVIRONMENT, "bookkeeper-metadata-store-url"),
    ):
        assert variable == environment_of(key.replace("-", "_"))
        assert key in keys_of(EngineConfig)


def test_values_of_the_label_limit_are_options():
    limits = Limits(make_config({}, REQUIRED)).refused
    assert {f"max-{one}" for one in limits} <= set(keys_of(EngineConfig))


def test_keys_and_choices_of_the_file_of_bindings_are_fields():
    found = {key.strip("`"): form.strip("`").split(" or ") for key, form, *_ in configuration.binding_keys()}
    assert found.pop("name")
    assert {f"binding: {key}" for key in found} <= names.fields()
    for key, values in found.items():
        if choices := names.choices(f"binding: {key}"):
            assert values == list(choices), key


def dashed(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace(".", "-").lower()


@pytest.mark.parametrize(
    ("option", "field", "same"),
    [
        ("cache-size", "cache.size", True),
        ("broker-tls-key", "source.tls.brokers.clientCertificate.privateKey", True),
        ("bookie-login-file", "source.bookieLogin.secretRef", True),
        ("writer-url", "source.serviceUrl", False),
        ("metadata-tls-verify-hostname", "source.tls.metadataStore.hostnameVerification", False),
        ("topics", "binding: topics", True),
    ],
)
def test_whether_the_words_are_the_same(option, field, same):
    assert names.same_name(option, field) is same
