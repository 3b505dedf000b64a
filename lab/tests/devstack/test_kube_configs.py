import ipaddress
import json
import tomllib
from itertools import combinations
from pathlib import Path

import pytest

from devstack.errors import DevstackError
from devstack.kube import configs, preflight, programs
from devstack.kube.layout import Layout, Network, check_node_count, default_layout
from devstack.kube.manifest import fill

LAYOUT = Layout(Path("/cache/kube"))


def test_nodes_have_their_own_names_addresses_and_sockets() -> None:
    nodes = LAYOUT.nodes(3)
    assert [node.name for node in nodes] == ["node1", "node2", "node3"]
    assert [node.address for node in nodes] == ["10.200.0.2", "10.200.0.3", "10.200.0.4"]
    assert str(nodes[1].socket) == "/cache/kube/state/node2/run/containerd/containerd.sock"


def test_running_nodes_are_those_with_a_record_in_order(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.processes.mkdir(parents=True)
    for name in ("node10-init", "node2-init", "node2-kubelet", "etcd"):
        (layout.processes / f"{name}.json").write_text("{}")
    assert [node.number for node in layout.running_nodes()] == [2, 10]


def test_each_cache_folder_has_its_own_cgroup() -> None:
    assert LAYOUT.cgroup == Layout(Path("/cache/kube")).cgroup
    assert LAYOUT.cgroup != Layout(Path("/other/kube")).cgroup


def test_clusters_of_one_machine_share_neither_networks_nor_folders() -> None:
    layouts = [LAYOUT, *LAYOUT.others]
    assert len(layouts) == 4 * 2 * 2
    networks = [ipaddress.ip_network(net) for one in layouts if not one.release for net in one.network.all]
    assert not [(a, b) for a, b in combinations(networks, 2) if a.version == b.version and a.overlaps(b)]
    for of in (lambda one: one.state, lambda one: one.cgroup, lambda one: one.kubeconfig):
        assert len({of(one) for one in layouts}) == len(layouts)
    assert len({one.network.link for one in layouts}) == len(layouts) / 2  # clusters of two releases do not run at once
    assert {one.bin for one in layouts} == {LAYOUT.bin}
    second = Layout(LAYOUT.root, 2)
    assert second.nodes(2)[1].address == "10.201.0.3"
    assert "--service-cluster-ip-range=10.97.0.0/16" in configs.apiserver(second, second.nodes(1)[0])
    assert "--cluster-cidr=10.245.0.0/16" in configs.controller_manager(second)


def test_a_cluster_of_ipv6_has_no_other_address() -> None:
    layout = Layout(Path("/cache/kube"), 2, ipv6=True)
    first, second = layout.nodes(2)
    networks = [ipaddress.ip_network(one) for one in layout.network.all]
    assert [one.version for one in networks] == [6, 6, 6]
    assert second.address == "fd70:7264:2::3"
    assert (layout.network.host, layout.network.api_service) == ("fd70:7264:2::1", "fd70:7264:2:200::1")
    server = configs.apiserver(layout, first)
    assert {"--bind-address=::", f"--advertise-address={first.address}"} <= set(server)
    assert "--service-cluster-ip-range=fd70:7264:2:200::/112" in server
    assert {"--cluster-cidr=fd70:7264:2:100::/56", "--node-cidr-mask-size=64"} <= set(
        configs.controller_manager(layout)
    )
    kubelet, proxy = (json.loads(made(layout, first)) for made in (configs.kubelet, configs.kube_proxy))
    assert (kubelet["address"], kubelet["clusterDNS"]) == ("::", ["fd70:7264:2:200::a"])
    assert (proxy["bindAddress"], proxy["nodePortAddresses"]) == (first.address, [f"{first.address}/128"])
    (bridge, _) = json.loads(configs.cni(layout.network, "fd70:7264:2:100::/64"))["plugins"]
    assert bridge["ipam"]["routes"] == [{"dst": "::/0"}]


@pytest.mark.parametrize(("given", "ipv6"), [(None, False), ("ipv4", False), ("ipv6", True)])
def test_the_family_of_a_cluster(monkeypatch: pytest.MonkeyPatch, given: str | None, *, ipv6: bool) -> None:
    if given is None:
        monkeypatch.delenv("PULSAR_READONLY_KUBE_FAMILY", raising=False)
    else:
        monkeypatch.setenv("PULSAR_READONLY_KUBE_FAMILY", given)
    assert default_layout().ipv6 == ipv6


def test_the_oldest_release_has_a_state_and_a_feature_gate_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULSAR_READONLY_KUBE", raising=False)
    monkeypatch.setenv("PULSAR_READONLY_KUBE_RELEASE", "1.30")
    layout = default_layout()
    assert (layout.release, layout.state.name, layout.bin) == ("1.30", "state-1.30", Layout(layout.root).bin)
    gates = [
        json.loads(configs.kube_proxy(one, one.nodes(1)[0]))["featureGates"] for one in (layout, Layout(layout.root))
    ]
    assert gates == [{"NFTablesProxyMode": True}, {}]
    assert programs.OLDEST_KUBE.version().startswith("v1.30.")
    monkeypatch.setenv("PULSAR_READONLY_KUBE_RELEASE", "1.29")
    with pytest.raises(DevstackError, match=r"RELEASE must be 1.30, or unset for the newest, not '1.29'"):
        default_layout()


@pytest.mark.parametrize("given", ["6", "IPv6", ""])
def test_another_family_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("PULSAR_READONLY_KUBE_FAMILY", given)
    with pytest.raises(DevstackError, match=f"PULSAR_READONLY_KUBE_FAMILY must be ipv4 or ipv6, not '{given}'"):
        default_layout()


@pytest.mark.parametrize("given", ["0", "5", "x", ""])
def test_the_number_of_a_cluster_is_checked(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("PULSAR_READONLY_KUBE", "2")
    assert default_layout().number == 2
    monkeypatch.setenv("PULSAR_READONLY_KUBE", given)
    with pytest.raises(DevstackError, match=f"PULSAR_READONLY_KUBE must be a number from 1 to 4, not '{given}'"):
        default_layout()


@pytest.mark.parametrize("count", [0, -1, 10])
def test_a_node_count_out_of_range_is_named(count: int) -> None:
    with pytest.raises(DevstackError, match=f"--nodes must be between 1 and 9, not {count}"):
        check_node_count(count)


def test_containerd_configuration_is_toml_and_names_the_parts() -> None:
    parts = configs.RuntimeParts(cni=Path("/b/cni"), runc=Path("/usr/sbin/runc"), pause="localhost/pause:1")
    config = tomllib.loads(configs.containerd(LAYOUT.nodes(1)[0], parts))
    plugins = config["plugins"]
    assert plugins["io.containerd.cri.v1.images"]["pinned_images"]["sandbox"] == "localhost/pause:1"
    assert plugins["io.containerd.cri.v1.runtime"]["cni"]["bin_dirs"] == ["/b/cni"]
    options = plugins["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]["runc"]["options"]
    assert options == {"BinaryName": "/usr/sbin/runc", "SystemdCgroup": False}


def test_kubelet_puts_pods_under_the_clusters_cgroup() -> None:
    config = json.loads(configs.kubelet(LAYOUT, LAYOUT.nodes(2)[1]))
    assert config["cgroupRoot"] == f"/{LAYOUT.cgroup}/node2"
    assert config["failCgroupV1"] is False


def test_cni_gives_pods_addresses_of_the_node() -> None:
    config = json.loads(configs.cni(LAYOUT.network, "10.244.3.0/24"))
    assert config["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.3.0/24"}]]


def test_dns_answer_counts_only_for_its_own_question_and_address() -> None:
    query = configs.dns_query("a.bc", 0x1234)
    assert query.endswith(b"\x01a\x02bc\x00\x00\x01\x00\x01")
    answer = b"\x12\x34\x81\x80" + query[4:] + bytes([10, 96, 0, 1])
    assert configs.dns_says(answer, 0x1234, "10.96.0.1")
    assert not configs.dns_says(answer, 0x1235, "10.96.0.1")
    assert not configs.dns_says(answer, 0x1234, "10.96.0.2")
    refused = answer[:3] + b"\x83" + answer[4:]
    assert not configs.dns_says(refused, 0x1234, "10.96.0.1")


def test_a_dns_answer_of_ipv6() -> None:
    query = configs.dns_query("a.bc", 0x1234, ipv6=True)
    assert query.endswith(b"\x01a\x02bc\x00\x00\x1c\x00\x01")
    answer = b"\x12\x34\x81\x80" + query[4:] + ipaddress.ip_address("fd00::1").packed
    assert configs.dns_says(answer, 0x1234, "fd00::1")
    assert not configs.dns_says(answer, 0x1234, "fd00::2")


def test_fill_leaves_what_kubernetes_fills_in() -> None:
    assert fill("${A}-$(POD)-$1-${B}", A=1, B="two") == "1-$(POD)-$1-two"
    with pytest.raises(KeyError, match="C"):
        fill("${C}")


def test_module_version_reads_both_forms_of_require() -> None:
    go_mod = "module m\n\nrequire (\n\tk8s.io/kubernetes v1.36.4\n\tk8s.io/kubectl v0.36.2 // indirect\n)\nrequire x.y/z v1.0.0\n"
    assert programs.module_version(go_mod, "k8s.io/kubernetes") == "v1.36.4"
    assert programs.module_version(go_mod, "x.y/z") == "v1.0.0"
    with pytest.raises(DevstackError, match=r"no version of k8s.io/kube$"):
        programs.module_version(go_mod, "k8s.io/kube")


def test_builds_that_share_sources_have_keys_of_their_own() -> None:
    keys = [build.key() for build in (*programs.CORE, programs.OLDEST_KUBE, *programs.EXTRAS.values())]
    assert len(set(keys)) == len(keys)
    assert programs.KUBE.version().startswith("v1.")


def test_prune_removes_only_old_builds(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    kept, old, foreign = programs.KUBE.folder(layout), layout.builds / "kube-0000", layout.builds / "image-pause-1.tar"
    for folder in (kept, old):
        folder.mkdir(parents=True)
    foreign.touch()
    programs.prune(layout)
    assert kept.exists()
    assert foreign.exists()
    assert not old.exists()


def test_package_list_names_a_program_or_a_file_each() -> None:
    text = "# comment\nrunc  # runc: runs containers\nlibc6-dev # /usr/lib*/**/libc.a: static\n\n"
    assert preflight.parse_packages(text) == [
        preflight.Package("runc", "runc"),
        preflight.Package("libc6-dev", "/usr/lib*/**/libc.a"),
    ]


def test_missing_packages_are_those_whose_program_or_file_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    there = [preflight.Package("sh", "sh"), preflight.Package("file", f"{tmp_path}/f*")]
    missing = [preflight.Package("x", "no-such-program-anywhere"), preflight.Package("y", f"{tmp_path}/none*")]
    assert preflight.missing_packages([*there, *missing]) == missing


def test_only_routes_of_others_into_our_networks_overlap() -> None:
    routes = [
        {"dst": "default", "dev": "eth0"},
        {"dst": "10.244.0.0/24", "dev": "prokube0"},
        {"dst": "192.168.0.0/16", "dev": "eth0"},
        {"dst": "10.0.0.0/8", "dev": "tun0"},
        {"dst": "10.96.0.7", "dev": "eth1"},
    ]
    assert preflight.overlapping(routes, Network()) == ["10.0.0.0/8 dev tun0", "10.96.0.7 dev eth1"]
