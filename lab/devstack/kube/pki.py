"""Keys, certificates and kubeconfigs of the local cluster, as kubeadm makes them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devstack.common.certificates import issue, make_authority, openssl
from devstack.kube.layout import CLUSTER_DOMAIN, Layout, Node

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class _Certificate:
    name: str
    subject: str
    authority: str = "ca"
    alternatives: tuple[str, ...] = ()


_CLIENTS = {
    "admin": "/O=system:masters/CN=kubernetes-admin",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
}


def make_pki(layout: Layout, nodes: list[Node]) -> None:
    """Make every missing key, certificate and kubeconfig."""
    pki = layout.pki
    pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, common_name in (("ca", "kubernetes-ca"), ("front-proxy-ca", "front-proxy-ca")):
        _authority(pki, name, common_name)
    service = f"kubernetes.default.svc.{CLUSTER_DOMAIN}"
    names = ["localhost", *(service.rsplit(".", cut)[0] for cut in range(1, 5)), service]
    addresses = [layout.network.api_service, nodes[0].address, "127.0.0.1"]
    wanted = [
        _Certificate(
            "apiserver",
            "/CN=kube-apiserver",
            alternatives=(*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)),
        ),
        _Certificate("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client"),
        _Certificate("front-proxy-client", "/CN=front-proxy-client", authority="front-proxy-ca"),
    ]
    for node in nodes:
        subject = f"/O=system:nodes/CN=system:node:{node.name}"
        wanted.append(_Certificate(node.name, subject))
        wanted.append(
            _Certificate(f"{node.name}-server", subject, alternatives=(f"DNS:{node.name}", f"IP:{node.address}"))
        )
    wanted.extend(_Certificate(name, subject) for name, subject in _CLIENTS.items())
    for certificate in wanted:
        _issue(pki, certificate)
    _service_account_key(pki)
    for name in (*_CLIENTS, *(node.name for node in nodes)):
        _kubeconfig(layout, name, f"[{nodes[0].address}]" if layout.ipv6 else nodes[0].address)


def _authority(pki: Path, name: str, common_name: str) -> None:
    certificate = pki / f"{name}.crt"
    if not certificate.exists():
        make_authority(certificate, common_name)


def _issue(pki: Path, wanted: _Certificate) -> None:
    certificate = pki / f"{wanted.name}.crt"
    if not certificate.exists():
        authority = pki / f"{wanted.authority}.crt"
        usages = "digitalSignature,keyEncipherment"
        issue(authority, certificate, wanted.subject, usages=usages, alternatives=wanted.alternatives)


def _service_account_key(pki: Path) -> None:
    public = pki / "sa.pub"
    if public.exists():
        return
    openssl("genrsa", "-out", str(pki / "sa.key"), "2048")
    openssl("rsa", "-in", str(pki / "sa.key"), "-pubout", "-out", str(public))


def _kubeconfig(layout: Layout, name: str, server: str) -> None:
    """Write NAME.kubeconfig with embedded keys and certificates, so that it can be copied."""
    path = layout.state / f"{name}.kubeconfig"
    if path.exists():
        return

    def data(file: str) -> str:
        return base64.b64encode((layout.pki / file).read_bytes()).decode()

    path.touch(mode=0o600)
    path.write_text(
        f"""apiVersion: v1
kind: Config
current-context: pulsar-readonly
contexts:
- name: pulsar-readonly
  context: {{cluster: pulsar-readonly, user: {name}}}
clusters:
- name: pulsar-readonly
  cluster: {{server: "https://{server}:6443", certificate-authority-data: {data("ca.crt")}}}
users:
- name: {name}
  user: {{client-certificate-data: {data(f"{name}.crt")}, client-key-data: {data(f"{name}.key")}}}
"""
    )
