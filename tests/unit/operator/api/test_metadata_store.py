import pytest
from readonly_operator.api.metadata_store import StoreUrl


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("zk:a:2181,b:2181/x", ("zk", ("a:2181", "b:2181"), "x")),
        ("zk:a:2181", ("zk", ("a:2181",), "")),
        ("oxia://a:6648/broker", ("oxia", ("a:6648",), "broker")),
        ("oxia://a:6648", ("oxia", ("a:6648",), "default")),
    ],
)
def test_urls_are_parsed(url, parsed):
    assert StoreUrl.parse(url) == parsed


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("zk:a:1,b:1", "zk:b:1,c:1", True),
        ("zk:a:1", "zk:b:1", False),
        ("zk:a:1/x", "zk:a:1", False),
        ("oxia://a:1", "oxia://a:1/default", True),
        ("oxia://a:1/x", "oxia://a:1/y", False),
        ("oxia://a:1/x", "zk:a:1/x", False),
    ],
)
def test_the_same_records_need_a_common_server_and_root(one, other, same):
    assert StoreUrl.parse(one).shares_with(StoreUrl.parse(other)) is same
