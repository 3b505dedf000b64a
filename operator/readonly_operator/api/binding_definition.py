"""ReadOnlyTopicBinding: what its custom resource definition says beyond the spec."""

from __future__ import annotations

from readonly_operator.api.schema import Declared, Number
from readonly_operator.api.status import AGE, Column, Reported, condition_column, status_schema

DESCRIPTION = (
    "Topics that a ReadOnlyBrokerPool of the same namespace serves. Clients that look one of them up at the pool are sent to "
    "its read-only brokers. Running brokers take it up within seconds, without a restart."
)

COLUMNS = (
    Column("Pool", ".spec.poolRef.name", "The pool that serves the topics."),
    Column("Topics", ".spec.topics", "Which topics."),
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
        "lookupRevision": Declared(Reported(), "The pool's lookup redirection config that has this binding in it."),
    },
    "Ready (every broker of the pool holds this binding), Progressing (brokers are about to take it up), LookupConfigured "
    "(what brokers hold of it is what it says).",
)
