"""Steady traffic through a pool from stock clients in a pod, and what the clients saw of it: the history is judged here."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from readonly_engine.broker.cursors.consumers import FAILOVER_DELAY_S
from readonly_engine.broker.server.drain import ACK_TIMEOUT_S, DISCONNECT_GRACE_S

from devstack.images.targets import TARGETS
from tests.e2e.kubernetes import Kubernetes

POD = "traffic"
RATE = 20
PARTITIONS = 4
TYPES = {"Exclusive": 1, "Failover": 2, "Shared": 3, "Key_Shared": 3, "Reader": 1}
"""How many consumers there are of each subscription."""

KEYS = 10
_PROGRAM = Path(__file__).parent / "traffic_program.py"
_LINE = re.compile(r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) +[A-Z]+ +\[(?P<thread>\d+)\] \w+:\d+ \| (?P<text>.*)")
_CREATED = re.compile(r"\[(?P<consumer>[^\]]+)\] Created consumer on broker \[(?P<connection>\S+ -> \S+)\]")
_TOLD = re.compile(r"Broker notification of Closed consumer: (?P<id>\d+)")
_GONE = re.compile(r"\[(?P<connection>\S+ -> \S+)\] Connection disconnected")


def plan(namespace: str, source: Mapping[str, str], pool: str = "demo") -> dict[str, Any]:
    """One subscription of each type to a topic, and an Exclusive one and a Failover one to a topic of some partitions."""
    single, parted = (f"persistent://public/default/{namespace}-{name}" for name in ("single", "parted"))
    consumers = [
        {"name": f"{kind.lower()}-{number}", "topic": single, "subscription": kind, "type": kind}
        for kind, count in TYPES.items()
        for number in range(count)
    ]
    consumers += [
        {"name": f"parted-{kind.lower()}", "topic": parted, "subscription": f"parted-{kind}", "type": kind}
        for kind in ("Exclusive", "Failover")
    ]
    return {
        "writer": source["serviceUrl"],
        "admin": source["adminUrl"],
        "pool": f"pulsar://{pool}.{namespace}.svc.cluster.local:6650",
        "rate": RATE,
        "topics": {single: 0, parted: PARTITIONS},
        "consumers": consumers,
    }


class Received(NamedTuple):
    """A message at a consumer.

    Attributes:
        number: of the message in its topic.
        at: when, in milliseconds since the program began.
        redeliveries: how often it had been delivered before, as the client reports it.
        consumer: its name.
    """

    number: int
    at: int
    redeliveries: int
    consumer: str


@dataclass(frozen=True, slots=True)
class Move:
    """A consumer that was told to go, and has come back.

    Attributes:
        consumer: topic, subscription and id, as the client's log has them.
        told: when its broker told it, in seconds since 1970.
        back: when another broker had it.
    """

    consumer: str
    told: float
    back: float


@dataclass(slots=True)
class Reconnects:
    """What the clients' log says of connections.

    Attributes:
        done: consumers that were told to go, and came to another broker before the connection to the old one ended.
        late: the same, but the connection ended first: the client took its time.
        cut: consumers that heard nothing before their connection ended.
    """

    done: list[Move] = field(default_factory=list)
    late: list[Move] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Consumers have moved, each was told to, and had the time that brokers give."""
        assert self.done, "nobody has moved"
        assert not self.cut, f"these were not told before their connection ended: {self.cut}"
        hurried = [move for move in self.late if move.back - move.told < DISCONNECT_GRACE_S]
        assert not hurried, f"their connection ended before they were elsewhere: {hurried}"


def moves(log: str, until: float) -> Reconnects:
    """Follow each consumer through the log of the stock C++ library; each client has a thread of its own.

    Args:
        log: its text.
        until: seconds since 1970; what comes later is the clients' own end.
    """
    found = Reconnects()
    attached: dict[tuple[str, str], str] = {}
    told: dict[tuple[str, str], tuple[float, str, bool]] = {}
    for line in log.splitlines():
        parts = _LINE.match(line)
        if parts is None:
            continue
        at = datetime.strptime(parts["at"], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC).timestamp()
        thread, text = parts["thread"], parts["text"]
        if at >= until:
            break
        if created := _CREATED.match(text):
            who = (thread, created["consumer"])
            attached[who] = created["connection"]
            if who in told:
                begun, _, ended = told.pop(who)
                (found.late if ended else found.done).append(Move(who[1], begun, at))
        elif closed := _TOLD.match(text):
            for who in [one for one in attached if one[0] == thread and one[1].endswith(f", {closed['id']}")]:
                told[who] = (at, attached.pop(who), False)
        elif gone := _GONE.match(text):
            connection = gone["connection"]
            for who in [one for one, over in attached.items() if over == connection]:
                found.cut.append(who[1])
                del attached[who]
            for who, (begun, over, _) in told.items():
                if over == connection:
                    told[who] = (begun, over, True)
    return found


class History:
    """What the clients saw, in the end.

    Args:
        plan: what there was to be.
        report: what the program tells at the end.
        log: of the client library.
    """

    def __init__(self, plan: dict[str, Any], report: dict[str, Any], log: str) -> None:
        self.sent: dict[str, list[int]] = report["sent"]
        self.failed: list[str] = report["failed"]
        self.backlogs: dict[str, int] = report["backlogs"]
        self._began: float = report["began"]
        self.moves = moves(log, report["began"] + report["ended"] / 1000)
        self.types = {one["subscription"]: one["type"] for one in plan["consumers"]}
        self.topics = {one["subscription"]: one["topic"] for one in plan["consumers"]}
        self.parted = {topic for topic, partitions in plan["topics"].items() if partitions}
        self.received: dict[str, list[Received]] = {name: [] for name in self.types}
        for one in plan["consumers"]:
            self.received[one["subscription"]] += [
                Received(*got, one["name"]) for got in report["received"][one["name"]]
            ]
        for got in self.received.values():
            got.sort(key=lambda message: message.at)

    def lost(self) -> dict[str, list[int]]:
        """Numbers that a subscription has not seen."""
        found = {
            name: sorted(set(range(len(self.sent[self.topics[name]]))) - {message.number for message in got})
            for name, got in self.received.items()
        }
        return {name: numbers for name, numbers in found.items() if numbers}

    def again(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Numbers that a subscription has seen more than once.

        Returns:
            Those that no stock broker would have sent again; and those whose ack was not sure to have arrived when a consumer of
            the subscription moved, because less time was between them than a broker that leaves waits for acks. A Failover
            consumer that comes back takes over a second later.
        """
        wrong: dict[str, list[int]] = defaultdict(list)
        redelivered: dict[str, list[int]] = defaultdict(list)
        for name, got in self.received.items():
            takes_over = FAILOVER_DELAY_S if self.types[name] == "Failover" else 0.0
            spans = [
                (move.told - ACK_TIMEOUT_S - 1, move.back + takes_over)
                for move in (*self.moves.done, *self.moves.late)
                if move.consumer.split(", ")[1] == name
            ]
            first: dict[int, float] = {}
            for message in got:
                at = first.get(message.number)
                if at is None:
                    first[message.number] = self._began + message.at / 1000
                elif any(begin <= at <= end for begin, end in spans):
                    redelivered[name].append(message.number)
                else:
                    wrong[name].append(message.number)
        return dict(wrong), dict(redelivered)

    def disorder(self) -> dict[str, list[int]]:
        """Numbers that came for the first time behind a later one of the topic, or of their key where only keys have an order."""
        found = {}
        for name, got in self.received.items():
            if self.types[name] == "Shared":
                continue
            by_key = self.types[name] == "Key_Shared" or self.topics[name] in self.parted
            highest: dict[int, int] = defaultdict(lambda: -1)
            seen: set[int] = set()
            wrong = []
            for message in got:
                key = message.number % KEYS if by_key else 0
                if message.number not in seen and message.number < highest[key]:
                    wrong.append(message.number)
                seen.add(message.number)
                highest[key] = max(highest[key], message.number)
            if wrong:
                found[name] = wrong
        return found

    def gaps(self) -> dict[str, float]:
        """The longest time, in seconds, from a message's publishing to its arrival, of each subscription."""
        return {
            name: max(message.at - self.sent[self.topics[name]][message.number] for message in got) / 1000
            for name, got in self.received.items()
        }

    def check(self) -> None:
        """Every message was published, came to each subscription, in order, once but for acks under way, and was acked."""
        assert not self.failed, f"not published: {self.failed}"
        assert not self.lost(), f"lost: {self.lost()}"
        again = self.again()[0]
        assert not again, f"more than once: {again}; {'; '.join(map(self._circumstances, again))}"
        assert not self.disorder(), f"behind later ones: {self.disorder()}"
        assert not any(self.backlogs.values()), f"not acked: {self.backlogs}"

    def _circumstances(self, name: str) -> str:
        """Deliveries of the messages that came again to a subscription, and its moves, in seconds since the program began."""
        numbers = self.again()[0][name]
        deliveries = [
            f"{got.number} to {got.consumer} at {got.at / 1000:.2f}"
            for got in self.received[name]
            if got.number in numbers
        ]
        spans = [
            f"{move.consumer} from {move.told - self._began:.2f} to {move.back - self._began:.2f}"
            for move in (*self.moves.done, *self.moves.late)
            if move.consumer.split(", ")[1] == name
        ]
        return f"{name}: delivered {', '.join(deliveries)}; moved {', '.join(spans) or 'never'}"

    def summary(self) -> str:
        """The figures, in a line."""
        gaps = self.gaps()
        slowest = max(gaps, key=lambda name: gaps[name])
        times = sorted(move.back - move.told for move in self.moves.done)
        moved = (
            f"{len(times)} moves of consumers, {times[len(times) // 2]:.2f} s (at most {times[-1]:.2f} s)"
            if times
            else "no moves"
        )
        count = sum(len(sent) for sent in self.sent.values())
        redelivered = sum(map(len, self.again()[1].values()))
        return (
            f"{count} messages, {redelivered} redelivered; {moved}; latest delivery {gaps[slowest]:.2f} s ({slowest})"
        )


class Traffic:
    """The pod.

    Args:
        kubernetes: the cluster, with the client's image in it.
        namespace: where.
        wanted: see plan.
    """

    def __init__(self, kubernetes: Kubernetes, namespace: str, wanted: dict[str, Any]) -> None:
        self._kubernetes = kubernetes
        self._namespace = namespace
        self._plan = wanted
        metadata = {"name": POD, "namespace": namespace}
        program = {"traffic_program.py": _PROGRAM.read_text()}
        container = {
            "name": "client",
            "image": TARGETS["client"].image(),
            "imagePullPolicy": "IfNotPresent",
            "args": ["/traffic/traffic_program.py", json.dumps(wanted)],
            "readinessProbe": {"httpGet": {"path": "/progress", "port": 8080}, "periodSeconds": 1},
            "volumeMounts": [{"name": "program", "mountPath": "/traffic"}],
        }
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "volumes": [{"name": "program", "configMap": {"name": POD}}],
        }
        kubernetes.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": program},
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
        )
        ready = kubernetes.run("wait", f"pod/{POD}", "-n", namespace, "--for=condition=Ready", "--timeout=110s")
        assert ready.returncode == 0, self._log()[-3000:]

    def wait_for_more(self, eventually: Callable[..., Any], count: int = 20) -> None:
        """Wait until every subscription has got so many messages that were not published yet when this began."""
        before = self.progress()["sent"]
        wanted = {one["subscription"]: before[one["topic"]] + count for one in self._plan["consumers"]}

        def got_more() -> None:
            got: Counter[str] = Counter()
            received = self.progress()["received"]
            for one in self._plan["consumers"]:
                got[one["subscription"]] += received[one["name"]]
            assert all(got[name] >= number for name, number in wanted.items()), (got, wanted)

        eventually(got_more, 60)

    def progress(self) -> dict[str, Any]:
        """How much has been published and received."""
        return self._kubernetes.broker(POD, self._namespace, "/progress")

    def finish(self) -> History:
        """Publish no more, wait until everything has arrived, and tell what was seen."""
        done = self._kubernetes.run(
            "get", "--raw", f"/api/v1/namespaces/{self._namespace}/pods/{POD}:8080/proxy/finish", timeout=180
        )
        assert done.returncode == 0, done.stderr
        return History(self._plan, json.loads(done.stdout), self._log())

    def _log(self) -> str:
        return self._kubernetes("logs", POD, "-n", self._namespace)
