import random
from typing import Any

import pytest
from readonly_engine.metadata.lease import NEVER
from readonly_engine.metadata.oxia.session import PROBE_PATH, Session

from .played import PlayedRouter, Server


class Told:
    """What a session told."""

    def __init__(self) -> None:
        self.leases: list[tuple[int, float]] = []
        self.begun = 0

    def changed(self, lease: Any) -> None:
        self.leases.append((lease.session, lease.until))

    def again(self) -> None:
        self.begun += 1


def session_on(server: Server) -> tuple[Session, Told]:
    told = Told()
    router: Any = PlayedRouter(server)
    return Session(router, told.changed, told.again), told


async def test_ids_that_begin_at_0_are_numbers_that_begin_at_1():
    session, told = session_on(Server(random.Random(1)))
    assert await session.live() == 0
    assert session.number == 1
    assert told.leases[0][0] == 1
    await session.close()


@pytest.mark.parametrize("refused", ["Write", "KeepAlive"])
async def test_a_heartbeat_extends_the_lease_only_with_a_write(refused):
    """A deposed leader answers heartbeats, but no majority confirms its writes."""
    server = Server(random.Random(1))
    session, told = session_on(server)
    await session.live()
    await session._beat()
    count = len(told.leases)
    server.refuses.add(refused)
    await session._beat()
    assert len(told.leases) == count
    assert not session.answers
    server.refuses.clear()
    await session._beat()
    assert len(told.leases) > count
    assert session.answers
    assert PROBE_PATH not in server.records
    await session.close()


async def test_the_end_of_a_session_ends_the_lease_and_another_begins():
    server = Server(random.Random(1))
    session, told = session_on(server)
    first = await session.live()
    server.end(first)
    await session._beat()
    assert told.leases[-1][1] == NEVER
    assert session.number == 0
    assert await session.live() != first
    assert told.begun == 1
    await session.close()


async def test_a_split_of_the_shard_ends_the_session():
    """The records of the session are in another shard then."""
    session, told = session_on(Server(random.Random(1)))
    await session.live()
    session._router.leader = lambda _key: (7, "played:6648")
    await session._beat()
    assert told.leases[-1][1] == NEVER
    await session.close()


async def test_closing_ends_the_session_at_the_server():
    server = Server(random.Random(1))
    session, _ = session_on(server)
    await session.live()
    await session.close()
    assert not server.sessions
