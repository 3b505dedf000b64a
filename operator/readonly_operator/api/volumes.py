"""Volumes that users add to the brokers' pods, and their mount paths.

The kinds are those of the pod security level *restricted* that bring no files of the node and no token of the ServiceAccount.
manifests/admission-policy allows the same ones and no others.
"""

from __future__ import annotations

from dataclasses import replace

from readonly_operator.api.kubernetes import ANY_TEXT, REFERENCE
from readonly_operator.api.schema import Choice, Declared, Flag, ListOf, MapOf, Record, Rule, Text
from readonly_operator.api.values import DATA_KEY, OBJECT_NAME, QUANTITY

MAX_SOURCES = 8
"""Sources of a projected volume."""
MAX_ATTRIBUTES = 16
"""Attributes of a volume of a CSI driver."""
_NAME, _DATA_KEY = (replace(one, cheap=True) for one in (OBJECT_NAME, DATA_KEY))

_ITEMS = Declared(
    ListOf(
        Record(
            {
                "key": Declared(_DATA_KEY, "Key in the object.", required=True),
                "path": Declared(Text(512), "The file's name in the volume.", required=True),
            }
        ),
        64,
    ),
    "Keys and their file names; without it, all keys.",
)
_CONFIG_MAP = Record({"name": REFERENCE["name"], "items": _ITEMS, "optional": REFERENCE["optional"]})
_DOWNWARD_API = Record(
    {
        "items": Declared(
            ListOf(
                Record(
                    {
                        "path": Declared(Text(512), "The file's name in the volume.", required=True),
                        "fieldRef": Declared(
                            Record({"fieldPath": Declared(Text(256), "For example metadata.name.", required=True)}),
                            "A field of the pod.",
                            required=True,
                        ),
                    }
                ),
                16,
            ),
            "Fields and their file names.",
            required=True,
        )
    }
)
_PROJECTED = Record(
    {
        "sources": Declared(
            ListOf(
                Record(
                    {
                        "configMap": Declared(_CONFIG_MAP, "A ConfigMap."),
                        "secret": Declared(_CONFIG_MAP, "A Secret."),
                        "downwardAPI": Declared(_DOWNWARD_API, "Fields of the pod."),
                    },
                    (
                        Rule(
                            "[has(self.configMap), has(self.secret), has(self.downwardAPI)].filter(one, one).size() == 1",
                            "must have exactly one of configMap, secret and downwardAPI; pods get no token of a service account",
                        ),
                    ),
                ),
                MAX_SOURCES,
                1,
            ),
            "Objects whose files the volume has.",
            required=True,
        )
    }
)
_CSI = Record(
    {
        "driver": Declared(
            replace(OBJECT_NAME, cheap=True), "For example secrets-store.csi.k8s.io or csi.spiffe.io.", required=True
        ),
        "readOnly": Declared(Flag(), "Must be true.", required=True),
        "volumeAttributes": Declared(
            MapOf(ANY_TEXT, MAX_ATTRIBUTES),
            "Settings of the driver, for example secretProviderClass. Without it, none.",
        ),
        "nodePublishSecretRef": Declared(
            Record({"name": REFERENCE["name"]}),
            "A Secret of the pool's namespace that the driver gets. Without it, none.",
        ),
    },
    (Rule("self.readOnly", "must be true, for brokers only read such volumes", ".readOnly"),),
)
VOLUME = Record(
    {
        "name": Declared(
            Text(63, "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "must be a DNS label: lower-case letters, digits and '-'"),
            "The volume's name, for volumeMounts.",
            required=True,
        ),
        "configMap": Declared(_CONFIG_MAP, "A ConfigMap."),
        "secret": Declared(
            Record(
                {
                    "secretName": Declared(_NAME, "The Secret's name.", required=True),
                    "items": _ITEMS,
                    "optional": REFERENCE["optional"],
                }
            ),
            "A Secret.",
        ),
        "emptyDir": Declared(
            Record(
                {
                    "medium": Declared(Choice(("", "Memory")), "Storage medium; without it, the node's disk."),
                    "sizeLimit": Declared(QUANTITY, "Largest size; without it, no limit."),
                }
            ),
            "An empty directory, deleted with the pod.",
        ),
        "persistentVolumeClaim": Declared(
            Record(
                {
                    "claimName": Declared(_NAME, "The claim; all brokers share it.", required=True),
                    "readOnly": Declared(Flag(), "Whether it is mounted for reading only; without it, it is not."),
                }
            ),
            "A volume claim, for example with offloaded ledgers.",
        ),
        "projected": Declared(_PROJECTED, "Files of several ConfigMaps and Secrets, and fields of the pod."),
        "csi": Declared(
            _CSI,
            "A volume that a CSI driver of the node makes for the pod: secrets of a store, certificates, identities.",
        ),
    },
    (
        Rule(
            "[has(self.configMap), has(self.secret), has(self.emptyDir), has(self.persistentVolumeClaim), has(self.projected), "
            "has(self.csi)].filter(one, one).size() == 1",
            "must have exactly one of configMap, secret, emptyDir, persistentVolumeClaim, projected and csi",
        ),
        Rule(
            "!self.name.startsWith('pulsar-readonly-')",
            'must not begin with "pulsar-readonly-", as the operator\'s own volumes do',
            ".name",
        ),
    ),
)
VOLUME_MOUNT = Record(
    {
        "name": Declared(Text(63), "Name of the volume.", required=True),
        "mountPath": Declared(
            Text(512, r"/[^:]*", "must be an absolute path without ':'"),
            "Path in the brokers' containers.",
            required=True,
        ),
        "subPath": Declared(Text(512), "Path in the volume; without it, the whole volume."),
        "readOnly": Declared(Flag(), "Whether it is for reading only; without it, it is not."),
    },
    (
        Rule(
            "!self.mountPath.startsWith('/etc/pulsar-readonly')",
            "must not be below /etc/pulsar-readonly, where the operator's own volumes are",
            ".mountPath",
        ),
    ),
)
