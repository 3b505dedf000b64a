"""ReadOnlyTopicBinding: what its custom resource definition says beyond the spec."""

from __future__ import annotations

from readonly_operator.api.schema import Declared, ListOf, Number, Record
from readonly_operator.api.status import AGE, Column, Reported, condition_column, status_schema

DESCRIPTION = (
    "Topics that a ReadOnlyBrokerPool of the same namespace serves. Clients that look one of them up at the pool are sent to "
    "its read-only brokers. Running brokers take it up within seconds, without a restart."
)

MAX_LAGGING = 10
"""Topics whose lag the status names, the worst ones; the brokers' metrics have all."""

_LAG = Record(
    {
        "topic": Declared(
            Reported(), "Full name of the topic; of a partitioned one, without its partitions.", required=True
        ),
        "subscription": Declared(Reported(), "Its slowest subscription.", required=True),
        "entries": Declared(
            Number(wide=True),
            "Entries that can be read and that the subscription has not acked, to two digits, by the broker that has most.",
            required=True,
        ),
    }
)

COLUMNS = (
    Column("Pool", ".spec.poolRef.name", "The pool that serves the topics."),
    Column("Topics", ".spec.topics", "Which topics."),
    Column("Namespaces", ".spec.namespaces", "Which namespaces, all topics of which are meant.", wide=True),
    Column("Matched", ".status.matchedTopics", "Topics that there are of them.", "integer"),
    Column("Holding", ".status.holdingBrokers", "Brokers that hold this binding now.", "integer"),
    Column("Brokers", ".status.brokers", "Brokers of the pool.", "integer"),
    condition_column("Ready", "Ready", "Whether every broker of the pool holds this binding."),
    condition_column("Reason", "Ready", "Why the binding is Ready or not.", "reason"),
    AGE,
)

SELECTABLE = (".spec.poolRef.name",)
"""Fields that `kubectl get --field-selector` knows."""

STATUS = status_schema(
    {
        "brokers": Declared(Number(), "Brokers that the pool has."),
        "holdingBrokers": Declared(Number(), "Brokers that hold this binding now, by their own word."),
        "servingBrokers": Declared(Number(), "Brokers that hold this binding and take clients."),
        "matchedTopics": Declared(
            Number(), "Topics of the writable cluster that the binding matches; a partitioned topic counts once."
        ),
        "matchedPartitions": Declared(Number(), "How many partitions those of them have that are partitioned."),
        "lag": Declared(
            ListOf(_LAG, most=MAX_LAGGING, keys=("topic",)),
            "The topics whose readers at the pool are behind farthest, the worst first; all of them are in the brokers' metrics "
            "(pulsar_readonly_backlog_entries).",
        ),
        "lookupRevision": Declared(
            Reported(), "The pool's lookup redirection config by which brokers took this binding up."
        ),
    },
    "Ready (every broker of the pool holds this binding), Progressing (brokers are about to take it up), LookupConfigured "
    "(what brokers hold of it is what it says), Paused (an annotation says that nothing is to change), and while it waits for "
    "somebody to change something, Stalled.",
)
