"""A snapshot as a Mermaid flowchart: source cluster, pools, zones, brokers, bindings and topics. Pure.

Every name is foreign. A label has each character outside of a short list as a numeric entity, so that no name ends a label or
begins a directive. Identifiers of nodes are numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from readonly_engine.status.text import count, printable

from readonly_operator.kubectl import next_steps
from readonly_operator.kubectl.snapshot import condition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from readonly_engine.status.state import TopicState

    from readonly_operator.kubectl.snapshot import BindingView, BrokerView, PoolView, Snapshot

MAX_POOLS: Final = 10
MAX_BROKERS: Final = 20
"""Brokers of a pool."""

MAX_BINDINGS: Final = 20
"""Bindings of a pool."""

MAX_TOPICS: Final = 20
"""Topics of a pool that its brokers serve, those with the most consumers."""

MAX_LINKS: Final = 10
"""Brokers to which a topic has an arrow, those with the most of its subscriptions."""

MAX_LABEL: Final = 80
"""Characters of a name."""

MAX_EDGES: Final = 480
"""Arrows of a chart, without those that count what is left out. Mermaid draws no chart with more than 500 (maxEdges)."""

MAX_CHARACTERS: Final = 45_000
"""Characters of a chart, without its last lines. Mermaid draws no chart with more than 50,000 (maxTextSize)."""

NO_ZONE: Final = "no zone"

_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -_./")
_BREAK: Final = "<br/>"
_STYLES: Final = (
    "  classDef good stroke:#2f7d32,stroke-width:2px",
    "  classDef bad stroke:#a31515,stroke-width:3px,stroke-dasharray:5 3",
)


def label(*lines: str) -> str:
    """Return a label of several lines, in quotes, with every foreign character as an entity."""
    shown = (printable(line, MAX_LABEL) for line in lines if line)
    return '"' + _BREAK.join("".join(map(_entity, line)) for line in shown) + '"'


def _entity(character: str) -> str:
    return character if character in _PLAIN else f"#{ord(character)};"


def zone_of(locality: str) -> str:
    """Return the zone of a locality, `/RACK` or `/ZONE/RACK`; NO_ZONE without one."""
    parts = [part for part in locality.split("/") if part]
    return parts[0] if parts else NO_ZONE


def render(snapshot: Snapshot) -> list[str]:
    """Return the lines of the flowchart."""
    chart, shown = _Chart(), 0
    for pool in snapshot.pools[:MAX_POOLS]:
        before = chart.copy()
        chart.pool(pool)
        if (
            shown and not chart.is_drawn
        ):  # a first pool alone has fewer arrows and characters, unless its names are very long
            chart = before
            break
        shown += 1
    if len(snapshot.pools) > shown:
        chart.node(f"and {len(snapshot.pools) - shown} more pools")
    return chart.lines()


class _Chart:
    """Lines of a flowchart, with numbers as identifiers."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._edges: list[str] = []
        self._classes: list[str] = []
        self._sources: dict[tuple[str, str], str] = {}
        self._count = 0

    def copy(self) -> _Chart:
        """Return a chart with the same lines, to which others can be added."""
        made = _Chart()
        made._nodes, made._edges, made._classes = [*self._nodes], [*self._edges], [*self._classes]
        made._sources, made._count = {**self._sources}, self._count
        return made

    @property
    def is_drawn(self) -> bool:
        """Return whether Mermaid draws a chart of this size."""
        return len(self._edges) <= MAX_EDGES and sum(len(line) + 1 for line in self.lines()) <= MAX_CHARACTERS

    def lines(self) -> list[str]:
        return ["flowchart LR", *self._nodes, *self._edges, *_STYLES, *self._classes]

    def node(self, *lines: str, shape: str = "[]", good: bool | None = None) -> str:
        """Add a node; return its identifier.

        Args:
            lines: lines of its label.
            shape: begin and end of its shape.
            good: whether it is well; None for neither.
        """
        identifier = self._next("n")
        half = len(shape) // 2
        self._nodes.append(f"  {identifier}{shape[:half]}{label(*lines)}{shape[half:]}")
        if good is not None:
            self._classes.append(f"  class {identifier} {'good' if good else 'bad'}")
        return identifier

    def edge(self, begin: str, end: str, text: str = "") -> None:
        """Add an arrow."""
        self._edges.append(f"  {begin} -->{f'|{label(text)}|' if text else ''} {end}")

    def pool(self, pool: PoolView) -> None:
        """Add a pool with its source cluster, brokers, bindings and topics."""
        ready = condition_of(pool.conditions, "Ready")
        brokers = f"{pool.ready_replicas} of {pool.replicas} brokers ready"
        node = self.node(f"Pool {pool.key}", f"{ready.status} {ready.reason}", brokers, good=ready.status == "True")
        self.edge(self._source(pool), node, "entries, cursors")
        named = self._brokers(pool, node)
        for binding in pool.bindings[:MAX_BINDINGS]:
            self._binding(binding, node)
        if pool.bindings[MAX_BINDINGS:]:
            self.edge(self.node(f"and {len(pool.bindings) - MAX_BINDINGS} more bindings"), node)
        self._topics(pool, named)

    def _source(self, pool: PoolView) -> str:
        key = (pool.service_url, pool.metadata_store)
        if key not in self._sources:
            store = f"metadata {pool.metadata_store}" if pool.metadata_store else ""
            self._sources[key] = self.node("Source cluster", pool.service_url or "unknown", store, shape="[()]")
        return self._sources[key]

    def _brokers(self, pool: PoolView, node: str) -> Mapping[str, str]:
        """Add the brokers in their zones; return the identifier of each by its pod."""
        shown = pool.brokers[:MAX_BROKERS]
        named: dict[str, str] = {}
        for zone in sorted({zone_of(_locality(one)) for one in shown}):
            self._nodes.append(f"  subgraph {self._next('z')}[{label(f'Zone {zone}' if zone != NO_ZONE else zone)}]")
            for broker in shown:
                if zone_of(_locality(broker)) == zone:
                    consumers = sum(one.status.broker.consumers for one in broker.observed if one.status is not None)
                    named[broker.pod] = self.node(broker.pod, f"{count(consumers)} consumers", good=broker.ready)
            self._nodes.append("  end")
        for broker in shown:
            self.edge(node, named[broker.pod])
        if pool.brokers[MAX_BROKERS:]:
            self.edge(node, self.node(f"and {len(pool.brokers) - MAX_BROKERS} more brokers"))
        return named

    def _binding(self, binding: BindingView, node: str) -> None:
        ready = condition_of(binding.conditions, "Ready").status == "True"
        topics = f"{count(binding.matched)} topics match"
        named = (*binding.topics, *binding.namespaces)
        others = f"and {len(named) - 1} more" if named[1:] else ""
        good = ready and not next_steps.of_binding(binding)
        binding_node = self.node(
            f"Binding {binding.namespace}/{binding.name}", *named[:1], others, topics, shape="{{}}", good=good
        )
        self.edge(binding_node, node)

    def _topics(self, pool: PoolView, named: Mapping[str, str]) -> None:
        """Add the topics with the most consumers, and the brokers that have these consumers."""
        consumers: dict[str, int] = {}
        links: dict[str, dict[str, int]] = {}
        for broker in pool.brokers:
            for topic in _topics_of(broker):
                consumers[topic.name] = consumers.get(topic.name, 0) + topic.consumers
                at = links.setdefault(topic.name, {})
                at[broker.pod] = at.get(broker.pod, 0) + topic.subscriptions
        ordered = sorted(consumers, key=lambda name: (-consumers[name], name))
        left_out = 0
        for name in ordered[:MAX_TOPICS]:
            node = self.node(name, f"{count(consumers[name])} consumers", shape="()")
            for place, (pod, subscriptions) in enumerate(
                sorted(links[name].items(), key=lambda one: (-one[1], one[0]))
            ):
                if pod in named and place < MAX_LINKS:
                    self.edge(named[pod], node, f"subscriptions {count(subscriptions)}")
                else:
                    left_out += pod in named
        if left_out:
            self.node(f"and {left_out} more arrows to topics of {pool.key}")
        if ordered[MAX_TOPICS:]:
            self.node(f"and {len(ordered) - MAX_TOPICS} more topics of {pool.key}")

    def _next(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"


def _locality(broker: BrokerView) -> str:
    """Return the locality that the broker reports, else the one that the operator wrote for it."""
    reported = (one.status.broker.locality for one in broker.observed if one.status is not None)
    return next((one for one in reported if one), broker.locality)


def _topics_of(broker: BrokerView) -> Iterable[TopicState]:
    return (topic for one in broker.observed if one.status is not None for topic in one.status.topics)
