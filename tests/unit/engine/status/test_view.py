"""Queries of the status page; its links lead to HTTP only, and URLs have no user."""

import pytest
from readonly_engine.status.addresses import host_of, page_url, status_url, without_user
from readonly_engine.status.view import MAX_PAGE, View, ViewError, parse_view


def test_without_parameters_it_is_the_first_page_of_all_topics():
    assert parse_view({}) == View()
    assert parse_view({"page": "", "prefix": " ", "refresh": "", "other": "x"}) == View()
    assert View().query() == ""


def test_a_query_comes_back_as_it_was():
    view = View('persistent://a/b/c&d="<', "s p", "é#", 3, 5, summary=True)
    from urllib.parse import parse_qsl  # noqa: PLC0415

    assert parse_view(dict(parse_qsl(view.query()[1:]))) == view


def test_another_list_begins_at_its_first_page():
    assert View(page=7).changed(prefix="a") == View(prefix="a")
    assert View(prefix="a").changed(page=2) == View(prefix="a", page=2)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"page": "0"}, f"page must be a whole number from 1 to {MAX_PAGE}"),
        ({"page": "-1"}, "page must be"),
        ({"page": "1e3"}, "page must be"),
        ({"page": "٣"}, "page must be"),
        ({"page": "9" * 5000}, "page must be"),
        ({"refresh": "1"}, "refresh must be one of 0, 2, 5, 15, 60 seconds"),
        ({"prefix": "x" * 513}, "prefix must have at most 512 characters, not 513"),
        ({"subscription": "s"}, "subscription needs a topic"),
        ({"summary": "yes"}, "summary must be 0 or 1"),
    ],
)
def test_a_wrong_parameter_is_one_clear_error(query, message):
    with pytest.raises(ViewError, match=message):
        parse_view(query)


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
