import pytest
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.migration import NO_MIGRATION, Migration, Phase, decode_migration
from readonly_engine.metadata.url import MetadataUrl, StoreKind

TARGET = MetadataUrl(StoreKind.OXIA, "oxia:6648", "broker")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, NO_MIGRATION),
        (b"", NO_MIGRATION),
        (b'{"phase":"NOT_STARTED","targetUrl":null}', Migration(Phase.NOT_STARTED, None)),
        (b'{"phase":"PREPARATION","targetUrl":"oxia://oxia:6648/broker"}', Migration(Phase.PREPARATION, TARGET)),
        (b'{"phase":"COPYING","targetUrl":"oxia://oxia:6648/broker","more":1}', Migration(Phase.COPYING, TARGET)),
        (b'{"phase":"COMPLETED","targetUrl":"oxia://oxia:6648/broker"}', Migration(Phase.COMPLETED, TARGET)),
        (b'{"phase":"FAILED","targetUrl":"oxia://oxia:6648/broker"}', Migration(Phase.FAILED, None)),
    ],
)
def test_the_record_of_pulsar_is_decoded(value, expected):
    """Written by MigrationCoordinator, by Jackson from MigrationState."""
    assert decode_migration(value) == expected
    assert decode_migration(value).running == (expected.phase in {Phase.PREPARATION, Phase.COPYING})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\xff", "is damaged"),
        (b"[]", "is damaged"),
        (b'{"targetUrl":"oxia://a:1"}', "is damaged"),
        (b'{"phase":"MOVING","targetUrl":"oxia://a:1"}', "is damaged"),
        (b'{"phase":"COPYING"}', "must be zk:HOST:PORT"),
        (b'{"phase":"COPYING","targetUrl":"zk:a:2181"}', "is no Oxia"),
        (b"[" * 100_000, "is damaged"),
    ],
)
def test_another_record_is_refused(value, why):
    with pytest.raises(MetadataError, match=why):
        decode_migration(value)
