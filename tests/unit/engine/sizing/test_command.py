"""The command line: its options, its errors, and golden outputs.

A change that is meant: UPDATE_GOLDEN=1 pytest tests/unit/engine/sizing/test_command.py, then read the diff.
"""

from pathlib import Path

import pytest
from readonly_engine.config.option import ConfigError
from readonly_engine.sizing.command import config_of, main, parser
from readonly_engine.sizing.options import workload_of
from readonly_engine.sizing.workload import Subscriptions, SubscriptionType

from tests.support.golden import check_golden

GOLDEN = Path(__file__).parent / "golden"
SHAPES = {
    "fan-out-100": "--readers 100 --publish-rate 1000 --message-size 1KiB --min-brokers 1",
    "idle-topics": "--topics 5000 --readers 1 --publish-rate 0 --connections 50 --min-brokers 1",
    "mixed": "--topics 20 --partitions 4 --publish-rate 5000 --batch-size 10 --subscriptions Exclusive=10 Shared=2x50 "
    "--passthrough-subscriptions Failover=1x2 --workers 2",
    "nothing": "--readers 0",
}
"""A shape of the bench of fan-out, one of topics at rest, one of all types, and none."""


def settings(text):
    return config_of(vars(parser().parse_args(text.split())))


@pytest.mark.parametrize(("name", "form"), [*((name, "text") for name in SHAPES), ("mixed", "json")])
def test_the_plan_of_a_shape(name, form, capsys):
    assert main([*SHAPES[name].split(), "--output", form]) == 0
    shown = capsys.readouterr().out
    check_golden(GOLDEN / f"{name}.{'txt' if form == 'text' else 'json'}", shown)


def test_the_load_of_the_options():
    config = settings("--topics 2 --partitions 3 --publish-rate 600 --publish-bytes 1200 --batch-size 4 --readers 5")
    (load,) = workload_of(config).loads
    assert (load.topics, load.messages, load.bytes, load.batch, load.entries) == (6, 100, 200, 4, 25)
    assert load.subscriptions == (Subscriptions(SubscriptionType.READER, 5),)
    assert workload_of(config).connections == 10  # a client has one for all partitions
    given = settings("--subscriptions Shared=2x50 Failover=1x3 --subscriptions Reader=0 Key_Shared=1 --readers 1")
    assert given.subscriptions == (
        Subscriptions(SubscriptionType.SHARED, 2, 50),
        Subscriptions(SubscriptionType.FAILOVER, 1, 3),
        Subscriptions(SubscriptionType.KEY_SHARED, 1, 1),
    )


def test_the_backlog_of_the_options():
    (load,) = workload_of(settings("--topics 2 --readers 10 --catch-up-share 0.5 --catch-up-rate 1MiB")).loads
    assert (load.catch_up_bytes, load.catch_up_readers) == (5 << 20, 5)
    (load,) = workload_of(settings("--readers 10 --catch-up-share 0.5 --publish-rate 10 --message-size 100")).loads
    assert load.catch_up_bytes == 5 * 2 * 1000


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", "the load is missing: give --readers or --subscriptions and --publish-rate"),
        ("--workers 2", "the load is missing"),
        ("--readers -1", "--readers: must be a number from 0 to 10000000"),
        ("--readers 1e3", "--readers: must be"),
        ("--topics 0", "--topics: must be a number from 1"),
        ("--publish-rate nan", "--publish-rate: must be a number from 0 to 1000000000, not 'nan'"),
        ("--publish-rate inf", "--publish-rate: must be"),
        ("--publish-rate 1e9", "--publish-rate: must be"),
        ("--publish-rate 1000000001", "--publish-rate: must be"),
        ("--message-size 0", "--message-size: must be a size above 0 such as 100, 1KiB or 10MiB, not '0'"),
        ("--message-size 1KB", "--message-size: must be a size above 0"),
        ("--batch-size 0.5", "--batch-size: must be a number from 1"),
        ("--catch-up-share 2 --readers 1", "--catch-up-share: must be a number from 0 to 1, not '2'"),
        ("--catch-up-share 1 --readers 1", "--catch-up-share: needs --catch-up-rate where --publish-rate is 0"),
        ("--catch-up-rate 1MiB --readers 1", "--catch-up-rate: needs --catch-up-share"),
        ("--subscriptions Shared", "--subscriptions: must be TYPE=N or TYPE=NxCONSUMERS, with a type of Exclusive"),
        ("--subscriptions shared=1", "--subscriptions: must be TYPE=N"),
        ("--subscriptions Shared=1x0", "--subscriptions: must be TYPE=N"),
        ("--subscriptions Shared=99999999", "--subscriptions: must be TYPE=N"),
        ("--subscriptions Exclusive=2x3", "--subscriptions: a subscription of type Exclusive has one consumer, not 3"),
        ("--passthrough-subscriptions x", "--passthrough-subscriptions: must be"),
        ("--publish-rate 1 --publish-bytes 10 --message-size 10", "--publish-bytes: omit it or --message-size"),
        ("--readers 1 --publish-bytes 10", "--publish-bytes: needs --publish-rate"),
        ("--workers 65 --readers 1", "--workers: must be a number from 1 to 64"),
        ("--utilization 0 --readers 1", "--utilization: must be a number from 0.05 to 1"),
        ("--min-brokers 0 --readers 1", "--min-brokers: must be"),
        ("--broker-network 0 --readers 1", "--broker-network: must be a size above 0"),
        ("--timeout 0 --readers 1", "--timeout: must be a number from 1 to 600"),
        ("--topic orders", "--admin-url: missing; --topic and --namespace need it"),
        ("--admin-url http://a:8080", "--admin-url: needs --topic or --namespace"),
        ("--admin-url a:8080 --topic t", "--admin-url: must be http://HOST:PORT"),
        ("--admin-url http://a:8080 --topic t --publish-rate 1", "--publish-rate: omit it with --topic or --namespace"),
        ("--admin-url http://a:8080 --namespace t --topics 2", "--topics: omit it with --topic"),
        ("--admin-url http://a:8080 --topic x://y", "--topic: topic 'x://y'"),
        ("--admin-url http://a:8080 --topic non-persistent://a/b/c", "--topic: non-persistent://a/b/c is not"),
        ("--admin-url http://a:8080 --namespace public", "--namespace: must be TENANT/NAMESPACE, not 'public'"),
        ("--admin-url http://a:8080 --namespace a/b/c", "--namespace: must be TENANT/NAMESPACE, not 'a/b/c'"),
        ("--admin-url http://a:8080 --namespace a/../c", "--namespace: must be TENANT/NAMESPACE"),
        ("--config /nowhere --readers 1", "--config /nowhere: No such file"),
    ],
)
def test_an_invalid_option_has_one_error_that_names_it(words, text, capsys):
    assert main(words.split()) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("pulsar-readonly plan: ")
    assert text in shown.err


def test_the_file_of_a_broker_has_the_admin_api(tmp_path):
    file = tmp_path / "serve.yaml"
    file.write_text("admin-url: https://broker:8443\nworkers: 4\nbroker-tls-hostname-verification: false\n")
    config = settings(f"--config {file} --topic orders")
    assert (config.admin_urls, config.workers) == (("https://broker:8443",), 1)
    assert config.admin_tls is not None
    assert not config.admin_tls.hostname_verification
    assert settings(f"--config {file} --readers 1").observes is False
    file.write_text("admin-url: broker\n")
    with pytest.raises(ConfigError, match="admin-url in the file of --config: must be http"):
        settings(f"--config {file} --topic orders")
