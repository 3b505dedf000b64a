"""Topics that an owner serves already."""

from typing import Final

from devstack.pulsar.admin import PulsarAdmin
from tests.support.waiting import wait_until

_SETTLED: Final = {"Ready", "NoSnapshot"}


def create_settled_topic(admin: PulsarAdmin, topic: str) -> None:
    """Create a topic, and wait until its transaction buffer has recovered.

    A 4.2 broker does not compact a topic whose messages came before: "Skip compaction of the empty topic", until the next message
    (PersistentTopic.updateLastDispatchablePosition ignores positions after the maximal read position).
    """
    admin.create_topic(topic)
    wait_until(lambda: admin.transaction_buffer_stats(topic)["state"] in _SETTLED, what=f"{topic} has recovered")
