import pytest
from readonly_engine.metadata.oxia.keys import children_range, own_parents, parent_of, partition_key, routing_key


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/pulsar-readonly", "/pulsar-readonly"),
        ("/pulsar-readonly/pools/p", "/pulsar-readonly"),
        ("/pulsar-readonly-2/x", None),
        ("/managed-ledgers/t/n/persistent/x", None),
    ],
)
def test_own_records_have_one_partition_key(path, key):
    assert partition_key(path) == key
    assert routing_key(path) == (key or path)


def test_the_range_of_children_is_that_of_pulsar():
    assert children_range("/a/b") == ("/a/b/", "/a/b//")
    assert children_range("/") == ("/", "//")


def test_parents():
    assert parent_of("/a/b") == "/a"
    assert parent_of("/a") == ""
    assert own_parents("/pulsar-readonly/pools/p/identity") == [
        "/pulsar-readonly",
        "/pulsar-readonly/pools",
        "/pulsar-readonly/pools/p",
    ]
