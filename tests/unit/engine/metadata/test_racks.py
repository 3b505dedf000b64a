import pytest
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.racks import decode_racks, distance


@pytest.mark.parametrize(
    ("value", "racks"),
    [
        # Bytes of a 4.0.8 cluster.
        (b'{"default":{"127.0.0.1:35680":{"rack":"/rack-1","hostname":"host-1"}}}', {"127.0.0.1:35680": "/rack-1"}),
        (b'{"a":{"b1":{"rack":"zone/rack/"},"b2":{"rack":"/"}},"b":{"b4":{"rack":" /z "}}}', {"b1": "/zone/rack", "b4": "/z"}),
        (b'{"a":{"b3":{"rack":null}}}', {}),
        (b"", {}),
        (b"{}", {}),
    ],
)  # fmt: skip
def test_racks_of_bookies_that_are_somewhere(value, racks):
    assert decode_racks(value) == racks


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
