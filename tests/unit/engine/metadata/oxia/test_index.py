import asyncio

from readonly_engine.metadata.oxia.index import WatchIndex
from readonly_engine.wire.oxia_pb2 import NotificationBatch, NotificationType


class Watch:
    """A NodeWatch that counts its reads."""

    def __init__(self) -> None:
        self.reads = 0
        self.stopped = False

    def refresh(self) -> None:
        self.reads += 1

    def stop(self) -> None:
        self.stopped = True


def batch(**changes: int) -> NotificationBatch:
    found = NotificationBatch()
    for key, kind in changes.items():
        found.notifications["/" + key.replace("_", "/")].type = kind
    return found


def test_a_change_wakes_the_watches_of_its_record_only():
    index, one, other = WatchIndex(), Watch(), Watch()
    index.add("/a/b", one)
    index.add("/a/c", other)
    for kind in (NotificationType.KEY_CREATED, NotificationType.KEY_MODIFIED, NotificationType.KEY_DELETED):
        index.notify(batch(a_b=kind))
    assert (one.reads, other.reads) == (3, 0)


def test_children_are_watched_for_creation_and_deletion():
    index, watch = WatchIndex(), Watch()
    index.add_children("/a", watch)
    index.notify(batch(a_b=NotificationType.KEY_MODIFIED, a_b_c=NotificationType.KEY_CREATED))
    assert watch.reads == 0
    index.notify(batch(a_b=NotificationType.KEY_CREATED))
    index.notify(batch(a_b=NotificationType.KEY_DELETED))
    assert watch.reads == 2


async def test_a_deleted_range_wakes_all():
    index, one, other = WatchIndex(), Watch(), Watch()
    index.add("/a", one)
    index.add_children("/b", other)
    index.notify(batch(x=NotificationType.KEY_RANGE_DELETED))
    await asyncio.sleep(0)
    assert (one.reads, other.reads) == (1, 1)


def test_a_removed_watch_leaves_nothing_behind():
    index, one, other = WatchIndex(), Watch(), Watch()
    index.add("/a", one)
    index.add("/a", other)
    index.add_children("/a", one)
    index.remove("/a", one)
    index.remove("/a", one)
    index.remove_children("/a", one)
    index.notify(batch(a=NotificationType.KEY_MODIFIED))
    assert (one.reads, other.reads, [*index._values]) == (0, 1, ["/a"])
    index.remove("/a", other)
    assert not index._values
    assert not index._children


def test_stopping_all_stops_each():
    index, one, other = WatchIndex(), Watch(), Watch()
    index.add("/a", one)
    index.add_children("/b", other)
    index.stop_all()
    assert one.stopped
    assert other.stopped
