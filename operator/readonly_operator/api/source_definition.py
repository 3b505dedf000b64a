"""ReadOnlySource: its custom resource definition beyond the spec, which is that of spec.source of a pool."""

from __future__ import annotations

from readonly_operator.api.schema import Declared, Number
from readonly_operator.api.status import AGE, Column, condition_column, status_schema

DESCRIPTION = (
    "Connection to a source Pulsar cluster that several ReadOnlyBrokerPools of the same namespace share (spec.sourceRef). "
    "A change reaches its pools at once, and restarts their brokers one by one. After its deletion the pools keep the "
    "connection that they used last."
)

COLUMNS = (
    Column("ServiceUrl", ".spec.serviceUrl", "The owner brokers."),
    Column("Pools", ".status.pools", "Pools that name this source.", "integer"),
    Column("AdminUrl", ".spec.adminUrl", "Their admin API.", wide=True),
    Column("MetadataStore", ".spec.metadataStoreUrl", "The metadata store, which identifies the cluster.", wide=True),
    condition_column("Ready", "Ready", "Whether pools can use it."),
    AGE,
)

STATUS = status_schema(
    {"pools": Declared(Number(), "Number of ReadOnlyBrokerPools that name this source.")},
    "Ready (the operator can read the spec, so pools can use it). Stalled is present while a person must act. Whether the "
    "cluster answers is a condition of each pool.",
)
