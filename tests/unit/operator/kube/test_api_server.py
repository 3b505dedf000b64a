"""What is asked of an API server, on the wire."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from readonly_operator.kube.api_server import ApiServer, KubeError, missing_kinds
from readonly_operator.kube.kinds import BINDING, POD, POD_MONITOR, POOL
from readonly_operator.kube.names import OPERATOR

from tests.support.played_http import played_http

SERVED = ("readonlybrokerpools", "readonlytopicbindings")
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Requests to an API server that serves two kinds, of which there are many objects, and takes the patch of one pod."""
    requests = []

    def answer(request):
        requests.append(request)
        path = urlsplit(request.path).path
        if request.method == "PATCH":
            return (200 if "/demo-0/" in path else 404), json.loads(request.body), JSON
        status = (403 if "secret" in path else 200) if path.endswith(SERVED) else 404
        return status, {"items": [], "message": "no"}, JSON

    with played_http(answer) as port:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {}}],
        }
        path = tmp_path / "config"
        path.write_text(json.dumps(config))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
        yield requests


def test_whether_kinds_are_served_is_found_out_without_listing_them(asked):
    kube = ApiServer(timeout_seconds=30)
    assert missing_kinds(kube, (POOL, BINDING, POD_MONITOR), "team") == [POD_MONITOR]
    assert len(asked) == 3
    for request in asked:
        url = urlsplit(request.path)
        assert "/namespaces/team/" in url.path
        assert parse_qs(url.query)["limit"] == ["1"]


@pytest.mark.usefixtures("asked")
def test_a_kind_that_may_not_be_listed_is_not_called_missing():
    with pytest.raises(KubeError, match="no"):
        missing_kinds(ApiServer(timeout_seconds=30), (POOL,), "secret")


def test_a_pod_is_annotated_through_its_status_which_changes_no_container(asked):
    """The right to patch pods would be one to change the image of every pod."""
    kube = ApiServer(timeout_seconds=30)
    patch = {"metadata": {"annotations": {"a": "b"}}}
    assert kube.annotate(POD, "team", "demo-0", {"a": "b"}) == patch
    assert kube.annotate(POD, "team", "gone", {"a": "b"}) is None
    request, url = asked[0], urlsplit(asked[0].path)
    assert url.path == "/api/v1/namespaces/team/pods/demo-0/status"
    assert parse_qs(url.query)["fieldManager"] == [OPERATOR]
    assert (request.headers["Content-Type"], json.loads(request.body)) == ("application/merge-patch+json", patch)
