"""What each worker is told of what all were given."""

from dataclasses import replace
from pathlib import Path

import pytest
from readonly_engine.config.kinds import Address
from readonly_engine.config.limits import DispatchRate
from readonly_engine.config.option import ConfigError
from readonly_engine.config.reader import make_config
from readonly_engine.workers.plan import check_ports, worker_config

from tests.unit.engine.config.values import REQUIRED

GIVEN = {**REQUIRED, "workers": 3}
EVERYTHING = {
    **GIVEN,
    "listen": "127.0.0.1:7000",
    "http": "127.0.0.1:8000",
    "advertised-url": "pulsar://me",
    "tls-listen": "127.0.0.1:7001",
    "tls-certificate": "/c",
    "tls-key": "/k",
    "advertised-tls-url": "pulsar+ssl://[::1]:9001",
    "advertised-listeners": "outside:pulsar://door:31000,outside:pulsar+ssl://door:31001",
    "bind-addresses": "outside:pulsar://0.0.0.0:7010",
    "cache-size": "300MiB",
    "max-buffered-bytes": "30MiB",
    "max-connections": 10,
    "max-consumers-per-topic": 5,
    "dispatch-rate-per-broker": {"messages": 100, "bytes": "3MiB"},
}


def test_a_worker_has_ports_of_its_own_everywhere():
    worker = worker_config(make_config({}, EVERYTHING), 1)
    assert worker.listen == Address("127.0.0.1", 7200)
    assert worker.http == Address("127.0.0.1", 8200)
    assert worker.tls_listen == Address("127.0.0.1", 7201)
    assert worker.advertised_url == "pulsar://me:6850"
    assert worker.advertised_tls_url == "pulsar+ssl://[::1]:9201"
    assert worker.advertised_listeners["outside"].url == "pulsar://door:31200"
    assert worker.advertised_listeners["outside"].tls_url == "pulsar+ssl://door:31201"
    assert [str(bind) for bind in worker.bind_addresses] == ["outside:pulsar://0.0.0.0:7210"]


def test_a_worker_has_its_part_of_what_the_machine_gives_and_takes():
    config = make_config({}, EVERYTHING)
    workers = [worker_config(config, index) for index in range(3)]
    assert {worker.cache_size for worker in workers} == {100 << 20}
    assert {worker.max_buffered_bytes for worker in workers} == {10 << 20}
    assert {worker.max_connections for worker in workers} == {4}
    assert {worker.max_consumers_per_topic for worker in workers} == {5}
    assert {worker.dispatch_rate_per_broker for worker in workers} == {DispatchRate(34, 1 << 20)}


def test_what_is_not_given_or_unlimited_stays_so():
    worker = worker_config(make_config({}, GIVEN), 0)
    assert (worker.advertised_url, worker.tls_listen, worker.max_connections) == ("", None, 0)
    assert not worker.dispatch_rate_per_broker
    assert worker.workers == 1


def test_a_worker_has_none_of_its_own():
    config = make_config({}, {**EVERYTHING, "bindings": "/b"})
    again = worker_config(config, 2)
    assert again.bindings == Path("/b")
    assert worker_config(replace(again, workers=1), 0).listen.port == again.listen.port + 100


def test_the_usual_ports_are_all_right():
    check_ports(make_config({}, {**GIVEN, "workers": 8}))
    check_ports(make_config({}, EVERYTHING))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"listen": "127.0.0.1:65300"}, r"^listen: with --workers 3 the port must be from 1 to 65235, not 65300: .*"),
        ({"http": "127.0.0.1:0"}, "^http: with --workers 3 the port must be from 1 to 65235, not 0"),
        ({"http": "127.0.0.1:6850"}, "^workers: two processes need port 6850; .* not 100 apart"),
        ({"http": "127.0.0.1:6950", "workers": 2}, "^workers: two processes need port 6750"),
    ],
)
def test_ports_that_do_not_do_are_one_clear_error(settings, message):
    if settings.get("workers") == 2:
        settings = {**settings, "http": "127.0.0.1:6750"}
    with pytest.raises(ConfigError, match=message):
        check_ports(make_config({}, {**GIVEN, **settings}))
