"""Where brokers are: from labels of their pods, else of their nodes."""

import logging

import pytest
from readonly_operator.assembly.locality import CACHE_TTL_SECONDS, LocalityAnnotator, locality_path
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.kinds import NODE
from readonly_operator.kube.store import Store

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


@pytest.mark.parametrize(
    ("labels", "pod", "node", "found"),
    [
        ((ZONE,), {}, {ZONE: "a"}, "/a"),
        ((REGION, ZONE), {}, {ZONE: "a", REGION: "eu"}, "/eu/a"),
        ((REGION, ZONE), {ZONE: "b"}, {ZONE: "a", REGION: "eu"}, "/eu/b"),
        ((REGION, ZONE), {}, {ZONE: "a"}, ""),
        ((), {ZONE: "a"}, {ZONE: "a"}, ""),
    ],
)
def test_places(labels, pod, node, found):
    assert locality_path(labels, pod, node) == found


class Refusing:
    """An API server that lets one pod be annotated, and not the others."""

    def __init__(self, status):
        self.status = status
        self.annotated = []

    def annotate(self, kind, namespace, name, annotations):
        if name != "demo-1":
            raise KubeError(f"{name} may not be changed", self.status)
        self.annotated.append(name)


def test_a_pod_that_may_not_be_annotated_keeps_no_other_from_it():
    kube = Refusing(403)
    pods = [pod(f"demo-{ordinal}", labels={ZONE: "a"}) for ordinal in range(3)]
    locality_annotator = LocalityAnnotator(kube, Store(BindingTopicIndex()))
    assert locality_annotator.annotate(pods, [ZONE]) == [
        "demo-0 may not be changed",
        "demo-2 may not be changed",
    ]
    assert kube.annotated == ["demo-1"]
    with pytest.raises(KubeError):
        LocalityAnnotator(Refusing(500), Store(BindingTopicIndex())).annotate(pods, [ZONE])


class Recording:
    """An API server with one node, which notes what it is asked."""

    def __init__(self, labels=None):
        self.labels = labels
        self.reachable = []
        self.annotated = []

    def get(self, kind, namespace, name):
        self.reachable.append((kind, name))
        if self.labels is None:
            raise KubeError("nodes is forbidden", 403)
        return {"metadata": {"name": name, "labels": self.labels}}

    def annotate(self, kind, namespace, name, annotations):
        self.annotated.append((name, annotations))


def pod(name, node="node1", labels=None, annotations=None):
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "namespace": "team",
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {"nodeName": node} if node else {},
    }


def test_a_node_is_asked_once_and_each_pod_told_once():
    kube = Recording({ZONE: "a"})
    locality_annotator = LocalityAnnotator(kube, Store(BindingTopicIndex()))
    there = {"pulsar-readonly.io/locality": "/a"}
    locality_annotator.annotate(
        [pod("demo-0"), pod("demo-1"), pod("demo-2", annotations=there), pod("demo-3", node="")], [ZONE]
    )
    assert kube.reachable == [(NODE, "node1")]
    assert kube.annotated == [("demo-0", there), ("demo-1", there)]


@pytest.mark.parametrize("labels", [[ZONE], []])
def test_no_node_is_asked_where_kubernetes_has_told_the_pod_or_places_are_off(labels):
    kube = Recording({ZONE: "wrong"})
    LocalityAnnotator(kube, Store(BindingTopicIndex())).annotate([pod("demo-0", labels={ZONE: "a"})], labels)
    assert kube.reachable == []
    assert kube.annotated == [("demo-0", {"pulsar-readonly.io/locality": "/a"})] * len(labels)


def test_without_the_right_to_read_nodes_brokers_just_do_not_know(caplog):
    kube = Recording(None)
    locality_annotator = LocalityAnnotator(kube, Store(BindingTopicIndex()))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            locality_annotator.annotate([pod("demo-0")], [ZONE])
    assert kube.reachable == [(NODE, "node1")]
    assert kube.annotated == []
    assert len(caplog.records) == 1


def test_a_node_is_asked_again_after_a_while_and_where_it_lacks_a_label_for_each_new_pod():
    kube, now = Recording({}), [0.0]
    locality_annotator = LocalityAnnotator(kube, Store(BindingTopicIndex()), lambda: now[0])
    for at, name, labels, annotated in (
        (0.0, "demo-0", {}, None),
        (1.0, "demo-0", {ZONE: "a"}, None),
        (2.0, "demo-1", {ZONE: "a"}, "/a"),
        (CACHE_TTL_SECONDS, "demo-1", {ZONE: "b"}, "/a"),
        (CACHE_TTL_SECONDS + 3.0, "demo-1", {ZONE: "b"}, "/b"),
    ):
        now[0], kube.labels = at, labels
        locality_annotator.annotate([pod(name)], [ZONE])
        lookup_history = [annotations["pulsar-readonly.io/locality"] for _, annotations in kube.annotated]
        assert (lookup_history or [None])[-1] == annotated, at
    assert len(kube.reachable) == 3
