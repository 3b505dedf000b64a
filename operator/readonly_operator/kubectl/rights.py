"""Rights of Kubernetes that a request needs, and the names by which an administrator grants them. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class NeededRight:
    """A right that a request needs.

    Attributes:
        verb: get, list or create.
        resource: plural, with the subresource and the group: pods/proxy, readonlybrokerpools.pulsar-readonly.io.
        namespace: namespace of the resource.
        purpose: what cannot be shown or done without it.
        role: the smallest role of Kubernetes that has it.
    """

    verb: str
    resource: str
    namespace: str
    purpose: str
    role: str

    @property
    def text(self) -> str:
        """Return a sentence for the user who lacks it."""
        return (
            f"{self.verb} {self.resource} in namespace {self.namespace}: without it there are no {self.purpose}; "
            f"the role {self.role} of Kubernetes has it, or: {self.command}"
        )

    @property
    def command(self) -> str:
        """Return the command by which an administrator makes a Role with this right."""
        name = f"{self.verb}-{self.resource.partition('.')[0].replace('/', '-')}"
        return f"kubectl create role {name} -n {self.namespace} --verb={self.verb} --resource={self.resource}"


def read_pools(namespace: str, group: str, verb: str) -> NeededRight:
    """Return the right to read pools."""
    return NeededRight(verb, f"readonlybrokerpools.{group}", namespace, "pools", "view")


def list_bindings(namespace: str, group: str) -> NeededRight:
    """Return the right to list bindings."""
    return NeededRight("list", f"readonlytopicbindings.{group}", namespace, "bindings", "view")


def list_pods(namespace: str) -> NeededRight:
    """Return the right to list pods."""
    return NeededRight("list", "pods", namespace, "brokers", "view")


def proxy_to_pods(namespace: str) -> NeededRight:
    """Return the right to send GET requests to pods through the API server."""
    return NeededRight("get", "pods/proxy", namespace, "topics, subscriptions and figures of brokers", "edit")


def read_token(namespace: str, secret: str) -> NeededRight:
    """Return the right to read the Secret with the token of brokers' HTTP ports."""
    return NeededRight(
        "get", "secrets", namespace, f"figures of brokers, whose HTTP port needs the token of Secret {secret}", "edit"
    )


def execute_in_pods(namespace: str) -> NeededRight:
    """Return the right to run a command in a pod."""
    return NeededRight("create", "pods/exec", namespace, "checks from a broker's pod", "edit")
