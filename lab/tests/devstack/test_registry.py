"""The registry of `make -C lab test-release`: its configuration, its log, and the files by which containerd finds it."""

import tomllib
from pathlib import Path

import pytest

from devstack.errors import DevstackError
from devstack.kube import configs, registry_hosts
from devstack.kube.layout import Layout
from devstack.registry.program import SOURCE
from devstack.registry.server import Registry, Request, configuration, requests_in

LOG = """
time="2026-11-26T12:00:00Z" level=warning msg="No HTTP secret provided"
10.202.0.2 - - [26/Nov/2026:12:00:01 +0000] "HEAD /v2/team/a/manifests/0.1.0 HTTP/1.1" 200 491 "" "containerd/v2.3.7"
10.202.0.2 - - [26/Nov/2026:12:00:01 +0000] "GET /v2/team/a/blobs/sha256:ab HTTP/1.1" 200 173 "" "containerd/v2.3.7"
10.202.0.1 - - [26/Nov/2026:12:00:01 +0000] "GET /v2/ HTTP/1.1" 200 2 "" "Buildah/1.28.2"
10.202.0.1 - - [26/Nov/2026:12:00:01 +0000] "GET /other HTTP/1.1" 404 19 "" "containerd/v2.3.7"
"""


def test_the_log_has_the_requests_of_the_api():
    assert list(requests_in(LOG)) == [
        Request("HEAD", "/v2/team/a/manifests/0.1.0", 200, "containerd/v2.3.7"),
        Request("GET", "/v2/team/a/blobs/sha256:ab", 200, "containerd/v2.3.7"),
        Request("GET", "/v2/", 200, "Buildah/1.28.2"),
    ]


def test_it_listens_on_one_address_and_keeps_images_in_its_folder():
    made = configuration("10.202.0.1", 15000, Path("/cache/data"))
    assert made["http"] == {"addr": "10.202.0.1:15000"}
    assert made["storage"]["filesystem"] == {"rootdirectory": "/cache/data"}
    assert made["log"]["accesslog"] == {"disabled": False}, "the walk reads the requests"


def test_the_program_is_pinned():
    assert "require github.com/distribution/distribution/v3 v3." in (SOURCE / "go.mod").read_text()
    assert "github.com/distribution/distribution/v3 v3." in (SOURCE / "go.sum").read_text()


def test_a_registry_that_does_not_run_is_not_ready():
    assert not Registry("none", "127.0.0.1", 1).ready()


def test_containerd_reads_the_folder_of_its_own_node():
    node = Layout(Path("/cache/kube")).nodes(2)[1]
    parts = configs.RuntimeParts(cni=Path("/cni"), runc=Path("/runc"), pause="pause:1")
    made = tomllib.loads(configs.containerd(node, parts))["plugins"]["io.containerd.cri.v1.images"]
    assert made["registry"] == {"config_path": "/cache/kube/state/node2/registries"}
    assert made["snapshotter"] == "overlayfs"


def test_hosts_are_added_to_each_node_and_removed_alone(tmp_path):
    nodes = Layout(tmp_path).nodes(2)
    registry_hosts.add(nodes, "10.200.0.1:15000", "http://10.200.0.1:15000")
    registry_hosts.add(nodes, "other:1", "https://other:1")
    for node in nodes:
        made = tomllib.loads((registry_hosts.folder(node) / "10.200.0.1:15000" / "hosts.toml").read_text())
        assert made["server"] == "http://10.200.0.1:15000"
        assert made["host"] == {"http://10.200.0.1:15000": {"capabilities": ["pull", "resolve"]}}
    registry_hosts.remove(nodes, "10.200.0.1:15000")
    registry_hosts.remove(nodes, "10.200.0.1:15000")
    assert [path.name for path in registry_hosts.folder(nodes[0]).iterdir()] == ["other:1"]
    with pytest.raises(DevstackError, match="no node runs"):
        registry_hosts.add([], "other:1", "https://other:1")
