"""Requests of the operator to the API server.

A thin layer on the official client's dynamic client. The kinds are known, so there is no discovery. Objects stay plain JSON.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from kubernetes import client, config
from kubernetes.dynamic import DynamicClient, Resource
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError
from urllib3.exceptions import HTTPError

from readonly_operator.kube.kinds import Kind, Manifest, kind_of
from readonly_operator.kube.names import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Sequence

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5
HTTP_NOT_FOUND = 404
HTTP_CONFLICT = 409
REFUSALS = (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)
HTTP_TOO_MANY_REQUESTS = 429


class KubeError(Exception):
    """The API server refused a request or did not answer; the text is the reason.

    Args:
        text: the API server's message, or the network error.
        status: the HTTP status of the refusal; 0 without an answer.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status

    @property
    def refused(self) -> bool:
        """Return whether the API server understood and refused the request, so that a retry cannot help."""
        return self.status in REFUSALS


@dataclass(frozen=True, slots=True)
class Right:
    """A permission that a Role may grant.

    Attributes:
        verb: get, create, patch and the like.
        group: API group of the resource, empty for the core group.
        resource: plural, with the subresource: pods/eviction.
        namespace: namespace of the resource.
        name: name of the one object; empty for any.
    """

    verb: str
    group: str
    resource: str
    namespace: str
    name: str = ""


class NoConfigurationError(Exception):
    """No Kubernetes configuration names an API server."""


class Kube(Protocol):
    """Requests that the operator makes to the API server."""

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """Return the object, or None when it does not exist."""
        ...

    def list(self, kind: Kind, namespace: str | None) -> Sequence[Manifest]:
        """Return all objects of a kind, in one namespace or in all."""
        ...

    def serves(self, kind: Kind, namespace: str | None) -> bool:
        """Return whether the API server serves the kind. The call needs the right to list the kind."""
        ...

    def apply(self, manifest: Manifest) -> Manifest:
        """Apply an object server-side as the operator's field manager; return the resulting object."""
        ...

    def put(self, manifest: Manifest) -> Manifest:
        """Create an object, or replace it when it has a resource version. KubeError 409: another writer was faster."""
        ...

    def apply_status(self, manifest: Manifest) -> Manifest:
        """Apply the status subresource server-side; return the resulting object."""
        ...

    def annotate(self, kind: Kind, namespace: str, name: str, annotations: dict[str, str]) -> Manifest | None:
        """Set annotations of an object that the operator does not own, through its status; return None when it is gone.

        The right to patch a pod's status changes no container. That to patch pods could change the image of any pod.
        """
        ...

    def delete(self, manifest: Manifest) -> None:
        """Delete the object with this uid; succeed when it is gone already."""
        ...

    def apply_as(self, manager: str, manifest: Manifest) -> Manifest:
        """Apply to an existing object (by its uid) as another field manager."""
        ...

    def merge(self, manager: str, kind: Kind, namespace: str, name: str, patch: Manifest) -> Manifest | None:
        """Send a JSON merge patch, conditional on a resourceVersion in it. Return None when the object is gone."""
        ...

    def evict(self, namespace: str, name: str, uid: str) -> bool:
        """Evict the pod with this uid. Return False while a disruption budget forbids it, and True when the pod is gone."""
        ...

    def may(self, right: Right) -> bool:
        """Return whether the operator has a right."""
        ...


class ApiServer:
    """Kube on a real API server."""

    def __init__(self, *, timeout_seconds: int) -> None:
        """Load the configuration of the pod's service account, else of the kubeconfig file.

        Raises:
            NoConfigurationError: neither exists.
        """
        try:
            if "KUBERNETES_SERVICE_HOST" in os.environ:
                config.load_incluster_config()  # type: ignore[no-untyped-call]
            else:
                config.load_kube_config()  # type: ignore[no-untyped-call]
        except config.ConfigException as error:
            raise NoConfigurationError(
                f"no Kubernetes configuration: {error} Run in a pod, or set KUBECONFIG"
            ) from None
        self._client = DynamicClient(client.ApiClient(), discoverer=_NoDiscovery)  # type: ignore[no-untyped-call]
        self._timeout = (CONNECT_SECONDS, timeout_seconds)

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """See Kube."""
        try:
            return self._plain(self._client.get, self._resource(kind), name=name, namespace=namespace)
        except NotFoundError:
            return None

    def list(self, kind: Kind, namespace: str | None) -> Sequence[Manifest]:
        """See Kube."""
        options = {"label_selector": kind.selector} if kind.selector else {}
        found = self._plain(self._client.get, self._resource(kind), namespace=namespace, **options)
        for item in found["items"]:
            item.update(apiVersion=kind.api_version, kind=kind.kind)  # lists of built-in kinds omit both
        items: list[Manifest] = found["items"]
        return items

    def serves(self, kind: Kind, namespace: str | None) -> bool:
        """See Kube."""
        try:
            self._plain(self._client.get, self._resource(kind), namespace=namespace, limit=1)
        except NotFoundError:
            return False
        return True

    def apply(self, manifest: Manifest) -> Manifest:
        """See Kube."""
        return self._written(
            self._client.server_side_apply,
            self._resource(kind_of(manifest)),
            body=manifest,
            field_manager=OPERATOR,
            force_conflicts=True,
        )

    def put(self, manifest: Manifest) -> Manifest:
        """See Kube."""
        metadata = manifest["metadata"]
        call = self._client.replace if "resourceVersion" in metadata else self._client.create
        return self._written(
            call,
            self._resource(kind_of(manifest)),
            body=manifest,
            namespace=metadata["namespace"],
            field_manager=OPERATOR,
        )

    def apply_status(self, manifest: Manifest) -> Manifest:
        """See Kube."""
        metadata = manifest["metadata"]
        resource: Any = self._resource(kind_of(manifest))
        path = resource.path(name=metadata["name"], namespace=metadata["namespace"])
        return self._written(
            self._client.request,
            "patch",
            f"{path}/status",
            body=manifest,
            content_type="application/apply-patch+yaml",
            field_manager=OPERATOR,
            force_conflicts=True,
        )

    def annotate(self, kind: Kind, namespace: str, name: str, annotations: dict[str, str]) -> Manifest | None:
        """See Kube."""
        resource: Any = self._resource(kind)
        try:
            return self._plain(
                self._client.request,
                "patch",
                f"{resource.path(name=name, namespace=namespace)}/status",
                body={"metadata": {"annotations": annotations}},
                content_type="application/merge-patch+json",
                field_manager=OPERATOR,
            )
        except NotFoundError:
            return None

    def delete(self, manifest: Manifest) -> None:
        """See Kube."""
        metadata = manifest["metadata"]
        try:
            self._plain(
                self._client.delete,
                self._resource(kind_of(manifest)),
                name=metadata["name"],
                namespace=metadata["namespace"],
                body={"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Background"},
            )
        except NotFoundError:
            logger.debug("object deleted already: name=%s", metadata["name"])

    def apply_as(self, manager: str, manifest: Manifest) -> Manifest:
        """See Kube."""
        return self._written(
            self._client.server_side_apply,
            self._resource(kind_of(manifest)),
            body=manifest,
            field_manager=manager,
            force_conflicts=True,
        )

    def merge(self, manager: str, kind: Kind, namespace: str, name: str, patch: Manifest) -> Manifest | None:
        """See Kube."""
        try:
            return self._plain(
                self._client.patch,
                self._resource(kind),
                body=patch,
                name=name,
                namespace=namespace,
                content_type="application/merge-patch+json",
                field_manager=manager,
            )
        except NotFoundError:
            return None

    def evict(self, namespace: str, name: str, uid: str) -> bool:
        """See Kube."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            self._plain(self._client.request, "post", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body=body)
        except NotFoundError:
            return True
        except KubeError as error:
            if error.status == HTTP_TOO_MANY_REQUESTS:
                return False
            raise
        return True

    def may(self, right: Right) -> bool:
        """See Kube."""
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
            "name": right.name,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = self._plain(
            self._client.request, "post", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=body
        )
        return bool(answer["status"]["allowed"])

    def _resource(self, kind: Kind) -> Resource:
        return Resource(  # type: ignore[no-untyped-call]
            prefix="apis" if kind.group else "api",
            group=kind.group,
            api_version=kind.version,
            kind=kind.kind,
            name=kind.plural,
            namespaced=kind.namespaced,
            client=self._client,
        )

    def _written(self, call: Any, *args: Any, **options: Any) -> Manifest:
        """Send a write; a 404 then means that the namespace or the kind does not exist."""
        try:
            return self._plain(call, *args, **options)
        except NotFoundError as error:
            raise KubeError(_reason(error), error.status) from error

    def _plain(self, call: Any, *args: Any, **options: Any) -> Manifest:
        try:
            response = call(*args, serializer=_json, _request_timeout=self._timeout, **options)
        except NotFoundError:
            raise
        except DynamicApiError as error:
            raise KubeError(_reason(error), error.status) from error
        except HTTPError as error:
            host = self._client.configuration.host
            raise KubeError(f"{host} does not answer: {getattr(error, 'reason', None) or error}") from error
        return response  # type: ignore[no-any-return]


def missing_kinds(kube: Kube, kinds: Sequence[Kind], namespace: str | None) -> list[Kind]:
    """Return the kinds that the API server does not serve."""
    return [kind for kind in kinds if not kube.serves(kind, namespace)]


class _NoDiscovery:
    """Replace the dynamic client's discovery of kinds, which costs requests and writes files."""

    def __init__(self, _client: DynamicClient, _cache_file: str | None) -> None:
        pass


def _json(_client: DynamicClient, data: Manifest) -> Manifest:
    return data


def _reason(error: DynamicApiError) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"
