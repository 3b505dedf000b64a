"""Answers of the API server: documents, refusals, and pages of lists. Pure."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from readonly_engine.status.text import printable

from readonly_operator.kubectl.errors import AnswerError

if TYPE_CHECKING:
    from readonly_operator.kube.kinds import Kind, Manifest

PAGE_ITEMS: Final = 250
"""Objects of one answer."""

MAX_ITEMS: Final = 2000
"""Objects of one kind that are read. More are not shown."""

MAX_MESSAGE: Final = 500
"""Characters of a refusal that are shown."""

_NO_RESOURCE: Final = "the server could not find the requested resource"


def object_path(kind: Kind, namespace: str, name: str = "") -> str:
    """Return the path of an object, or of all objects of a kind in a namespace."""
    prefix = f"apis/{kind.group}" if kind.group else "api"
    path = f"/{prefix}/{kind.version}/namespaces/{quote(namespace, safe='')}/{kind.plural}"
    return f"{path}/{quote(name, safe='')}" if name else path


def list_query(selector: str, token: str) -> str:
    """Return the query of one page of a list.

    Args:
        selector: label selector; empty for all objects.
        token: `metadata.continue` of the page before; empty for the first one.
    """
    given = {"limit": str(PAGE_ITEMS), "labelSelector": selector, "continue": token}
    return "?" + urlencode({key: value for key, value in given.items() if value})


def broker_path(namespace: str, pod: str, port: int, query: str = "", *, tls: bool = False) -> str:
    """Return the path of /status of a broker, through the API server, which verifies no certificate of a pod."""
    target = f"{'https:' if tls else ''}{quote(pod, safe='')}:{port}"
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{target}/proxy/status{query}"


def parse(body: bytes) -> Any:
    """Return a document.

    Raises:
        ValueError: the body is no JSON, or nested too deeply.
    """
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("the answer is nested too deeply") from None


def checked(status: int, body: bytes) -> Manifest:
    """Return the object or list of an answer.

    Raises:
        AnswerError: the answer is a refusal, or no object.
    """
    try:
        document = parse(body)
    except ValueError:
        document = None
    if status != HTTPStatus.OK:
        raise AnswerError(refusal(status, document, body), status)
    if not isinstance(document, dict):
        raise AnswerError("the answer is no object of Kubernetes; does the address lead to an API server?")
    return document


def refusal(status: int, document: object, body: bytes) -> str:
    """Return the message of a refusal (kind Status of Kubernetes), or the beginning of its text."""
    message = document.get("message") if isinstance(document, dict) else None
    text = str(message) if message else body[: 4 * MAX_MESSAGE].decode(errors="replace")
    return printable(" ".join(text.split()), MAX_MESSAGE) or f"HTTP status {status}"


def lacks_kind(error: AnswerError) -> bool:
    """Return whether the API server does not serve the kind at all."""
    return error.not_found and (_NO_RESOURCE in str(error) or "page not found" in str(error))


def page_items(document: Manifest) -> tuple[list[Manifest], str]:
    """Return the objects of one page of a list, and the token of the next page; empty for none."""
    items = document.get("items")
    found = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
    metadata = document.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else None
    return found, str(token or "")
