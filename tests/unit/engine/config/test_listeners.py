import pytest
from readonly_engine.config.listeners import (
    Urls,
    check_bind_addresses,
    parse_advertised_listeners,
    parse_bind_addresses,
)
from readonly_engine.config.option import ConfigError

BOTH = ("external:pulsar://demo-0.example.com:6650", "external:pulsar+ssl://demo-0.example.com:6651")


def test_a_port_may_follow_the_ordinal_of_a_broker():
    """A StatefulSet's pods have the same arguments; only what the kubelet puts into them differs."""
    found = parse_advertised_listeners(["a:pulsar://10.0.0.1:30000+2*0", "b:pulsar+ssl://2001:db8::7:30001+2*12"])
    assert found == {"a": Urls("pulsar://10.0.0.1:30000"), "b": Urls("", "pulsar+ssl://[2001:db8::7]:30025")}


@pytest.mark.parametrize(
    ("items", "says"),
    [
        (["external:pulsar://host:30000+2*"], "must be NAME:"),
        (["external:pulsar://host:60000+2*9999"], "must be NAME:"),
        (["external:pulsar://:30000+2*1"], "must be NAME:"),
        (["external:pulsar://2001:db8::7"], "must be NAME:"),
        (["pulsar://host:6650"], "must be NAME:pulsar://HOST:PORT or NAME:pulsar+ssl://HOST:PORT, not"),
        (["a b:pulsar://host:6650"], "must be NAME:"),
        (["external:http://host:80"], "must be NAME:"),
        (["external:pulsar://host"], "must be NAME:"),
        (["external:pulsar://host:99999"], "must be NAME:"),
        (["external:pulsar://host:6650/path"], "must be NAME:"),
        (["external:pulsar://me@host:6650"], "must be NAME:"),
        (["external:pulsar://:6650"], "must be NAME:"),
        (["external:pulsar://host:0"], "with a port from 1 to 65535"),
        ([BOTH[0], "other:pulsar://demo-0.example.com:6650"], "pulsar://demo-0.example.com:6650 is given twice"),
        ([BOTH[0], "external:pulsar://b:1"], "listener external has pulsar://demo-0.example.com:6650 and pulsar://b:1"),
    ],
)
def test_what_is_no_listener_is_named(items, says):
    with pytest.raises(ConfigError) as caught:
        parse_advertised_listeners(items)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("items", "says"),
    [
        (["other:pulsar://h:1"], "has no pulsar:// URL for lookup answers; add other:pulsar://HOST:PORT to"),
        (["external:pulsar+ssl://h:1"], "add external:pulsar+ssl://HOST:PORT to advertised-listeners"),
        (["external:pulsar://h:1", "external:pulsar://h:1"], "external:pulsar://h:1 is given twice"),
        (["6660"], "must be NAME:pulsar://HOST:PORT or NAME:pulsar+ssl://HOST:PORT, not '6660'"),
    ],
)
def test_an_invalid_bind_address_is_named(items, says):
    with pytest.raises(ConfigError) as caught:
        check_bind_addresses(parse_bind_addresses(items), parse_advertised_listeners(BOTH[:1]))
    assert says in str(caught.value)
