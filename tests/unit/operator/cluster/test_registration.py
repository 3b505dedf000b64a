"""A pool's entry in the source cluster's metadata: made, mended, removed, and never taken from somebody else."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import quote

import pytest
from readonly_operator.api.reader import ApiSpecError
from readonly_operator.assembly.finalizer import needs_finalizer
from readonly_operator.bindings.topic_index import BindingTopicIndex
from readonly_operator.cluster.fetch import ANONYMOUS
from readonly_operator.cluster.registration import Entry, RegistrationController, Step, step
from readonly_operator.kube.kinds import POOL
from readonly_operator.kube.names import FINALIZER_WRITER
from readonly_operator.kube.store import Store

HOST = "demo.team.svc.cluster.local"
OURS = {"serviceUrl": f"http://{HOST}:8080", "brokerServiceUrl": f"pulsar://{HOST}:6650"}
THEIRS = {"serviceUrl": "http://b:8080", "brokerServiceUrl": "pulsar://b:6650"}


@pytest.fixture
def entry(make_pool):
    return Entry.of(make_pool(lookup={"clusterName": "readers"}), "cluster.local")


def test_the_entry_names_what_clients_use(entry):
    assert entry.name == "readers"
    assert entry.data() == OURS


@pytest.mark.parametrize("name", [".", "..", "...", "a/b", ""])
def test_a_name_that_leads_elsewhere_in_a_url_is_no_name(make_pool, name):
    if not name:
        assert make_pool(lookup={"clusterName": name}).lookup.cluster_name == ""
        return
    with pytest.raises(
        ApiSpecError, match=r"spec\.lookup\.clusterName must be a name as Pulsar allows it for clusters"
    ):
        make_pool(lookup={"clusterName": name})


class Admin(BaseHTTPRequestHandler):
    """An admin API that knows no cluster and takes every one."""

    asked: ClassVar[list[str]] = []

    def do_GET(self):
        self._answer(404)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(204)

    def _answer(self, status):
        self.asked.append(f"{self.command} {self.path}")
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("name", ["a..b", "eu:west=1"])
def test_a_name_is_one_part_of_the_path(pool_body, name):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Admin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    body = pool_body(lookup={"clusterName": name})
    body["spec"]["source"]["adminUrl"] = f"http://127.0.0.1:{server.server_port}"
    body["metadata"]["finalizers"] = [FINALIZER_WRITER]
    store = Store(BindingTopicIndex())
    store.put(POOL, body)
    RegistrationController(store, "cluster.local", 60, lambda: None, lambda _: None, lambda _: ANONYMOUS).sync()
    server.shutdown()
    server.server_close()
    path = f"/admin/v2/clusters/{quote(name, safe='')}"
    assert Admin.asked[-2:] == [f"GET {path}", f"PUT {path}"]


def test_a_pool_wants_none_unless_it_says_so(make_pool):
    assert Entry.of(make_pool(), "cluster.local") is None


@pytest.mark.parametrize(
    ("found", "staying", "leaving"),
    [
        (None, Step.CREATE, Step.NOTHING),
        (OURS, Step.NOTHING, Step.DELETE),
        ({**OURS, "peerClusterNames": ["other"]}, Step.NOTHING, Step.DELETE),
        ({**OURS, "serviceUrl": "http://old:8080"}, Step.UPDATE, Step.DELETE),
        (THEIRS, Step.TAKEN, Step.NOTHING),
        ({}, Step.TAKEN, Step.NOTHING),
    ],
)
def test_what_is_done(entry, found, staying, leaving):
    assert step(entry, found, leaving=False) is staying
    assert step(entry, found, leaving=True) is leaving


@pytest.mark.parametrize(
    ("spec", "has_finalizer"),
    [
        ({}, False),
        ({"lookup": {"clusterName": "readers"}}, True),
        ({"explicitLac": {"management": "Verify", "onDeletion": "Restore"}}, False),
    ],
)
def test_only_pools_that_leave_something_behind_are_held(make_pool, spec, has_finalizer):
    assert needs_finalizer(make_pool(**spec)) is has_finalizer


@pytest.mark.parametrize(("policy", "has_finalizer"), [("Keep", False), ("Restore", True)])
def test_managing_explicit_lac_holds_a_pool_that_is_to_restore(make_pool, policy, has_finalizer):
    target = {"configMap": {"name": "c"}, "statefulSet": {"name": "s"}}
    assert (
        needs_finalizer(make_pool(explicitLac={"management": "Manage", "target": target, "onDeletion": policy}))
        is has_finalizer
    )
