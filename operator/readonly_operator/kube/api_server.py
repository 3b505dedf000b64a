"""The requests that the operator makes to the API server.

A thin layer on the official client's dynamic client. The kinds are known, so nothing is discovered, and objects stay plain JSON.
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
HTTP_CONFLICT = 409
REFUSALS = (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)
HTTP_TOO_MANY_REQUESTS = 429


class KubeError(Exception):
    """The API server refused a request, and the text is its message; or it does not answer.

    Args:
        text: why.
        status: the HTTP status of the refusal; 0 when there is no answer.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status

    @property
    def refused(self) -> bool:
        """Whether the API server understood the request and will not have it: a person must act."""
        return self.status in REFUSALS


@dataclass(frozen=True, slots=True)
class Right:
    """Something that a Role may allow.

    Attributes:
        verb: get, create, patch and the like.
        group: API group of the resource, empty for the core group.
        resource: plural, with the subresource: pods/eviction.
        namespace: where.
        name: of the one object; empty for any.
    """

    verb: str
    group: str
    resource: str
    namespace: str
    name: str = ""


class NoConfigurationError(Exception):
    """There is no way to tell which API server to ask."""


class Kube(Protocol):
    """What the operator asks of the API server."""

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """The object, or None when there is none."""
        ...

    def list(self, kind: Kind, namespace: str | None) -> Sequence[Manifest]:
        """All objects of a kind, of one namespace or of all of them."""
        ...

    def serves(self, kind: Kind, namespace: str | None) -> bool:
        """Whether there is such a kind; it takes the right to list it."""
        ...

    def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply by the operator's field manager; the object as it is then."""
        ...

    def put(self, manifest: Manifest) -> Manifest:
        """Create an object, or with a resource version in it replace that version; KubeError 409 when another was faster."""
        ...

    def apply_status(self, manifest: Manifest) -> Manifest:
        """The same for the status subresource."""
        ...

    def annotate(self, kind: Kind, namespace: str, name: str, annotations: dict[str, str]) -> Manifest | None:
        """Set annotations of somebody else's object; None when it is gone."""
        ...

    def delete(self, manifest: Manifest) -> None:
        """Delete this very object (by its uid); none is fine."""
        ...

    def apply_as(self, manager: str, manifest: Manifest) -> Manifest:
        """Server-side apply by another field manager, to somebody else's object that exists (by its uid)."""
        ...

    def merge(self, manager: str, kind: Kind, namespace: str, name: str, patch: Manifest) -> Manifest | None:
        """JSON merge patch by a field manager; with a resourceVersion in it, only of that version. None when it is gone."""
        ...

    def evict(self, namespace: str, name: str, uid: str) -> bool:
        """Let this very pod end in good order; False when a disruption budget does not allow it now. Gone is fine."""
        ...

    def may(self, right: Right) -> bool:
        """Whether the operator has a right."""
        ...


class ApiServer:
    """A Kube on a real API server."""

    def __init__(self, *, timeout_seconds: int) -> None:
        """Take the configuration of the pod that we run in, else of the kubeconfig file.

        Raises:
            NoConfigurationError: there is neither.
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
            item.update(apiVersion=kind.api_version, kind=kind.kind)  # lists of built-in kinds leave them out
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
        try:
            return self._plain(
                self._client.patch,
                self._resource(kind),
                body={"metadata": {"name": name, "annotations": annotations}},
                namespace=namespace,
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
            logger.debug("%s is gone already", metadata["name"])

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
        """The same for what is written: where that is not there, neither is its namespace, or its kind."""
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
    """Those of the kinds that the API server does not serve."""
    return [kind for kind in kinds if not kube.serves(kind, namespace)]


class _NoDiscovery:
    """Takes the place of the dynamic client's discovery of kinds, which costs requests and writes files."""

    def __init__(self, _client: DynamicClient, _cache_file: str | None) -> None:
        pass


def _json(_client: DynamicClient, data: Manifest) -> Manifest:
    return data


def _reason(error: DynamicApiError) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"
