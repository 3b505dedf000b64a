"""Queries of the status page."""

import pytest
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
