"""Configuration files and command lines of the cluster's programs. Pure: from a layout to text."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devstack.kube.layout import CLUSTER_DOMAIN, OLDEST, Layout, Network, Node
from devstack.kube.registry_hosts import folder

if TYPE_CHECKING:
    from pathlib import Path

_ETCD_CLIENT = "http://127.0.0.1:2379"
_ETCD_PEER = "http://127.0.0.1:2380"
_PROXY_GATES = {OLDEST: {"NFTablesProxyMode": True}}
"""Feature gates of kube-proxy by release. Since 1.31 its mode nftables needs none."""


@dataclass(frozen=True, slots=True)
class RuntimeParts:
    """Paths in containerd's configuration.

    Attributes:
        cni: folder of the CNI plugins.
        runc: path of runc.
        pause: image of the container that holds a pod's namespaces.
        snapshotter: name of containerd's plugin that stores layers.
    """

    cni: Path
    runc: Path
    pause: str
    snapshotter: str = "overlayfs"


def etcd(layout: Layout) -> list[str]:
    """Return the command line of etcd, without fsync: after a crash of the machine the cluster is made again."""
    return [
        "--name=node1",
        f"--data-dir={layout.state / 'etcd'}",
        f"--listen-client-urls={_ETCD_CLIENT}",
        f"--advertise-client-urls={_ETCD_CLIENT}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=node1={_ETCD_PEER}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(layout: Layout, first: Node) -> list[str]:
    """Return the command line of kube-apiserver, as from kubeadm."""
    pki = layout.pki
    return [
        f"--etcd-servers={_ETCD_CLIENT}",
        f"--advertise-address={first.address}",
        f"--bind-address={layout.network.any_address}",
        "--secure-port=6443",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kubelet-client.key'}",
        f"--kubelet-certificate-authority={pki / 'ca.crt'}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--service-cluster-ip-range={layout.network.services}",
    ]


def controller_manager(layout: Layout) -> list[str]:
    """Return the command line of kube-controller-manager, without leader election: there is one instance."""
    pki, kubeconfig = layout.pki, layout.state / "kube-controller-manager.kubeconfig"
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={pki / 'sa.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--allocate-node-cidrs",
        f"--cluster-cidr={layout.network.pods}",
        f"--service-cluster-ip-range={layout.network.services}",
        f"--node-cidr-mask-size={layout.network.node_bits}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
    ]


def scheduler(layout: Layout) -> list[str]:
    """Return the command line of kube-scheduler."""
    kubeconfig = layout.state / "kube-scheduler.kubeconfig"
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
    ]


def containerd(node: Node, parts: RuntimeParts) -> str:
    """Return the configuration of containerd (TOML)."""
    return f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{parts.snapshotter}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{parts.pause}"
  [plugins.'io.containerd.cri.v1.images'.registry]
    config_path = "{folder(node)}"
[plugins.'io.containerd.cri.v1.runtime']
  # Where root lacks CAP_SYS_RESOURCE (in a container), an oom_score_adj below our own cannot be set.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{parts.cni}"]
    conf_dir = "{node.folder / "cni"}"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = "{parts.runc}"
        SystemdCgroup = false
"""


def kubelet(layout: Layout, node: Node) -> str:
    """Return the configuration of kubelet (JSON, which is valid YAML)."""
    pki = layout.pki
    return _json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": layout.network.any_address,
            "failCgroupV1": False,  # since 1.35 kubelet refuses cgroup v1 by default
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{layout.cgroup}/{node.name}",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "clusterDNS": [layout.network.dns_service],
            "clusterDomain": CLUSTER_DOMAIN,
            "resolvConf": str(node.folder / "conf" / "resolv.conf"),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(pki / "ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(pki / f"{node.name}-server.crt"),
            "tlsPrivateKeyFile": str(pki / f"{node.name}-server.key"),
            "failSwapOn": False,
            "imageGCHighThresholdPercent": 100,  # no garbage collection: loaded images cannot be pulled again
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
                "nodefs.inodesFree": "1%",
            },
            "maxPods": 200,
            "syncFrequency": "10s",
            # The default for an unchanged status is 5 minutes, and `up` waits for this kubelet's first report.
            "nodeStatusUpdateFrequency": "3s",
            "nodeStatusReportFrequency": "3s",
            "serializeImagePulls": False,
        }
    )


def kube_proxy(layout: Layout, node: Node) -> str:
    """Return the configuration of kube-proxy (JSON), which does not change machine-wide conntrack settings."""
    return _json(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "featureGates": _PROXY_GATES.get(layout.release, {}),
            "clientConnection": {"kubeconfig": str(layout.state / "kube-proxy.kubeconfig")},
            "hostnameOverride": node.name,
            "clusterCIDR": layout.network.pods,
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
            "nodePortAddresses": [f"{node.address}/{layout.network.address_bits}"],
            "bindAddress": node.address,
        }
    )


def cni(network: Network, pods: str) -> str:
    """Return the CNI configuration of a node: a bridge for its pods, and host ports.

    Args:
        network: the cluster's networks.
        pods: the node's subnet of the pod network.
    """
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/cni-ipam",
            "ranges": [[{"subnet": pods}]],
            "routes": [{"dst": network.everywhere}],
        },
    }
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return _json({"cniVersion": "1.0.0", "name": "pulsar-readonly", "plugins": [bridge, portmap]})


def dns_query(name: str, ident: int, *, ipv6: bool = False) -> bytes:
    """Return a DNS query for a name's address (RFC 1035, section 4.1; RFC 3596 for IPv6)."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    header = ident.to_bytes(2, "big") + b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
    return header + labels + (b"\x00\x00\x1c\x00\x01" if ipv6 else b"\x00\x00\x01\x00\x01")


def dns_says(answer: bytes, ident: int, address: str) -> bool:
    """Return whether an answer to `dns_query` is a success and ends with this address, as with a single record."""
    wanted = ipaddress.ip_address(address).packed
    return answer[:2] == ident.to_bytes(2, "big") and answer[3] & 0x0F == 0 and answer.endswith(wanted)


API_NAME = f"kubernetes.default.svc.{CLUSTER_DOMAIN}"


def _json(document: dict[str, object]) -> str:
    return json.dumps(document, indent=2) + "\n"
