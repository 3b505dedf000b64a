"""Redirects of the admin API: which URLs and addresses are followed."""

import pytest
from readonly_engine.config.admin_redirect import (
    RedirectError,
    has_dot_segment,
    is_followed,
    is_same_host,
    redirect_target,
)

ASKED = "http://a:8080/admin/v2/persistent/t/n/a%2Fb%20c/stats?authoritative=false"


@pytest.mark.parametrize(
    ("asked", "location", "target"),
    [
        (ASKED, ASKED.replace("a:8080", "b:9090"), ASKED.replace("a:8080", "b:9090")),
        (ASKED, ASKED.replace("false", "true"), ASKED.replace("false", "true")),
        (ASKED, ASKED.replace("http://a:8080", "https://[fd00::1]:8443"), None),
        ("https://a:1/x", "/x?authoritative=true", "https://a:1/x?authoritative=true"),
        ("http://a/x~%7E", "http://b/x%7e~", None),
    ],
)
def test_a_redirect_to_another_broker_is_followed(asked, location, target):
    assert redirect_target(asked, location) == (target or location)


@pytest.mark.parametrize(
    ("asked", "location", "reason"),
    [
        ("https://a:1/x", "http://b:2/x", "redirected to http://b; expected https://HOST:PORT"),
        ("http://a:1/x", "ftp://b/x", "redirected to ftp://b; expected http or https://HOST:PORT"),
        ("http://a:1/x", "file:///x", r"redirected to file://\?"),
        ("http://a:1/x", "http://u:p@b/x", "redirected to http://b;"),
        ("http://a:1/x", "http://[/x", "a malformed URL"),
        ("http://a:1/x", "http://b:99999/x", "a malformed URL"),
        ("http://a:1/x", "http://b:8080persistent/t/n/x", "a malformed URL"),
        ("http://a:1/x", "http://b:2/latest/meta-data", "another path"),
        ("http://a:1/x/y", "http://b:2/x%2Fy", "another path"),
        ("http://a:1/x", "http://b:2/x/../y", "another path"),
        ("http://a:1/x", "http://b:2/X", "another path"),
    ],
)
def test_any_other_redirect_is_an_error(asked, location, reason):
    with pytest.raises(RedirectError, match=reason) as raised:
        redirect_target(asked, location)
    assert "p@" not in str(raised.value)


@pytest.mark.parametrize("address", ["10.1.2.3", "192.168.0.1", "8.8.8.8", "100.64.0.7", "fd00::1", "2001:db8::1"])
def test_addresses_of_pods_and_servers_are_followed(address):
    assert is_followed(address, "pulsar.example.org")


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0", "168.63.129.16", "100.100.100.200",
        "fd00:ec2::254", "224.0.0.1", "not an address",
    ],
)  # fmt: skip
@pytest.mark.parametrize("given", ["pulsar.example.org", "127.0.0.1"])
def test_link_local_addresses_and_metadata_services_are_never_followed(address, given):
    assert not is_followed(address, given)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::"])
def test_loopback_is_followed_from_loopback_only(address):
    assert not is_followed(address, "pulsar.example.org")
    assert not is_followed(address, "10.0.0.1")
    assert not is_followed(address, "127.0.0.1.example.org")
    assert is_followed(address, "127.0.0.1")
    assert is_followed(address, "localhost")
    assert is_followed(address, "::1")


def test_the_port_makes_no_other_host():
    assert is_same_host("http://a:1/x", "https://A:2/y")
    assert not is_same_host("http://a:1/x", "http://a.b:1/x")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/admin/v2/persistent/t/n/../stats", True),
        ("/admin/v2/persistent/t/n/..", True),
        ("/admin/v2/persistent/t/n/./stats?a=b", True),
        ("/admin/v2/persistent/t/n/a..b/stats", False),
        ("/admin/v2/persistent/t/n/.../stats", False),
        ("/admin/v2/persistent/t/n/a%2F..%2Fb/stats", False),
        ("/admin/v2/x?y=/../z", False),
    ],
)
def test_dot_segments(path, found):
    assert has_dot_segment(path) is found
