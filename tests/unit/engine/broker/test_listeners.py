from __future__ import annotations

import pytest
from readonly_engine.broker.listeners import (
    BindAddress,
    ListenerError,
    Urls,
    parse_advertised_listeners,
    parse_bind_addresses,
)

BOTH = ("external:pulsar://demo-0.example.com:6650", "external:pulsar+ssl://demo-0.example.com:6651")


def test_a_listener_has_an_address_with_tls_and_one_without():
    assert parse_advertised_listeners([*BOTH, " in-house:pulsar://[::1]:6650"]) == {
        "external": Urls("pulsar://demo-0.example.com:6650", "pulsar+ssl://demo-0.example.com:6651"),
        "in-house": Urls("pulsar://[::1]:6650"),
    }


def test_the_order_of_the_two_does_not_matter():
    assert parse_advertised_listeners(BOTH[::-1]) == parse_advertised_listeners(BOTH)


@pytest.mark.parametrize(
    ("items", "says"),
    [
        (
            ["pulsar://host:6650"],
            "'pulsar://host:6650' would be NAME:pulsar://HOST:PORT or NAME:pulsar+ssl://HOST:PORT",
        ),
        (["a b:pulsar://host:6650"], "would be NAME:"),
        (["external:http://host:80"], "would be NAME:"),
        (["external:pulsar://host"], "would be NAME:"),
        (["external:pulsar://host:99999"], "would be NAME:"),
        (["external:pulsar://host:6650/path"], "would be NAME:"),
        (["external:pulsar://me@host:6650"], "would be NAME:"),
        (["external:pulsar://:6650"], "would be NAME:"),
        (["external:pulsar://host:0"], "with a port from 1 to 65535"),
        ([BOTH[0], "other:pulsar://demo-0.example.com:6650"], "pulsar://demo-0.example.com:6650 is given twice"),
        ([BOTH[0], "external:pulsar://b:1"], "listener external has pulsar://demo-0.example.com:6650 and pulsar://b:1"),
    ],
)
def test_what_is_no_listener_is_named(items, says):
    with pytest.raises(ListenerError) as caught:
        parse_advertised_listeners(items)
    assert says in str(caught.value)


def test_clients_of_a_listener_come_in_at_ports_of_its_own():
    advertised = parse_advertised_listeners(BOTH)
    assert parse_bind_addresses(["external:pulsar+ssl://0.0.0.0:6661", "external:pulsar://[::]:0"], advertised) == (
        BindAddress("external", tls=True, host="0.0.0.0", port=6661),
        BindAddress("external", tls=False, host="[::]", port=0),
    )


@pytest.mark.parametrize(
    ("items", "says"),
    [
        (["other:pulsar://h:1"], "its clients could be sent nowhere; advertise other:pulsar://HOST:PORT too"),
        (["external:pulsar+ssl://h:1"], "advertise external:pulsar+ssl://HOST:PORT too"),
        (["external:pulsar://h:1", "external:pulsar://h:1"], "external:pulsar://h:1 is given twice"),
        (["6660"], "'6660' would be NAME:pulsar://HOST:PORT"),
    ],
)
def test_what_is_no_bind_address_is_named(items, says):
    with pytest.raises(ListenerError) as caught:
        parse_bind_addresses(items, parse_advertised_listeners(BOTH[:1]))
    assert says in str(caught.value)
