"""A server of Oxia in memory, which answers after a random number of turns of the event loop, to try interleavings."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.oxia.router import SessionEndedError
from readonly_engine.metadata.oxia.shards import Shard, ShardMap
from readonly_engine.metadata.oxia.store import OxiaStore
from readonly_engine.wire import oxia_pb2 as wire


@dataclass
class Record:
    value: bytes
    version: int
    session: int | None


@dataclass
class Server:
    """All records, in one shard.

    `refuses` has methods that fail, as of a server that does not lead its shard any more.
    """

    chance: random.Random
    records: dict[str, Record] = field(default_factory=dict)
    sessions: set[int] = field(default_factory=set)
    refuses: set[str] = field(default_factory=set)
    writes: int = 0

    async def answer(self, method: Any, request: Any) -> Any:
        await self._pause()
        if method.name in self.refuses:
            raise MetadataUnavailableError("refused")
        answer = getattr(self, f"_{method.name.lower()}")(request)
        await self._pause()
        return answer

    def end(self, session: int) -> None:
        """End a session, with its records."""
        self.sessions.discard(session)
        self.records = {key: one for key, one in self.records.items() if one.session != session}

    async def _pause(self) -> None:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)

    def _write(self, request: Any) -> Any:
        answer = wire.WriteResponse()
        for put in request.puts:
            answer.puts.append(self._put(put))
        for delete in request.deletes:
            found = self.records.get(delete.key)
            status = wire.Status.OK
            if found is None:
                status = wire.Status.KEY_NOT_FOUND
            elif delete.HasField("expected_version_id") and delete.expected_version_id != found.version:
                status = wire.Status.UNEXPECTED_VERSION_ID
            else:
                del self.records[delete.key]
            answer.deletes.add(status=status)
        return answer

    def _put(self, put: Any) -> Any:
        found = self.records.get(put.key)
        if put.HasField("session_id") and put.session_id not in self.sessions:
            return wire.PutResponse(status=wire.Status.SESSION_DOES_NOT_EXIST)
        if put.HasField("expected_version_id") and put.expected_version_id != (-1 if found is None else found.version):
            return wire.PutResponse(status=wire.Status.UNEXPECTED_VERSION_ID)
        self.writes += 1
        session = put.session_id if put.HasField("session_id") else None
        self.records[put.key] = Record(put.value, self.writes, session)
        return wire.PutResponse(status=wire.Status.OK, version=wire.Version(version_id=self.writes))

    def _read(self, request: Any) -> Any:
        answer = wire.ReadResponse()
        for get in request.gets:
            found = self.records.get(get.key)
            if found is None:
                answer.gets.add(status=wire.Status.KEY_NOT_FOUND)
            else:
                one = answer.gets.add(status=wire.Status.OK, value=found.value)
                one.version.version_id = found.version
                if found.session is not None:
                    one.version.session_id = found.session
        return answer

    def _list(self, request: Any) -> Any:
        first = request.start_inclusive
        keys = (key for key in self.records if key.startswith(first) and "/" not in key[len(first) :])
        return wire.ListResponse(keys=sorted(keys))

    def _createsession(self, _request: Any) -> Any:
        session = self.writes
        self.writes += 1
        self.sessions.add(session)
        return wire.CreateSessionResponse(session_id=session)

    def _keepalive(self, request: Any) -> Any:
        if request.session_id not in self.sessions:
            raise SessionEndedError
        return wire.KeepAliveResponse()

    def _closesession(self, request: Any) -> Any:
        self.end(request.session_id)
        return wire.CloseSessionResponse()


class PlayedRouter:
    """A Router whose only leader is a Server."""

    address = "played:6648"
    connected = True

    def __init__(self, server: Server) -> None:
        self.server = server
        self.shards = ShardMap({0: Shard(0, "played:6648", 0, (1 << 32) - 1)})

    def leader(self, _key: str) -> tuple[int, str]:
        return 0, "played:6648"

    async def call(self, _key: str, method: Any, request: Any) -> list[Any]:
        return [await self.server.answer(method, request)]

    async def call_shard(self, _number: int, method: Any, request: Any) -> list[Any]:
        return [await self.server.answer(method, request)]

    async def call_leader(self, _address: str, method: Any, request: Any, _seconds: float) -> list[Any]:
        return [await self.server.answer(method, request)]

    async def close(self) -> None:
        pass


def store_on(server: Server) -> OxiaStore:
    """Return a store whose requests a played server answers."""
    store = OxiaStore("played:6648", "ns")
    router: Any = PlayedRouter(server)
    store._router = router
    store._session._router = router
    return store
