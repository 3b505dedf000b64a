"""Schemas of parts of Kubernetes' own API that a pool copies to its objects."""

from __future__ import annotations

from dataclasses import replace

from readonly_operator.api.schema import Choice, Declared, Flag, ListOf, MapOf, Number, Record, Rule, Schema, Text
from readonly_operator.api.values import DATA_KEY, OBJECT_NAME

LABEL_VALUE = Text(
    63,
    r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?",
    "must be a label value: at most 63 letters, digits, '-', '_' and '.', a letter or digit first and last",
)
LABEL_KEY = Text(
    317,
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?",
    "must be a label key, for example topology.kubernetes.io/zone",
)
ANY_TEXT = Text(4096)
_VALUE, _KEY, _NAME, _DATA_KEY = (replace(one, cheap=True) for one in (LABEL_VALUE, LABEL_KEY, OBJECT_NAME, DATA_KEY))
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def _one(schema: Schema, description: str, *, required: bool = False) -> Declared:
    return Declared(schema, description, required)


def _expressions(operators: tuple[str, ...]) -> Schema:
    return ListOf(
        Record(
            {
                "key": _one(_KEY, "A label's key.", required=True),
                "operator": _one(Choice(operators), "Comparison of its value.", required=True),
                "values": _one(ListOf(_VALUE, 64), "Values to compare with."),
            }
        ),
        32,
    )


LABEL_SELECTOR = Record(
    {
        "matchLabels": _one(MapOf(_VALUE, 32), "Required labels."),
        "matchExpressions": _one(_expressions(_OPERATORS), "Conditions on labels; all must hold."),
    },
    atomic=True,
)

_NODE_TERM = Record(
    {
        "matchExpressions": _one(
            _expressions((*_OPERATORS, "Gt", "Lt")), "Conditions on a node's labels; all must hold."
        ),
        "matchFields": _one(
            _expressions((*_OPERATORS, "Gt", "Lt")), "Conditions on a node's fields (metadata.name); all must hold."
        ),
    },
    atomic=True,
)
_POD_TERM = Record(
    {
        "labelSelector": _one(LABEL_SELECTOR, "Selected pods."),
        "namespaces": _one(ListOf(_NAME, 32), "Namespaces of the pods; without it, the pool's own."),
        "namespaceSelector": _one(LABEL_SELECTOR, "Labels of the pods' namespaces."),
        "topologyKey": _one(_KEY, "Node label that defines a topology domain.", required=True),
    }
)
_WEIGHT = _one(Number(1, 100), "Weight of this preference.", required=True)


def _preferred_pods() -> Schema:
    return ListOf(Record({"weight": _WEIGHT, "podAffinityTerm": _one(_POD_TERM, "Selected pods.", required=True)}), 16)


_POD_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": _one(ListOf(_POD_TERM, 16), "Required terms."),
    "preferredDuringSchedulingIgnoredDuringExecution": _one(_preferred_pods(), "Preferred terms."),
}

AFFINITY = Record(
    {
        "nodeAffinity": _one(
            Record(
                {
                    "requiredDuringSchedulingIgnoredDuringExecution": _one(
                        Record(
                            {
                                "nodeSelectorTerms": _one(
                                    ListOf(_NODE_TERM, 16, 1), "Terms, one of which must hold.", required=True
                                )
                            }
                        ),
                        "Required terms.",
                    ),
                    "preferredDuringSchedulingIgnoredDuringExecution": _one(
                        ListOf(
                            Record(
                                {"weight": _WEIGHT, "preference": _one(_NODE_TERM, "Selected nodes.", required=True)}
                            ),
                            16,
                        ),
                        "Preferred terms.",
                    ),
                }
            ),
            "Nodes for brokers.",
        ),
        "podAffinity": _one(Record(_POD_AFFINITY), "Pods near which brokers run."),
        "podAntiAffinity": _one(Record(_POD_AFFINITY), "Pods away from which brokers run."),
    }
)

TOLERATION = Record(
    {
        "key": _one(_KEY, "The taint's key; without it, all keys."),
        "operator": _one(Choice(("Exists", "Equal")), "Comparison of the taint's value; without it, Equal."),
        "value": _one(_VALUE, "The taint's value; without it, the empty one."),
        "effect": _one(
            Choice(("NoSchedule", "PreferNoSchedule", "NoExecute")), "The taint's effect; without it, all effects."
        ),
        "tolerationSeconds": _one(
            Number(wide=True), "Seconds that a NoExecute taint is tolerated; without it, forever."
        ),
    },
    (
        Rule(
            "!has(self.operator) || self.operator != 'Exists' || !has(self.value)",
            "must be empty when operator is Exists",
            ".value",
        ),
        Rule(
            "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            "must be Exists when key is empty",
            ".operator",
        ),
    ),
)

REFERENCE = {
    "name": _one(_NAME, "The object's name.", required=True),
    "key": _one(_DATA_KEY, "Key in the object.", required=True),
    "optional": _one(Flag(), "Whether it may be missing; without it, it may not."),
}
ENV = Record(
    {
        "name": _one(
            Text(256, "[A-Za-z_][A-Za-z0-9_]*", "must be the name of an environment variable, for example TZ"),
            "The variable.",
            required=True,
        ),
        "value": _one(ANY_TEXT, "Its value. Without it, valueFrom."),
        "valueFrom": _one(
            Record(
                {
                    "configMapKeyRef": _one(Record(REFERENCE), "A key of a ConfigMap of the pool's namespace."),
                    "fieldRef": _one(
                        Record({"fieldPath": _one(Text(256), "For example spec.nodeName.", required=True)}),
                        "A field of the pod.",
                    ),
                },
                (
                    Rule(
                        "has(self.configMapKeyRef) != has(self.fieldRef)",
                        "must have either configMapKeyRef or fieldRef; "
                        "mount Secrets as files, for environments show up in dumps and logs",
                    ),
                ),
            ),
            "Source of its value. Secrets are rejected here: mount them as files (volumes).",
        ),
    },
    (
        Rule(
            "!self.name.startsWith('POD_') && !self.name.startsWith('PULSAR_READONLY_')",
            "must not begin with POD_ or PULSAR_READONLY_, which the operator sets",
            ".name",
        ),
        Rule("has(self.value) != has(self.valueFrom)", "must have either value or valueFrom"),
    ),
)

PEER = Record(
    {
        "podSelector": _one(LABEL_SELECTOR, "Pods with these labels; without it, all pods of the namespaces."),
        "namespaceSelector": _one(LABEL_SELECTOR, "Namespaces with these labels; without it, the pool's own."),
        "ipBlock": _one(
            Record(
                {
                    "cidr": _one(
                        Text(43, r"[0-9A-Fa-f.:]+/[0-9]{1,3}", "must be a network, for example 10.0.0.0/8"),
                        "Addresses.",
                        required=True,
                    ),
                    "except": _one(
                        ListOf(
                            Text(43, r"[0-9A-Fa-f.:]+/[0-9]{1,3}", "must be a network, for example 10.1.0.0/16"), 32
                        ),
                        "Excluded addresses.",
                    ),
                }
            ),
            "Addresses outside the cluster.",
        ),
    },
    (
        Rule(
            "has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))",
            "must have either ipBlock, or podSelector and namespaceSelector or one of them",
        ),
    ),
)

IP_ADDRESS = Text(45, r"[0-9A-Fa-f.:]+", "must be an IP address, for example 10.0.0.10")
HOST_NAME = Text(
    253,
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
    "must be a host name: lower-case letters, digits, '-' and '.'",
)
_ADDRESS, _HOST = (replace(one, cheap=True) for one in (IP_ADDRESS, HOST_NAME))
DNS_CONFIG = Record(
    {
        "nameservers": _one(ListOf(_ADDRESS, 3, 1), "IP addresses of DNS servers. Without it, those of dnsPolicy."),
        "searches": _one(ListOf(_HOST, 32), "Domains in which short names are looked up, besides those of dnsPolicy."),
        "options": _one(
            ListOf(
                Record(
                    {
                        "name": _one(Text(64), "The option, for example ndots.", required=True),
                        "value": _one(Text(64), "Its value. Without it, none."),
                    }
                ),
                16,
            ),
            "Options of the resolver.",
        ),
    }
)
"""Limits: name servers and searches as in Kubernetes' validation of pods (MaxDNSNameservers, MaxDNSSearchPaths)."""
HOST_ALIAS = Record(
    {
        "ip": _one(_ADDRESS, "IP address.", required=True),
        "hostnames": _one(ListOf(_HOST, 16, 1), "Names of this address.", required=True),
    }
)
