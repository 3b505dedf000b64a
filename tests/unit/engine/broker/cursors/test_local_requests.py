import pytest
from readonly_engine.broker.cursors.local_requests import check_migratable, check_not_local, request_of
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe


def subscribe(*keys, name="s", durable=True):
    found = CommandSubscribe(topic="persistent://a/b/t", subscription=name, durable=durable)
    for key in keys:
        found.metadata.add(key=key, value="true")
    return found


def test_other_metadata_is_no_request():
    assert request_of(subscribe("import", "pulsar-readonly.imports")) is None
    check_not_local(subscribe("import"))


@pytest.mark.parametrize(
    "name",
    ["pulsar-readonly-guard-default-3", "pulsar-readonly-access-x", "__compaction", "pulsar.dedup", "pulsar.repl.c2"],
)
def test_internal_subscriptions_are_not_moved(name):
    with pytest.raises(OwnerRefusedError, match="belongs to Pulsar or to a pool"):
        check_migratable(subscribe(name=name))


def test_only_durable_subscriptions_are_moved():
    check_migratable(subscribe(name="pulsar.app"))
    with pytest.raises(OwnerRefusedError, match="stored nowhere"):
        check_migratable(subscribe(durable=False))
