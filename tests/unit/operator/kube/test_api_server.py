"""What is asked of an API server, on the wire."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from readonly_operator.kube.api_server import ApiServer, KubeError, missing_kinds
from readonly_operator.kube.kinds import BINDING, POD, POD_MONITOR, POOL
from readonly_operator.kube.names import OPERATOR

SERVED = ("readonlybrokerpools", "readonlytopicbindings")


class Api(BaseHTTPRequestHandler):
    """Serves two kinds, of which there are many objects."""

    def do_GET(self):
        url = urlsplit(self.path)
        self.server.asked.append((url.path, parse_qs(url.query)))
        status = 404
        if url.path.endswith(SERVED):
            status = 403 if "secret" in url.path else 200
        body = json.dumps({"items": [], "message": "no"}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PATCH(self):
        """Take the patch of one pod; there is no other."""
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((url.path, parse_qs(url.query), self.headers["Content-Type"], json.loads(body)))
        self.send_response(200 if "/demo-0/" in url.path else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def api(tmp_path, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    yield server
    server.shutdown()
    server.server_close()


def test_whether_kinds_are_served_is_found_out_without_listing_them(api):
    kube = ApiServer(timeout_seconds=30)
    assert missing_kinds(kube, (POOL, BINDING, POD_MONITOR), "team") == [POD_MONITOR]
    assert len(api.asked) == 3
    for path, query in api.asked:
        assert "/namespaces/team/" in path
        assert query["limit"] == ["1"]


def test_a_kind_that_may_not_be_listed_is_not_called_missing(api):
    with pytest.raises(KubeError, match="no"):
        missing_kinds(ApiServer(timeout_seconds=30), (POOL,), "secret")


def test_a_pod_is_annotated_through_its_status_which_changes_no_container(api):
    """The right to patch pods would be one to change the image of every pod."""
    kube = ApiServer(timeout_seconds=30)
    patch = {"metadata": {"annotations": {"a": "b"}}}
    assert kube.annotate(POD, "team", "demo-0", {"a": "b"}) == patch
    assert kube.annotate(POD, "team", "gone", {"a": "b"}) is None
    path, query, content_type, body = api.asked[0]
    assert path == "/api/v1/namespaces/team/pods/demo-0/status"
    assert query["fieldManager"] == [OPERATOR]
    assert (content_type, body) == ("application/merge-patch+json", patch)
