"""Structure of other projects' kinds, as far as the examples use them: required and known fields of their specs.

The definitions of these kinds are not at hand. The API server checks an example instead where it knows the kind.
"""

from typing import Any

KINDS: dict[tuple[str, str], tuple[set[str], set[str]]] = {
    ("argoproj.io/v1alpha1", "Application"): (
        {"project", "destination", "source"},
        {"syncPolicy"},
    ),
    ("source.toolkit.fluxcd.io/v1", "GitRepository"): ({"interval", "url"}, {"ref"}),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"): (
        {"interval", "prune", "sourceRef"},
        {
            *("deletionPolicy", "dependsOn", "healthCheckExprs", "healthChecks", "images", "patches", "path"),
            *("targetNamespace", "timeout", "wait"),
        },
    ),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"): (
        {"type", "sparkVersion", "driver", "executor"},
        {
            *("arguments", "image", "mainApplicationFile", "mode", "pythonVersion", "restartPolicy", "sparkConf"),
            "volumes",
        },
    ),
    ("cert-manager.io/v1", "Certificate"): (
        {"secretName", "issuerRef", "dnsNames"},
        {"duration", "renewBefore", "privateKey", "usages"},
    ),
    ("external-secrets.io/v1", "ExternalSecret"): ({"secretStoreRef", "target", "data"}, {"refreshInterval"}),
    ("keda.sh/v1alpha1", "ScaledObject"): (
        {"scaleTargetRef", "triggers"},
        {"minReplicaCount", "maxReplicaCount", "pollingInterval", "advanced"},
    ),
    ("monitoring.coreos.com/v1", "PodMonitor"): ({"selector", "podMetricsEndpoints"}, {"namespaceSelector"}),
    ("monitoring.coreos.com/v1", "PrometheusRule"): ({"groups"}, set()),
}
"""Required and other known fields of the spec, by apiVersion and kind."""


def faults(body: dict[str, Any]) -> list[str]:
    """What is wrong with an object of another project's kind.

    Raises:
        KeyError: the kind is in no example yet: add its fields above.
    """
    required, optional = KINDS[body["apiVersion"], body["kind"]]
    spec = body["spec"]
    found = [f"spec.{name}: required" for name in sorted(required - set(spec))]
    found += [f"spec.{name}: unknown" for name in sorted(set(spec) - required - optional)]
    return found + [f"metadata.{name}: required" for name in ("name",) if not body["metadata"].get(name)]
