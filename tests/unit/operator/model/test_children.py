"""What a pool becomes, against a golden file.

A change that is meant: UPDATE_GOLDEN=1 pytest tests/unit/operator/model/test_children.py, then read the diff.
"""

import pathlib
from difflib import unified_diff

import pytest
import yaml
from readonly_engine.broker.server.drain import DRAIN_TIMEOUT_S
from readonly_engine.config import schema
from readonly_engine.config.reader import make_config, read_config_file
from readonly_operator.api.pool import Pool
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.kube.http_ports import KeyOf, PortAccess, port_access
from readonly_operator.kube.kinds import SECRET
from readonly_operator.kube.names import ANNOTATION_RESTARTED_AT
from readonly_operator.model.children import children
from readonly_operator.model.lookup import Entry, LookupConfig
from readonly_operator.model.quantities import canonical
from readonly_operator.settings import Settings

from tests.support.golden import check_golden
from tests.support.json_schema import is_valid
from tests.support.yaml_documents import load_yaml

GOLDEN = pathlib.Path(__file__).parent / "golden" / "children.txt"
SETTINGS = Settings(engine_image="images.example.org/engine:1.2.3", own_namespace="pulsar-readonly-system")
EVERYTHING = {
    "source": {
        "serviceUrl": "pulsar+ssl://broker-0.pulsar:6651,broker-1.pulsar:6651",
        "adminUrl": "https://broker-0.pulsar:8443,broker-1.pulsar:8443/",
        "metadataStoreUrl": "zk:zk-0.pulsar:2181,zk-1.pulsar:2181/pulsar",
        "authentication": {"type": "Token", "secretRef": {"name": "reader", "key": "jwt"}},
        "tls": {
            "brokers": {
                "trustCertificates": {"configMapName": "pulsar-ca"},
                "clientCertificate": {"secretName": "reader-tls"},
            },
            "bookies": {
                "trustCertificates": {"secretName": "bookie-ca", "key": "ca.pem"},
                "hostnameVerification": False,
            },
        },
    },
    "replicas": 3,
    "image": "example/engine:9",
    "imagePullPolicy": "Never",
    "imagePullSecrets": [{"name": "pull"}],
    "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"memory": "2Gi"}},
    "cache": {"size": "512Mi"},
    "limits": {
        "maxConnections": 5000,
        "maxConsumersPerTopic": 100,
        "maxBufferedBytes": "256Mi",
        "dispatchRatePerSubscription": {"messages": 1000},
        "dispatchRatePerBroker": {"messages": 50000, "bytes": "100Mi"},
    },
    "tieredStorage": {
        "readPriority": "BookKeeperFirst",
        "endpoint": "https://s3.example.com",
        "credentials": {"name": "s3"},
        "cacheSize": "128Mi",
    },
    "listeners": {
        "plaintext": "BrokersOnly",
        "tls": {
            "certificate": {"secretName": "demo-tls"},
            "trustCertificates": {"secretName": "clients"},
            "peerTrustCertificates": {"secretName": "demo-tls"},
        },
        "service": {
            "type": "NodePort",
            "pulsarTlsNodePort": 30651,
            "labels": {"team": "data"},
            "annotations": {"example.com/team": "data"},
            "externalTrafficPolicy": "Local",
        },
        "ipFamilyPolicy": "PreferDualStack",
        "ipFamilies": ["IPv6", "IPv4"],
        "external": {
            "host": "{broker}.pulsar.example.com",
            "labels": {"team": "edge"},
            "annotations": {"external-dns.alpha.kubernetes.io/hostname": "{broker}.pulsar.example.com"},
            "externalTrafficPolicy": "Cluster",
            "loadBalancerSourceRanges": ["10.0.0.0/8"],
        },
    },
    "http": {"tls": True, "tokenSecretRef": {"name": "figures", "key": "jwt"}, "exposed": True},
    "lookup": {"unbound": "Proxy"},
    "explicitLac": {"management": "Verify", "interval": "200ms"},
    "locality": {"nodeLabels": ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"]},
    "topologySpread": [{"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "disruptionBudget": {"minAvailable": "50%"},
    "updateStrategy": {"partition": 1, "maxUnavailable": "25%"},
    "autoscaling": {"minReplicas": 2, "maxReplicas": 6, "targetCPUUtilization": 60},
    "scaleToZero": {"after": "20m"},
    "podTemplate": {
        "metadata": {"labels": {"team": "data"}, "annotations": {"example.com/owner": "data"}},
        "nodeSelector": {"disk": "none"},
        "tolerations": [{"key": "dedicated", "value": "pulsar", "effect": "NoSchedule"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}}
                ]
            }
        },
        "priorityClassName": "high",
        "schedulerName": "packing",
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.0.0.10"],
            "searches": ["pulsar.example.com"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "single-request"}],
        },
        "hostAliases": [{"ip": "10.0.0.20", "hostnames": ["zk-0.example.com"]}],
        "terminationGracePeriodSeconds": 60,
        "env": [{"name": "TZ", "value": "Europe/Berlin"}],
        "volumes": [
            {"name": "offloaded", "persistentVolumeClaim": {"claimName": "offloaded", "readOnly": True}},
            {
                "name": "together",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                        {"secret": {"name": "keys", "optional": True}},
                        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    ]
                },
            },
            {
                "name": "vault",
                "csi": {
                    "driver": "secrets-store.csi.k8s.io",
                    "readOnly": True,
                    "volumeAttributes": {"secretProviderClass": "orders"},
                    "nodePublishSecretRef": {"name": "vault-login"},
                },
            },
        ],
        "volumeMounts": [{"name": "offloaded", "mountPath": "/offloaded", "readOnly": True}],
    },
    "serviceAccountTemplate": {
        "metadata": {
            "labels": {"team": "data"},
            "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/offload-reader"},
        }
    },
    "monitoring": {
        "podMonitor": {"interval": "30s", "labels": {"release": "prometheus"}},
        "otlpEndpoint": "http://collector.monitoring:4318",
    },
    "networkPolicy": {
        "clients": [{"namespaceSelector": {"matchLabels": {"pulsar": "clients"}}}],
        "monitoring": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    },
    "logLevel": "debug",
}
SECURE_STORES = {
    "source": {
        "serviceUrl": "pulsar://broker.pulsar:6650",
        "adminUrl": "http://broker.pulsar:8080",
        "metadataStoreUrl": "zk:zk-0.pulsar:2281",
        "tls": {
            "metadataStore": {
                "trustCertificates": {"configMapName": "zookeeper-ca"},
                "clientCertificate": {"secretName": "zookeeper-tls"},
            },
        },
        "metadataStoreLogin": {"secretRef": {"name": "zookeeper-login"}, "nodeRights": "Open"},
        "bookieLogin": {"secretRef": {"name": "bookie-login", "key": "digest"}},
    },
}
"""A source whose ZooKeeper and bookies have TLS and logins."""
OAUTH2 = {
    "source": {
        "serviceUrl": "pulsar://broker.pulsar:6650",
        "adminUrl": "http://broker.pulsar:8080",
        "metadataStoreUrl": "zk:zk-0.pulsar:2181",
        "authentication": {
            "type": "OAuth2",
            "oauth2": {
                "issuerUrl": "https://issuer.example.com/realms/pulsar/",
                "audience": "urn:pulsar",
                "secretRef": {"name": "oauth2", "keyFile": "credentials.json"},
                "trustCertificates": {"configMapName": "issuer-ca"},
            },
        },
    },
}
"""A pool with access tokens."""
ISSUED = {
    "autoscaling": {"minReplicas": 2, "maxReplicas": 4},
    "resources": {"requests": {"cpu": 1}},
    "listeners": {
        "tls": {"issuerRef": {"name": "ca", "kind": "ClusterIssuer"}, "dnsNames": ["pulsar.example.com"]},
        "external": {"host": "{broker}.Pulsar.example.com"},
    },
}
"""A pool whose certificate cert-manager issues."""

PLATFORM = {
    "replicas": 2,
    "workers": 2,
    "listeners": {
        "tls": {"certificate": {"secretName": "demo-tls"}},
        "external": {"type": "NodePort", "host": "{node}.nodes.example.com", "nodePorts": {"first": 30000}},
    },
    "updateStrategy": {"minReadySeconds": 20},
    "inheritedMetadata": {
        "labels": {"team": "data", "tier": "all"},
        "annotations": {"example.com/owner": "data", "example.com/cost": "42"},
    },
    "podTemplate": {"metadata": {"labels": {"tier": "pods"}, "annotations": {"example.com/owner": "streaming"}}},
    "serviceAccountTemplate": {"metadata": {"labels": {"tier": "accounts"}}},
    "monitoring": {"podMonitor": {"labels": {"tier": "monitors"}}},
    "probes": {"startup": {"failureThreshold": 120}, "liveness": {"periodSeconds": 20, "timeoutSeconds": 5}},
    "autoscaling": {"maxReplicas": 6, "targetDeliveredBytesPerSecond": "50Mi", "targetConnections": 2000},
    "networkPolicy": {
        "egress": {
            "bookies": {"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "pulsar"}}}]},
            "additional": [{"ports": [80], "to": [{"ipBlock": {"cidr": "169.254.169.254/32"}}]}],
        },
    },
}
"""Workers, node ports, timings of probes, egress, custom metrics, and metadata of all objects."""
REPLAY = {
    "replay": {"from": "2026-11-21T14:00:00Z", "to": "2026-11-21T16:00:00+01:00", "speed": "2.5", "loop": True},
    "cursorPartitions": 4,
    "lookup": {"unbound": "Reject"},
}
"""Past messages."""


def _template(pool: Pool, lookup: LookupConfig, settings: Settings = SETTINGS) -> dict:
    return find(children(pool, lookup, settings), "StatefulSet")["spec"]["template"]


def find(manifests: list[dict], kind: str, name: str = "demo") -> dict:
    return next(one for one in manifests if one["kind"] == kind and one["metadata"]["name"] == name)


def made(pool: Pool, brokers: dict[int, int] | None = None) -> list[dict]:
    return children(pool, LookupConfig.of([]), SETTINGS, brokers)


def spec_of(manifests: list[dict], kind: str, name: str = "demo") -> dict:
    return find(manifests, kind, name)["spec"]


def container(pool: Pool) -> dict:
    return spec_of(made(pool), "StatefulSet")["template"]["spec"]["containers"][0]


SPECS = {
    "minimal": {},
    "everything": EVERYTHING,
    "secure-stores": SECURE_STORES,
    "oauth2": OAUTH2,
    "issued": ISSUED,
    "platform": PLATFORM,
    "replay": REPLAY,
}


class Dumper(yaml.SafeDumper):
    """Writes a short mapping without parts in one line, and a text of several lines as they are."""

    def ignore_aliases(self, _: object) -> bool:
        return True

    def represent_mapping(self, tag, mapping, flow_style=None):
        node = super().represent_mapping(tag, mapping, flow_style)
        node.flow_style = len(str(mapping)) <= 120 and not any(isinstance(one, dict | list) for one in mapping.values())
        return node


Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def lines_of(manifest: dict) -> list[str]:
    text = yaml.dump(manifest, Dumper=Dumper, sort_keys=False, width=200)
    assert load_yaml(text) == manifest
    return text.splitlines()


def difference(lines: list[str], former: list[str]) -> list[str]:
    """What to add and to remove, each below the line before it."""
    found = []
    for line in unified_diff(former, lines, lineterm="", n=0):
        if line.startswith("@@"):
            begin, _, count = line.split()[1].removeprefix("-").partition(",")
            before = int(begin) - (count != "0")
            found += [f" {former[before - 1]}"] if before > 0 else []
        elif not line.startswith(("---", "+++")):
            found.append(line)
    return found


def described(made: dict[str, list[dict]]) -> str:
    """What of each object differs from that of the first pool of its kind and name, else from the last one before it of its
    kind, else from the metadata that all objects have."""
    first, text = {}, []
    for pool, manifests in made.items():
        former = dict(first)
        metadata = next(one for one in manifests if one["kind"] == "PodDisruptionBudget")["metadata"]
        common = lines_of({"metadata": metadata})
        text += [f"# {pool}", *(common if not first else difference(common, first["metadata"]))]
        for one in manifests:
            key, lines = (one["kind"], one["metadata"]["name"]), lines_of(one)
            text += [" ".join(key), *difference(lines, former.get(key) or former.get(key[0], common))]
            former[key[0]] = lines
            if pool == next(iter(made)):
                first |= {"metadata": common, key: lines, key[0]: lines}
    return "\n".join([*text, ""])


def test_children_are_those_of_the_golden_file(make_pool, make_binding):
    """Pools with many fields; test_fields.py has each field alone, as those of the other specs."""
    lookup = LookupConfig.of([make_binding("orders"), make_binding("logs", "persistent://public/default/log-.*")])
    shown = {name: SPECS[name] for name in ("minimal", "issued", "platform")}
    check_golden(
        GOLDEN, described({name: children(make_pool(**spec), lookup, SETTINGS) for name, spec in shown.items()})
    )


def test_the_same_spec_gives_the_same_pods_whatever_the_bindings(make_pool, make_binding):
    assert _template(make_pool(), LookupConfig.of([])) == _template(make_pool(), LookupConfig.of([make_binding()]))


@pytest.mark.parametrize("mark", ["2026-11-28T12:00:00+01:00", "x" * 64])
def test_the_annotation_of_a_restart_changes_the_pods_alone(pool_body, mark):
    body, lookup = pool_body(), LookupConfig.of([])
    before = children(Pool.load(body), lookup, SETTINGS)
    body["metadata"]["annotations"] = {ANNOTATION_RESTARTED_AT: mark}
    after = children(Pool.load(body), lookup, SETTINGS)
    assert [one["kind"] for one, other in zip(before, after, strict=True) if one != other] == ["StatefulSet"]
    template = find(after, "StatefulSet")["spec"]["template"]
    assert template["metadata"]["annotations"].pop(ANNOTATION_RESTARTED_AT) == mark
    assert template == find(before, "StatefulSet")["spec"]["template"]


@pytest.mark.parametrize("mark", ["x" * 65, "a b", "\n"])
def test_an_invalid_mark_of_a_restart_is_refused(pool_body, mark):
    body = pool_body()
    body["metadata"]["annotations"] = {ANNOTATION_RESTARTED_AT: mark}
    with pytest.raises(ApiSpecError, match=r"metadata\.annotations\[pulsar-readonly\.io/restartedAt\] must be 1 to 64"):
        children(Pool.load(body), LookupConfig.of([]), SETTINGS)


def test_replicas_and_explicit_lac_do_not_roll_brokers(make_pool):
    lookup = LookupConfig.of([])
    assert _template(make_pool(), lookup) == _template(make_pool(replicas=9, explicitLac={"interval": "1s"}), lookup)


@pytest.mark.parametrize(
    ("service", "outside", "target"),
    [("ClusterIP", True, "pulsar-tls"), ("LoadBalancer", True, "external-tls"), ("LoadBalancer", False, "pulsar-tls")],
)
def test_who_comes_by_a_load_balancer_is_taken_for_a_client_outside(make_pool, service, outside, target):
    listeners = {
        "plaintext": "BrokersOnly",
        "tls": {"certificate": {"secretName": "demo-tls"}},
        "service": {"type": service},
        **({"external": {"host": "{broker}.example.com"}} if outside else {}),
    }
    pool = make_pool(listeners=listeners)
    assert {port["targetPort"] for port in spec_of(made(pool), "Service")["ports"]} - {"http"} == {target}
    args = container(pool)["args"]
    listening = [args[args.index("--bind-addresses") + 1]] if outside else []
    assert listening == ["external:pulsar+ssl://*:6661"] * outside


def test_an_autoscaler_scales_the_pool_and_its_bounds_hold_at_once(make_pool):
    spec = {"autoscaling": {"minReplicas": 3, "maxReplicas": 5}}
    assert [make_pool(replicas=wanted, **spec).replicas for wanted in (0, 1, 4, 9)] == [0, 3, 4, 5]


@pytest.mark.parametrize(
    ("spec", "secrets"),
    [
        (EVERYTHING, {"reader", "reader-tls", "bookie-ca", "demo-tls", "clients", "s3", "figures"}),
        (SECURE_STORES, {"zookeeper-tls", "zookeeper-login", "bookie-login"}),
        (OAUTH2, {"oauth2"}),
        (ISSUED, {"demo-listeners-uid-of-d"}),
    ],
)
def test_nothing_of_a_secret_is_outside_of_its_volume(make_pool, spec, secrets):
    objects = made(make_pool(**spec))
    pod = spec_of(objects, "StatefulSet")["template"]["spec"]
    assert "secret" not in str(pod["containers"][0]["env"]).lower()
    assert "secret" not in str(pod["containers"][0]["args"])
    assert {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume} == secrets
    others = [one for one in objects if one["kind"] not in {"StatefulSet", "Certificate"}]
    assert "secretName" not in str(others)


def test_the_ports_of_a_pod_are_read_from_the_pod_alone(make_pool):
    """While a change rolls, old and new brokers differ."""
    trust = KeyOf(SECRET, "demo-tls", "ca.crt")
    for spec, wanted in (
        ({}, PortAccess()),
        (EVERYTHING, PortAccess(tls=True, token=KeyOf(SECRET, "figures", "jwt"), trust=trust)),
        ({**EVERYTHING, "http": {"tls": True}}, PortAccess(tls=True, trust=trust)),
    ):
        assert port_access(_template(make_pool(**spec), LookupConfig.of([]))) == wanted


def test_prometheus_verifies_the_certificate_and_sends_the_token(make_pool):
    (endpoint,) = spec_of(made(make_pool(**EVERYTHING)), "PodMonitor")["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {
        "ca": {"secret": {"name": "demo-tls", "key": "ca.crt"}},
        "serverName": "demo.team.svc.cluster.local",
    }
    assert endpoint["authorization"] == {"type": "Bearer", "credentials": {"name": "figures", "key": "jwt"}}


def test_pods_end_after_brokers_have_left_in_order(make_pool):
    template = _template(make_pool(), LookupConfig.of([]))
    assert template["spec"]["terminationGracePeriodSeconds"] >= DRAIN_TIMEOUT_S + 10


ARGUMENTS = {
    *("--config", "--bindings", "--pool", "--pool-uid", "--advertised-url", "--advertised-tls-url"),
    *("--advertised-listeners", "--bind-addresses", "--workers"),
}
"""Those of the first release."""


def test_brokers_of_the_release_before_get_new_settings_in_the_file_only(make_pool):
    for spec in SPECS.values():
        given = {one for one in container(make_pool(**spec))["args"] if one.startswith("--")}
        assert given <= ARGUMENTS, "an older image ends at an unknown argument: put a new setting into engine.yaml"
        text = find(made(make_pool(**spec)), "ConfigMap", "demo-config")["data"]["engine.yaml"]
        assert "unknown-keys: warn" in text


def test_the_engine_takes_the_configuration(make_pool, tmp_path):
    for spec in SPECS.values():
        text = find(made(make_pool(**spec)), "ConfigMap", "demo-config")
        path = tmp_path / "engine.yaml"
        path.write_text(text["data"]["engine.yaml"])
        assert is_valid(schema.document(), load_yaml(path.read_text()))
        config = make_config(read_config_file(path), {"bindings": "bindings.yaml", "advertised-url": "pulsar://a:1"})
        assert config.metadata_store_url == make_pool(**spec).source.metadata_store_url


@pytest.mark.parametrize(
    ("given", "canonical_form"),
    [
        (1, "1"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000m", "1"),
        ("1500", "1500"),
        ("2000", "2k"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("0.0001", "100u"),
        ("much", "much"),
    ],
)
def test_quantities_are_written_as_kubernetes_writes_them(given, canonical_form):
    assert canonical(given) == canonical_form


def test_brokers_run_as_any_user_and_can_read_their_files(make_pool):
    """OpenShift's restricted-v2 gives each namespace its own users and groups, and rejects fixed ones."""
    pod = _template(make_pool(**EVERYTHING), LookupConfig.of([]))["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert "runAsUser" not in pod["containers"][0]["securityContext"]
    modes = {volume["secret"]["defaultMode"] for volume in pod["volumes"] if "secret" in volume}
    assert modes == {0o444}, "the user's group is unknown"


@pytest.mark.parametrize(
    ("spec", "resources"),
    [
        ({}, {"requests": {"cpu": "250m", "memory": "512Mi"}}),
        ({"cache": {"size": "1Gi"}}, {"requests": {"cpu": "250m", "memory": "1280Mi"}}),
        ({"tieredStorage": {}}, {"requests": {"cpu": "250m", "memory": "576Mi"}}),
        ({"tieredStorage": {"cacheSize": "256Mi"}}, {"requests": {"cpu": "250m", "memory": "768Mi"}}),
        ({"resources": {"requests": {"cpu": 1}}}, {"requests": {"cpu": "1", "memory": "512Mi"}}),
        (
            {"resources": {"limits": {"memory": "2Gi"}}},
            {"requests": {"cpu": "250m"}, "limits": {"memory": "2Gi"}},
        ),
        (
            {"resources": {"requests": {"cpu": 0, "memory": "0"}}},
            {"requests": {"cpu": "0", "memory": "0"}},
        ),
    ],
)
def test_brokers_request_what_they_need_unless_the_spec_says_otherwise(make_pool, spec, resources):
    assert container(make_pool(**spec))["resources"] == resources


def test_only_the_operators_own_pods_are_the_operator_to_a_network_policy(make_pool):
    def peers(settings):
        pool = make_pool(networkPolicy={"monitoring": [{"podSelector": {}}]})
        return find(children(pool, LookupConfig.of([]), settings), "NetworkPolicy")["spec"]["ingress"][2]["from"]

    assert peers(SETTINGS)[:-1] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "pulsar-readonly-system"}},
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "pulsar-readonly-operator"}},
        }
    ]
    assert peers(Settings(engine_image="x")) == [{"podSelector": {}}], "outside of a pod it has no labels"


def test_a_pool_without_an_image_is_an_error_where_the_operator_has_none(make_pool):
    with pytest.raises(ApiSpecError, match=r"^spec\.image is missing.* --engine-image$"):
        children(make_pool(), LookupConfig.of([]), Settings())
    template = _template(make_pool(image="mine:1"), LookupConfig.of([]), Settings())
    assert template["spec"]["containers"][0]["image"] == "mine:1"


def test_brokers_advertise_themselves_under_the_cluster_domain(make_pool):
    template = _template(make_pool(), LookupConfig.of([]), Settings(engine_image="x", cluster_domain="corp.example"))
    args = template["spec"]["containers"][0]["args"]
    assert args[args.index("--advertised-url") + 1] == (
        "pulsar://$(POD_NAME).demo-headless.$(POD_NAMESPACE).svc.corp.example:6650"
    )


def test_lookup_config_does_not_depend_on_order(make_binding):
    one, two = make_binding("a", "persistent://x/y/1", "persistent://x/y/2"), make_binding("b")
    swapped = make_binding("a", "persistent://x/y/2", "persistent://x/y/1")
    assert LookupConfig.of([one, two]) == LookupConfig.of([two, swapped])


def test_a_binding_of_another_namespace_decides_nothing_for_the_pools_own():
    """Brokers take tail and cursors of the first binding of a topic that names them."""
    topic = ("persistent://x/y/1",)
    guest, own = Entry("a-guest/all", topic, cursors="Local"), Entry("team/mine", topic, cursors="Owner")
    for entries in ([guest, own], [own, guest]):
        assert LookupConfig.of_entries(entries, "team").bindings == (own, guest)
    assert LookupConfig.of_entries([own, guest], "a-guest").bindings == (guest, own)
    assert LookupConfig.of_entries([own], "team") == LookupConfig.of_entries([own]), "one namespace: as before"


def test_lookup_revision_is_stable_across_versions(make_binding):
    # brokers of a running pool must not be told of a new revision by a mere upgrade of the operator
    assert LookupConfig.of([]).revision == "r4f53cda18c2baa0c"
    assert LookupConfig.of([make_binding()]).revision == "r163207c9589c0fc5"


def certificate(pool: Pool, brokers: dict[int, int] | None = None) -> dict:
    return find(children(pool, LookupConfig.of([]), SETTINGS, brokers), "Certificate", "demo-listeners")["spec"]


def test_a_certificate_names_each_broker_outside_where_no_wildcard_can(make_pool):
    inside = ["demo.team.svc.cluster.local", "*.demo-headless.team.svc.cluster.local"]
    issuer = {"issuerRef": {"name": "ca"}}
    for host, names in {
        "{broker}.example.com": ["*.example.com"],
        "pulsar-{broker}.example.com": [f"pulsar-demo-{number}.example.com" for number in (0, 1, 5)],
        "{broker}": ["demo-0", "demo-1", "demo-5"],
    }.items():
        pool = make_pool(replicas=2, listeners={"tls": issuer, "external": {"host": host}})
        assert certificate(pool, {5: 1})["dnsNames"] == inside + names
    ports = {"type": "NodePort", "nodePorts": {"first": 30000}}
    for host, names in {"{node}.example.com": ["*.example.com"], "n-{node}.example.com": [], "": []}.items():
        external = {**ports, **({"host": host} if host else {})}
        assert certificate(make_pool(listeners={"tls": issuer, "external": external}))["dnsNames"] == inside + names
    pool = make_pool(listeners={"tls": {**issuer, "dnsNames": ["demo.team.svc.cluster.local"]}})
    assert certificate(pool)["dnsNames"] == inside
