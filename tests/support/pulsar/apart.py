"""A read-only broker whose owners may be out of reach for it alone."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from readonly_engine.wire.commands import decode_command, encode_command
from readonly_engine.wire.framing import LENGTH_BYTES, FrameSplitter
from readonly_engine.wire.pulsar_pb2 import BaseCommand

from devstack.pool import BrokerProcess
from devstack.pulsar.status import Endpoints
from tests.support.pulsar.fleet import TESTS
from tests.support.pulsar.silent_proxy import SilentProxy


class Rewriting:
    """Has lookups answered with other URLs, those of proxies.

    Args:
        urls: the URL of the proxy of each owner.
    """

    def __init__(self, urls: dict[str, str]) -> None:
        self._urls = urls
        self._splitter = FrameSplitter()

    def __call__(self, data: bytes) -> bytes:
        return b"".join(self._rewritten(frame) for frame in self._splitter.receive_data(data))

    def _rewritten(self, frame: bytes) -> bytes:
        command, end = decode_command(frame)
        if command.type != BaseCommand.LOOKUP_RESPONSE:
            return len(frame).to_bytes(LENGTH_BYTES, "big") + frame
        answer = command.lookup_topic_response
        answer.broker_service_url = self._urls.get(answer.broker_service_url, answer.broker_service_url)
        return encode_command(command, frame[end:])


class Apart:
    """A read-only broker that reaches each owner through a relay."""

    def __init__(self, pulsar: Endpoints, folder: Path, pool: str) -> None:
        self._urls: dict[str, str] = {}
        self.relays = {
            url: SilentProxy(f"{urlsplit(url).hostname}:{urlsplit(url).port}", lambda: Rewriting(self._urls))
            for url in pulsar.brokers
        }
        self._urls.update({url: f"pulsar://127.0.0.1:{relay.port}" for url, relay in self.relays.items()})
        writers = ",".join(f"127.0.0.1:{relay.port}" for relay in self.relays.values())
        through = replace(pulsar, writer_url=f"pulsar://{writers}")
        self.broker = BrokerProcess(through, folder / "broker.log", ["--pool", pool, "--topics", TESTS])
        self.broker.wait_ready()

    def close(self) -> None:
        self.broker.kill()
        for relay in self.relays.values():
            relay.close()
