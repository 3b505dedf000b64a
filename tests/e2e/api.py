"""Requests to the API server without kubectl, whose start costs 0.25 s of CPU: tests that wait ask ten times a second."""

import json
from functools import cached_property
from typing import Any

from kubernetes import config
from urllib3.exceptions import HTTPError

DEADLINE_S = 30
DONE, NOT_FOUND = (200, 201, 202), 404
JSON = "application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""All resources of all groups, by one request (aggregated discovery)."""


def paths(discovered: dict[str, Any], root: str) -> dict[str, str]:
    """The paths of all resources below /api or /apis, by plural, singular and short names, in the preferred version."""
    found: dict[str, str] = {}
    for group in discovered["items"]:
        preferred = group["versions"][0]
        base = "/".join(filter(None, (root, group["metadata"].get("name"), preferred["version"])))
        for one in preferred.get("resources", []):
            path = f"{base}/{'namespaces/{namespace}/' * (one['scope'] == 'Namespaced')}{one['resource']}"
            for alias in (one["resource"], one.get("singularResource"), *one.get("shortNames", [])):
                found.setdefault(alias, path)
    return found


class Api:
    """The API server of a kubeconfig.

    What is not there is a LookupError, every other failure an AssertionError: a test that waits tries again after both.
    """

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._paths: dict[str, str] = {}

    @cached_property
    def _client(self) -> Any:
        return config.new_client_from_config(self._kubeconfig)

    def raw(self, path: str, accept: str = JSON, selector: str = "", method: str = "GET", body: Any = None) -> Any:
        """The decoded answer to a request."""
        request = self._client.param_serialize(
            method,
            path,
            query_params=[("labelSelector", selector)] if selector else [],
            header_params={"Accept": accept, "Content-Type": JSON},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*request, _request_timeout=DEADLINE_S)
            text = answer.read()
        except HTTPError as error:
            raise AssertionError(f"{method} {path}: {error}") from error
        if answer.status == NOT_FOUND:
            raise LookupError(f"{method} {path}: {text!r}")
        assert answer.status in DONE, f"{method} {path}: {answer.status} {text!r}"
        return json.loads(text)

    def _path(self, kind: str, namespace: str) -> str:
        kind = kind.lower()
        if kind not in self._paths:  # definitions may have been installed since the last look
            self._paths = paths(self.raw("/apis", DISCOVERY), "/apis") | paths(self.raw("/api", DISCOVERY), "/api")
        return self._paths[kind].format(namespace=namespace)

    def get(self, kind: str, name: str, namespace: str) -> dict[str, Any]:
        """One object."""
        found: dict[str, Any] = self.raw(f"{self._path(kind, namespace)}/{name}")
        return found

    def list(self, kinds: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects of one or more kinds, with commas."""
        found: list[dict[str, Any]] = []
        for kind in kinds.split(","):
            answer = self.raw(self._path(kind, namespace), selector=selector)
            types = {"kind": answer["kind"].removesuffix("List"), "apiVersion": answer["apiVersion"]}
            found += [{**types, **item} for item in answer["items"]]
        return found
