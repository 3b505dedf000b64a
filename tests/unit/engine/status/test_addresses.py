"""Links of the status page lead to HTTP only, and URLs have no user."""

import pytest
from readonly_engine.status.addresses import host_of, page_url, status_url, without_user


@pytest.mark.parametrize(
    ("url", "port", "page"),
    [
        ("pulsar://orders-0.orders:6650", 8080, "http://orders-0.orders:8080/"),
        ("pulsar://[fd00::1]:6650", 8080, "http://[fd00::1]:8080/"),
        ("pulsar://10.0.0.1:6650", 8080, "http://10.0.0.1:8080/"),
        ("pulsar://a:6650", 0, ""),
        ("pulsar://a:6650", 70000, ""),
        ("javascript:alert(1)", 80, ""),
        ('pulsar://a"><script>:1', 80, ""),
        ("pulsar://a b:1", 80, ""),
        ("pulsar://[::1", 80, ""),
        ("pulsar://evil.example@a:1", 80, "http://a:80/"),
        ("", 80, ""),
    ],
)
def test_a_member_is_linked_by_http_or_not_at_all(url, port, page):
    assert status_url(url, port) == page


def test_the_host_of_a_request_may_be_anything():
    assert page_url(host_of("//127.0.0.1:8080"), 8180) == "http://127.0.0.1:8180/"
    assert page_url(host_of("//<b>:1"), 8180) == ""
    assert page_url(host_of("//"), 8180) == ""


def test_users_and_passwords_are_left_out():
    assert without_user("pulsar://u:p@a:1,v:q@b:2") == "pulsar://a:1,b:2"
    assert without_user("pulsar://u:p@ss@a:1") == "pulsar://a:1"
    assert without_user("http://u@a:1/x@y") == "http://a:1/x@y"
    assert without_user("zk:a:1,b:2/root") == "zk:a:1,b:2/root"
