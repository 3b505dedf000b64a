"""A source cluster as the plans see it: a ConfigMap, a StatefulSet, brokers that take a while to start."""

import datetime as dt
from dataclasses import dataclass, field, replace

from readonly_operator.api.pool import Source
from readonly_operator.cluster.explicit_lac.observed import (
    Observed,
    ObservedBroker,
    ObservedConfig,
    ObservedWorkload,
    SettingRecord,
)
from readonly_operator.cluster.explicit_lac.plan import (
    CheckHealth,
    Evict,
    Plan,
    RemoveRecord,
    RestoreValue,
    SetValue,
    TransferOwnership,
    plan,
)
from readonly_operator.cluster.explicit_lac.requests import Agreement, SettingLocation, SettingRequest
from readonly_operator.kube.names import PoolKey

START = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
LOCATION = SettingLocation("pulsar", "pulsar-broker", "pulsar-broker", "PULSAR_PREFIX_lac")
SOURCE = Source("pulsar://b:6650", "http://b:8080", "zk:z:2181")
STARTING = dt.timedelta(seconds=20)


def request(name="demo", interval_ms=200, namespace="pulsar", **fields) -> SettingRequest:
    values = {
        "pool": PoolKey(namespace, name),
        "uid": f"uid-{name}",
        "created": "2026-01-01T00:00:00Z",
        "source": SOURCE,
        "location": LOCATION,
        "interval_ms": interval_ms,
        "restore": False,
        "has_finalizer": False,
        "deleted_at": None,
        "applied_ms": None,
    }
    return SettingRequest(**{**values, **fields})


def agreement(*requests: SettingRequest) -> Agreement:
    return Agreement(
        LOCATION,
        tuple(one for one in requests if one.deleted_at is None),
        tuple(one for one in requests if one.deleted_at is not None),
    )


@dataclass
class Broker:
    ordinal: int
    life: int
    created: dt.datetime
    started_with: str | None
    broken: bool = False


@dataclass
class World:
    value: str | None = None
    replicas: int = 2
    taken: bool = True
    now: dt.datetime = START
    record: SettingRecord | None = None
    changed: dt.datetime = START - dt.timedelta(days=1)
    others: str = "helm (2025-12-31T00:00:00Z)"
    health_asked: bool = False
    unhealthy: set[int] = field(default_factory=set)
    doomed: set[int] = field(default_factory=set)
    actions: list = field(default_factory=list)
    brokers: list[Broker] = field(default_factory=list)
    workload: ObservedWorkload | None = None

    def __post_init__(self) -> None:
        made = self.now - dt.timedelta(hours=1)
        self.brokers = [Broker(ordinal, 0, made, self.value) for ordinal in range(self.replicas)]
        self.workload = ObservedWorkload(self.replicas, 0, settled=True, reads=True, consent=frozenset())

    def serves(self, broker: Broker) -> bool:
        return not broker.broken and self.now >= broker.created + STARTING

    def runs_with(self, broker: Broker) -> int:
        return int((broker.started_with if self.taken else None) or "0")

    def observed(self) -> Observed:
        brokers = []
        for one in self.brokers:
            serving = self.serves(one)
            brokers.append(
                ObservedBroker(
                    f"pulsar-broker-{one.ordinal}",
                    f"{one.ordinal}.{one.life}",
                    one.ordinal,
                    one.created,
                    one.created,
                    ready=serving,
                    address=f"pulsar-broker-{one.ordinal}:8080" if serving else "",
                    interval_ms=self.runs_with(one) if serving else None,
                    healthy=(one.ordinal not in self.unhealthy) if self.health_asked and serving else None,
                    trouble="" if serving else "starting",
                )
            )
        config = ObservedConfig("uid", "1", self.value, self.record, self.changed, self.others)
        return Observed(config, self.workload, tuple(brokers))

    def step(self, wanted: Agreement, seconds: float = 2.0) -> Plan:
        """Plan, do, and let time pass; nothing is kept that a new operator would not see."""
        self.health_asked = False
        made = plan(wanted, self.observed(), self.now)
        if isinstance(made.action, CheckHealth):
            self.health_asked = True
            made = plan(wanted, self.observed(), self.now)
            assert not isinstance(made.action, CheckHealth)
        match made.action:
            case SetValue(interval_ms, record):
                self.value, self.record, self.changed = str(interval_ms), record, self.now
            case RestoreValue(value, record):
                self.value, self.record, self.changed = value, record, self.now
            case TransferOwnership(record):
                self.record = record
            case RemoveRecord():
                self.record, self.changed = None, self.now
            case Evict(_, uid):
                self._evict(uid)
        if made.action is not None:
            self.actions.append(made.action)
        self.now += dt.timedelta(seconds=seconds)
        return made

    def _evict(self, uid: str) -> None:
        assert all(self.serves(one) for one in self.brokers), "a broker is restarted while another does not serve"
        assert not self.unhealthy, "a broker is restarted while another is not healthy"
        victim = next(one for one in self.brokers if f"{one.ordinal}.{one.life}" == uid)
        made = Broker(victim.ordinal, victim.life + 1, self.now, self.value, broken=victim.ordinal in self.doomed)
        self.brokers[victim.ordinal] = made

    def revert(self, value: str | None) -> None:
        """What a GitOps tool does: the value is as it has it; annotations that it does not know stay."""
        self.value, self.others = value, "argocd-controller (2026-01-01T13:00:00Z)"

    def evictions(self) -> list[str]:
        return [one.pod for one in self.actions if isinstance(one, Evict)]

    def sets(self) -> list[int]:
        return [one.interval_ms for one in self.actions if isinstance(one, SetValue)]

    def run(self, wanted: Agreement, steps: int = 100) -> Plan:
        for _ in range(steps):
            made = self.step(wanted)
        return made

    def intervals(self) -> list[int]:
        return [self.runs_with(one) for one in self.brokers]


def applied(one: SettingRequest, interval_ms: int) -> SettingRequest:
    """The request of a pool whose status says that this was set for it."""
    return replace(one, applied_ms=interval_ms)
