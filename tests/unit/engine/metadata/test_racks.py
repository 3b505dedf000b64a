import pytest
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.racks import decode_racks, distance


def test_what_pulsar_admin_writes():
    """Bytes of a 4.0.8 cluster."""
    value = b'{"default":{"127.0.0.1:35680":{"rack":"/rack-1","hostname":"host-1"}}}'
    assert decode_racks(value) == {"127.0.0.1:35680": "/rack-1"}


def test_groups_zones_and_bookies_that_are_nowhere():
    value = b'{"a":{"b1":{"rack":"zone/rack/"},"b2":{"rack":"/"},"b3":{"rack":null}},"b":{"b4":{"rack":" /z "}}}'
    assert decode_racks(value) == {"b1": "/zone/rack", "b4": "/z"}


@pytest.mark.parametrize("value", [b"", b"{}"])
def test_nothing_is_known(value):
    assert decode_racks(value) == {}


@pytest.mark.parametrize(
    "value", [b"\xff", b"[]", b"3", b'{"a":3}', b'{"a":{"b":{}}}', b'{"a":{"b":{"rack":3}}}', b"[" * 100_000]
)
def test_damage_is_the_named_error(value):
    with pytest.raises(MetadataError, match="/bookies is damaged: it has no racks of bookies"):
        decode_racks(value)


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ("/z1/r1", "/z1/r1", 0),
        ("/z1/r1", "/z1/r2", 1),
        ("/z1/r1", "/z2/r1", 2),
        ("/z1/r1", "", 2),
        ("/z1", "/z1/r7", 0),
        ("z1/r1", "/z1/r1/", 0),
    ],
)
def test_distance_counts_the_levels_that_differ(here, there, expected):
    assert distance(here, there) == expected
