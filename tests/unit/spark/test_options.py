import json
import operator
import pickle
from pathlib import Path

import pytest
from readonly_engine.metadata.security import LoginScheme, StoreSecurity
from readonly_engine.metadata.url import FORMS
from readonly_engine.net.tls import TlsFiles
from readonly_engine.topic.position import Position
from readonly_spark.option_list import OPTIONS
from readonly_spark.options import OptionError, parse_options
from readonly_spark.task import task_read_rate

GIVEN = {"metadataStoreUrl": "zk:localhost:2181", "topic": "orders"}


def parse(streaming=False, **given):
    return parse_options({**GIVEN, **given}, streaming=streaming)


def test_the_least_that_must_be_given():
    options = parse()
    assert options.metadata_url.hosts == "localhost:2181"
    assert options.topics == ("persistent://public/default/orders",)
    assert (options.starting, options.ending, options.partition_bytes) == (None, None, 256 << 20)
    assert (options.fail_on_data_loss, options.retry_s) == (True, 300)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("option", "text", "attribute", "value"),
    [
        ("metadatastoreurl", "zk:a:1,b:2/chroot", "metadata_url.hosts", "a:1,b:2"),
        ("minPartitions", "7", "min_partitions", 7),
        ("maxBytesPerPartition", "2m", "partition_bytes", 2 << 20),
        ("maxRecordsPerPartition", "1000", "partition_records", 1000),
        ("maxBytesPerTrigger", "1GiB", "trigger_bytes", 1 << 30),
        ("maxMessagesPerTrigger", "5", "trigger_messages", 5),
        ("batchBytes", "128k", "batch_bytes", 128 << 10),
        ("valueSchema", "AUTO", "value_schema", "auto"),
        ("decodeErrors", "null", "decode_errors", "null"),
        ("readsInFlight", "8", "reads_in_flight", 8),
        ("maxReadBytesPerSecond", "10MB", "read_rate", 10 << 20),
        ("bookieTls.trustCertificates", "/etc/ca.pem", "bookie_tls.trust", Path("/etc/ca.pem")),
        ("bookieLoginFile", "/etc/login", "bookie_login_file", Path("/etc/login")),
        ("tieredStorage.credentialsFile", "/etc/keys", "tiered.credentials_file", Path("/etc/keys")),
        ("tieredStorage.readPriority", "bookkeeper-first", "tiered.read_priority", "bookkeeper-first"),
        ("tieredStorage.requestTimeout", "2.5", "tiered.request_timeout", 2.5),
        ("FAILONDATALOSS", "False", "fail_on_data_loss", False),
        ("retryTimeout", "0", "retry_s", 0),
        ("retryTimeout", "1.5", "retry_s", 1.5),
    ],
)
def test_each_option_has_its_attribute(option, text, attribute, value):
    given = {name: one for name, one in GIVEN.items() if name.lower() != option}
    options = parse_options({**given, option: text}, streaming="Trigger" in option)
    assert operator.attrgetter(attribute)(options) == value


def test_offsets_and_certificates():
    offsets = {"orders": "12:345", "persistent://public/default/b": "latest"}
    files = {"trustCertificates": "ca.pem", "certificate": "zookeeper.pem", "key": "zookeeper.key"}
    options = parse_options(
        {
            "metadataStoreUrl": "zk:a:1",
            "topics": "orders, b",
            "startingOffsets": json.dumps(offsets),
            "bookieTls.trustCertificates": "/etc/ca.pem",
            "bookieTls.hostnameVerification": "false",
            "metadataStoreLoginFile": "/etc/zookeeper-login",
            "metadataStoreLoginScheme": "digest",
            **{f"metadataStoreTls.{name}": f"/etc/{file}" for name, file in files.items()},
        },
        streaming=True,
    )
    default = "persistent://public/default"
    assert options.starting == {f"{default}/orders": Position(12, 345), f"{default}/b": "latest"}
    assert options.bookie_tls.hostname_verification is False
    tls = TlsFiles("metadataStoreTls", *(Path("/etc") / file for file in files.values()))
    assert options.metadata_security == StoreSecurity(
        tls, Path("/etc/zookeeper-login"), LoginScheme.DIGEST, camel_case=True
    )


@pytest.mark.parametrize(
    ("given", "tasks", "rate"),
    [
        ({}, 3, None),
        ({"maxReadBytesPerSecond": "100"}, 3, 100),
        ({"maxQueryReadBytesPerSecond": "120"}, 3, 40),
        ({"maxQueryReadBytesPerSecond": "120"}, 0, 120),
        ({"maxQueryReadBytesPerSecond": "120", "concurrentTasks": "4"}, 100, 30),
        ({"maxQueryReadBytesPerSecond": "120", "concurrentTasks": "4"}, 2, 60),
        ({"maxQueryReadBytesPerSecond": "120", "maxReadBytesPerSecond": "50"}, 2, 50),
        ({"maxQueryReadBytesPerSecond": "120", "maxReadBytesPerSecond": "50"}, 4, 30),
    ],
)
def test_the_rate_of_a_task_is_its_share_of_the_query(given, tasks, rate):
    assert task_read_rate(parse(**given), tasks) == rate


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400_000),
    ],
)
def test_times(text, ms):
    assert parse(startingTimestamp=text).starting_ms == ms


@pytest.mark.parametrize(
    ("given", "streaming", "told"),
    [
        ({"metadataStoreUrl": "http://x"}, False, f"metadataStoreUrl: must be {FORMS}, not 'http://x'"),
        ({"topic": "a/b"}, False, "topic: 'a/b' is not a topic name"),
        ({"topic": "non-persistent://a/b/c"}, False, "topic: non-persistent://a/b/c is not persistent"),
        ({"topics": "a"}, False, "topic and topics contradict each other"),
        ({"topicsPattern": "a"}, False, "topic and topicsPattern contradict"),
        ({"startingOffsets": "earliest", "startingTimestamp": "5"}, False, "startingOffsets and startingTimestamp contradict"),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, False, "endingTimestamp is before startingTimestamp"),
        ({"startingOffsets": "first"}, False, "startingOffsets: 'first' must be earliest, latest, or JSON"),
        ({"startingOffsets": '{"a": "5"}'}, False, "startingOffsets: persistent://public/default/a: '5' must be a message id"),
        ({"startingOffsets": '{"a": "1:2", "public/default/a": "1:2"}'}, False, "is named twice"),
        ({"startingTimestamp": "yesterday"}, False, "startingTimestamp: 'yesterday' must be ms since the epoch"),
        ({"endingOffsets": "latest"}, True, "endingOffsets is for batch queries, not for a stream"),
        ({"endingTimestamp": "5"}, True, "endingTimestamp is for batch queries"),
        ({"maxBytesPerTrigger": "5"}, False, "maxBytesPerTrigger is for streaming queries, not for a batch"),
        ({"maxBytesPerTrigger": "0"}, True, "maxBytesPerTrigger: '0' must be a number of bytes above 0"),
        ({"concurrentTasks": "4"}, False, "concurrentTasks requires maxQueryReadBytesPerSecond"),
        ({"maxQueryReadBytesPerSecond": "0"}, False, "maxQueryReadBytesPerSecond: '0' must be a number of bytes above 0"),
        ({"minPartitions": "-1"}, False, "minPartitions: '-1' must be a number above 0"),
        ({"failOnDataLoss": "no"}, False, "failOnDataLoss: 'no' must be true or false"),
        ({"batchBytes": "1k"}, False, "batchBytes: '1k' must be from 64KiB"),
        ({"valueSchema": "avro"}, False, "valueSchema: 'avro' must be raw, auto, or JSON"),
        ({"decodeErrors": "skip"}, False, "decodeErrors: 'skip' must be fail or null"),
        ({"bookieTls.key": "/k"}, False, "bookieTls.key requires bookieTls.certificate"),
        ({"bookieTls.trustCertificates": "ca.pem"}, False, "'ca.pem' must be an absolute path"),
        ({"bookieTls.hostnameVerification": "true"}, False, "bookieTls.hostnameVerification requires"),
        ({"metadataStoreTls.key": "/k"}, False, "metadataStoreTls.key requires metadataStoreTls.certificate"),
        ({"metadataStoreLoginFile": "login"}, False, "metadataStoreLoginFile: 'login' must be an absolute path"),
        ({"metadataStoreLoginScheme": "sasl"}, False, "metadataStoreLoginScheme requires metadataStoreLoginFile"),
        ({"metadataStoreLoginScheme": "x", "metadataStoreLoginFile": "/l"}, False, "metadataStoreLoginScheme: 'x' must be sasl"),
        ({"tieredStorage.endpoint": "s3"}, False, "tieredStorage.endpoint: must be http://HOST:PORT or https://HOST, not 's3'"),
        ({"tieredStorage.readSize": "1k"}, False, "tieredStorage.readSize: must be at least 64KiB, not 1024"),
        ({"tieredStorage.cacheSize": "2MiB"}, False, "must be at least four times the read-size 1048576"),
        ({"tieredStorage.cacheSize": "8MiB", "tieredStorage.readSize": "4MiB"}, False, "four times the read-size 4194304"),
        ({"retryTimeout": "-1"}, False, "retryTimeout: '-1' must be a number of seconds, 0 or more"),
        ({"retryTimeout": "1:00"}, False, "retryTimeout: '1:00' must be a number of seconds, 0 or more"),
        ({"retryTimeout": ""}, False, "retryTimeout: '' must be a number of seconds, 0 or more"),
        ({"maxTriggerDelay": "5"}, True, "maxTriggerDelay requires minMessagesPerTrigger"),
        ({"holdSubscription": "s"}, True, "holdSubscription requires adminUrl"),
        ({"adminUrl": "http://a:1"}, True, "adminUrl requires holdSubscription"),
        ({"adminTokenFile": "/t"}, True, "adminTokenFile requires holdSubscription"),
        ({"adminTls.certificate": "/t"}, True, "adminTls.certificate requires holdSubscription"),
        ({"holdSubscription": "s", "adminUrl": "pulsar://a:1"}, True, "adminUrl: 'pulsar://a:1' must be as http://HOST:PORT"),
        ({"holdSubscription": "s", "adminUrl": "http://me:secret@a:1"}, True, "adminUrl: "),
        ({"holdSubscription": " ", "adminUrl": "http://a:1"}, True, "holdSubscription: ' ' must be the name"),
        ({"holdSubscription": "__s", "adminUrl": "http://a:1"}, True, "holdSubscription: '__s' must be the name"),
        ({"path": "/x"}, False, "unknown option 'path'; the options are metadataStoreUrl, topic"),
        ({"subscription": "x"}, True, "unknown option 'subscription'"),
        ({"metadataurl": "zk:a:1"}, True, "unknown option 'metadataurl'; the nearest is metadataStoreUrl; the options are"),
    ],
)  # fmt: skip
def test_one_clear_error(given, streaming, told):
    with pytest.raises(OptionError) as caught:
        parse(streaming, **given)
    assert told in str(caught.value)


def test_what_must_be_given():
    with pytest.raises(OptionError, match="metadataStoreUrl is missing"):
        parse_options({"topic": "a"}, streaming=False)
    with pytest.raises(OptionError, match="no topic is named; set one of topic, topics, topicsPattern"):
        parse_options({"metadataStoreUrl": "zk:a:1"}, streaming=False)


@pytest.mark.parametrize(
    ("topics", "told"),
    [("a,,b", "must be topic names"), ("a, public/default/a", "is named twice"), ("a,a-partition-1", "is a partition of")],
)  # fmt: skip
def test_lists_of_topics(topics, told):
    with pytest.raises(OptionError, match=told):
        parse_options({"metadataStoreUrl": "zk:a:1", "topics": topics}, streaming=False)


def test_patterns_are_of_re2():
    def pattern(text):
        return parse_options({"metadataStoreUrl": "zk:a:1", "topicsPattern": text}, streaming=False).topics_pattern

    assert pattern("public/default/a.*") == "persistent://public/default/a.*"
    assert pattern("persistent://.*") == "persistent://.*"
    with pytest.raises(OptionError, match=r"topicsPattern: .* is not a regular expression of RE2"):
        pattern(r"(a)\1")


def test_every_option_is_read_and_described():
    names = [option.name.lower() for option in OPTIONS]
    assert len(set(names)) == len(names)
    assert all(option.meaning.endswith((".", ":", "`")) for option in OPTIONS), "whole sentences"


def test_what_spark_adds_for_a_table_of_its_catalog_is_no_option():
    texts = {"metadataStoreUrl": "zk:h:1", "topic": "a"}
    added = {f"option.{name}": text for name, text in texts.items()} | {
        "provider": "pulsar-readonly",
        "owner": "me",
        "location": "/t",
    }
    assert parse_options(texts | added, streaming=False) == parse_options(texts, streaming=False)
    with pytest.raises(OptionError, match=r"unknown option 'option\.topic'"):
        parse_options({**texts, "option.topic": "b"}, streaming=False)
    with pytest.raises(OptionError, match="use CREATE TEMPORARY VIEW"):
        parse_options({}, streaming=False)


def test_the_start_of_each_topic_may_be_a_time():
    given = {
        "metadataStoreUrl": "zk:h:1",
        "topics": "a,b",
        "startingOffsets": '{"a": "2026-11-21T12:00:00Z", "b": "5:7"}',
    }
    starting = parse_options(given, streaming=False).starting
    assert starting == {
        "persistent://public/default/a": 1_795_262_400_000,
        "persistent://public/default/b": Position(5, 7),
    }
    for text in ("2026-11-21Tx", "yesterday"):
        with pytest.raises(OptionError, match="or a time such as"):
            parse_options({**given, "startingOffsets": json.dumps({"a": text, "b": "latest"})}, streaming=False)


def test_a_subscription_that_holds_messages_back():
    given = {
        "metadataStoreUrl": "zk:h:1",
        "topic": "a",
        "holdSubscription": "spark",
        "adminUrl": "https://a:1,http://b:2",
    }
    hold = parse_options(given, streaming=True).hold
    assert (hold.subscription, hold.urls, hold.tls is not None) == ("spark", ("https://a:1", "http://b:2"), True)
    assert parse_options({**given, "adminUrl": "http://b:2"}, streaming=True).hold.tls is None


MIB = 1 << 20


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({}, (4 * MIB, 16 * MIB)),
        ({"tieredStorage.cacheSize": "64MiB"}, (4 * MIB, 64 * MIB)),
        ({"tieredStorage.cacheSize": "8MiB"}, (2 * MIB, 8 * MIB)),
        ({"tieredStorage.cacheSize": "4MiB"}, (MIB, 4 * MIB)),
        ({"tieredStorage.cacheSize": "1MiB", "tieredStorage.readSize": "64KiB"}, (64 << 10, MIB)),
        ({"tieredStorage.readSize": "8MiB"}, (8 * MIB, 32 * MIB)),
        ({"tieredStorage.readSize": "1MiB"}, (MIB, 16 * MIB)),
    ],
)
def test_requests_to_tiered_storage_fit_its_cache(given, sizes):
    tiered = parse_options(GIVEN | given, streaming=False).tiered
    assert (tiered.read_size, tiered.cache_size) == sizes
