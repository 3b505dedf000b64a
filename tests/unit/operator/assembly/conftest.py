"""An API server, and all that a reconcile depends on."""

import copy
import datetime as dt
from typing import Any

import pytest
from readonly_operator.assembly.brokers import Brokers
from readonly_operator.assembly.context import Context
from readonly_operator.assembly.locality import LocalityAnnotator
from readonly_operator.assembly.lookup_history import LookupHistory
from readonly_operator.assembly.rollouts import RolloutBudget
from readonly_operator.assembly.status_throttle import StatusThrottle
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.cluster.broker_ports import BrokerPorts
from readonly_operator.cluster.explicit_lac.controller import Report
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.apply import Applier
from readonly_operator.kube.events import Recorder
from readonly_operator.kube.store import Store
from readonly_operator.settings import Settings

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


class Server:
    """An API server that takes statuses, and nothing else where it is told so."""

    def __init__(self):
        self.objects: dict[tuple[str, str], Any] = {}
        self.refuses = True
        self.refuses_patches = True
        self.deleted = []
        self.versions = 100

    def get(self, kind, namespace, name):
        return self.objects.get((kind.kind, name))

    def apply(self, manifest):
        if self.refuses and manifest["kind"] != "Event":
            raise KubeError("exceeded quota", 403)
        return self._keep(manifest)

    def apply_status(self, manifest):
        return self._keep(
            {**self.objects[manifest["kind"], manifest["metadata"]["name"]], "status": manifest["status"]}
        )

    def annotate(self, kind, namespace, name, annotations):
        raise KubeError(f'pods "{name}" is forbidden', 403)

    def delete(self, manifest):
        self.deleted.append(manifest["metadata"]["name"])

    def merge(self, manager, kind, namespace, name, patch):
        if self.refuses_patches:
            raise KubeError("forbidden", 403)
        body = copy.deepcopy(self.objects[kind.kind, name])
        if "spec" in patch:
            assert patch["metadata"] == {"resourceVersion": body["metadata"]["resourceVersion"]}
            return self._keep({**body, "spec": {**body["spec"], **patch["spec"]}})
        body["metadata"]["finalizers"] = patch["metadata"]["finalizers"]
        if "deletionTimestamp" in body["metadata"] and not body["metadata"]["finalizers"]:
            return self.objects.pop((kind.kind, name)) and body
        return self._keep(body)

    def add(self, body):
        return self._keep(body)

    def _keep(self, manifest):
        self.versions += 1
        body = copy.deepcopy(manifest)
        body["metadata"] = {"uid": body["metadata"]["name"], **body["metadata"], "resourceVersion": str(self.versions)}
        self.objects[body["kind"], body["metadata"]["name"]] = body
        return body

    def status(self, kind, name):
        return self.objects[kind.kind, name]["status"]


class Silent:
    """Checks of source clusters that have found nothing yet."""

    def report(self, _):
        return None


class Managed:
    """Management of explicit LAC that has done nothing in this process."""

    def report(self, _):
        return Report()


class Tracked:
    """Work at source clusters that the test does itself.

    Attributes:
        tracked: items by pool.
        reports: reports of every pool.
    """

    def __init__(self):
        self.tracked = {}
        self.reports = {}

    def track(self, pool, subjects):
        self.tracked[pool] = subjects

    def report(self, _):
        return self.reports


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def context(server):
    store = Store(BindingTopicIndex())
    brokers = Brokers(server, store, 1, BrokerPorts(server))
    yield Context(
        kube=server,
        store=store,
        applier=Applier(server, store),
        brokers=brokers,
        locality_annotator=LocalityAnnotator(server, store),
        sources=Silent(),
        lac=Managed(),
        registrations=Managed(),
        probes=Silent(),
        cursor_checks=Tracked(),
        cursor_releases=Tracked(),
        lookup_history=LookupHistory(),
        status_throttle=StatusThrottle(),
        rollouts=RolloutBudget(store, 1),
        events=Recorder(server, lambda: NOON),
        settings=Settings(engine_image="engine"),
        now=lambda: NOON,
    )
    brokers.close()


@pytest.fixture
def put(server, context):
    def make(kind, body, **status):
        body = {**body, "status": status} if status else body
        context.store.put(kind, server.add(body))

    return make
