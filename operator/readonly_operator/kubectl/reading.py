"""Read a namespace: its pools, brokers and bindings, and the figures of the brokers. A right that is missing ends nothing."""

from __future__ import annotations

import base64
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from readonly_engine.status.text import printable
from readonly_engine.top.observed import Observed, answered

from readonly_operator.kube.http_ports import TOKEN_HEADER
from readonly_operator.kube.kinds import BINDING, POD, POOL
from readonly_operator.kubectl import rights
from readonly_operator.kubectl.answers import MAX_ITEMS, broker_path, lacks_kind, object_path, parse, refusal
from readonly_operator.kubectl.errors import AnswerError, PluginError
from readonly_operator.kubectl.snapshot import (
    Snapshot,
    binding_view,
    broker_view,
    brokers_of,
    by_pool,
    pool_view,
    split_bindings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_operator.kube.http_ports import KeyOf
    from readonly_operator.kube.kinds import Kind, Manifest
    from readonly_operator.kube.names import PoolKey
    from readonly_operator.kubectl.rights import NeededRight
    from readonly_operator.kubectl.snapshot import BindingView, BrokerView, PoolView

BROKER_TIMEOUT_S: Final = 5.0
BROKERS_TIMEOUT_S: Final = 20.0
"""Time after which no other process is asked. Many silent ones would else hold the command for more than a minute."""

MAX_CONCURRENT_QUERIES: Final = 8
MAX_NAMED: Final = 10
"""Pools that an error names."""

MAX_QUERIED: Final = 100
"""Processes of brokers that one command asks."""


class Api(Protocol):
    """Requests to the API server; see Connection."""

    def get(self, path: str, timeout_s: float = ..., headers: Mapping[str, str] = ...) -> tuple[int, bytes]:
        """Send a GET request with further headers; return HTTP status and body."""
        ...

    def object(self, path: str) -> Manifest:
        """Return an object."""
        ...

    def list(self, path: str, selector: str, most: int) -> tuple[list[Manifest], bool]:
        """Return objects of a kind, and whether there are more."""
        ...


class Reader:
    """Reads one namespace, and collects the rights that the user lacks.

    Args:
        api: the API server.
        namespace: the namespace.
        query: query of /status of the brokers, with `?`; empty for none.
    """

    def __init__(self, api: Api, namespace: str, query: str = "") -> None:
        self._api = api
        self._namespace = namespace
        self._query = query
        self._missing: dict[NeededRight, None] = {}
        self._notes: dict[str, None] = {}
        self._cancelled = threading.Event()
        self._tokens: dict[KeyOf, str] = {}

    def cancel(self) -> None:
        """End the requests to brokers that are to come; another thread waits for them."""
        self._cancelled.set()

    def snapshot(self, name: str) -> Snapshot:
        """Return what the user may see.

        Args:
            name: the only pool to read; empty for all.

        Raises:
            PluginError: there is no such pool, or pools cannot be read.
        """
        pools = [self.pool(name)] if name else self._pools()
        bindings = self._bindings()
        mine, loose = split_bindings(pools, bindings or [])
        pools = [replace(pool, bindings=mine[pool.key]) for pool in pools]
        unlisted = any((pool.bindings_allowed or 0) > len(pool.bindings) for pool in pools)
        if unlisted and bindings is not None:
            self._notes["bindings of other namespaces are not listed; BINDINGS of a pool counts them"] = None
        shown = self._with_figures(self._with_brokers(pools, name))
        return Snapshot(self._namespace, tuple(shown), () if name else loose, tuple(self._missing), tuple(self._notes))

    def brokers(self, key: PoolKey) -> list[Manifest]:
        """Return the pods of a pool's brokers.

        Raises:
            PluginError: pods cannot be read.
        """
        try:
            return brokers_of(key, self._listed(POD, f"{POD.selector}={key.name}"))
        except AnswerError as error:
            raise PluginError(self._problem(error, rights.list_pods(self._namespace))) from error

    def pool(self, name: str) -> PoolView:
        """Return a pool, without its brokers and bindings.

        Raises:
            PluginError: there is no such pool, or it cannot be read.
        """
        right = rights.read_pools(self._namespace, POOL.group, "get")
        try:
            return pool_view(self._api.object(object_path(POOL, self._namespace, name)))
        except AnswerError as error:
            if error.not_found and not lacks_kind(error):
                raise PluginError(
                    f'there is no ReadOnlyBrokerPool "{name}" in namespace {self._namespace}; '
                    f"kubectl readonly status -n {self._namespace} lists those that there are"
                ) from error
            raise PluginError(self._problem(error, right)) from error

    def only_pool(self) -> PoolView:
        """Return the pool of the namespace, without its brokers and bindings.

        Raises:
            PluginError: there is none, there are several, or pools cannot be read.
        """
        pools = self._pools()
        if len(pools) == 1:
            return pools[0]
        names = ", ".join(pool.key.name for pool in pools[:MAX_NAMED]) + (" and others" if pools[MAX_NAMED:] else "")
        what = f"several pools, name one of them: {names}" if pools else "no ReadOnlyBrokerPool"
        raise PluginError(f"namespace {self._namespace} has {what}")

    def observe(self, pods: Sequence[BrokerView]) -> list[Observed]:
        """Return the answer of each process of these brokers; a broker that does not run has the reason.

        Raises:
            PluginError: the user may not send requests to pods.
        """
        self._missing.pop(rights.proxy_to_pods(self._namespace), None)  # an earlier refusal may be over
        found: list[Observed] = []
        for broker in self._observed(pods):
            found += broker.observed or [Observed(broker.pod, error=printable(broker.trouble) or "it does not run")]
        if self._lacks_proxy:
            raise PluginError(f"missing right: {rights.proxy_to_pods(self._namespace).text}")
        return found

    def _pools(self) -> list[PoolView]:
        try:
            return sorted(map(pool_view, self._listed(POOL)), key=lambda pool: pool.key)
        except AnswerError as error:
            raise PluginError(self._problem(error, rights.read_pools(self._namespace, POOL.group, "list"))) from error

    def _bindings(self) -> list[BindingView] | None:
        """Return the bindings of the namespace; None if they cannot be read."""
        try:
            return sorted(map(binding_view, self._listed(BINDING)), key=lambda one: (one.namespace, one.name))
        except AnswerError as error:
            self._lack(error, rights.list_bindings(self._namespace, BINDING.group))
            return None

    def _with_brokers(self, pools: Sequence[PoolView], name: str) -> list[PoolView]:
        if not pools:
            return []
        selector = f"{POD.selector}={name}" if name else POD.selector
        try:
            pods = self._listed(POD, selector)
        except AnswerError as error:
            self._lack(error, rights.list_pods(self._namespace))
            return list(pools)
        labelled = by_pool(pods)
        return [
            replace(pool, brokers=tuple(map(broker_view, brokers_of(pool.key, labelled.get(pool.key.name, ())))))
            for pool in pools
        ]

    def _with_figures(self, pools: Sequence[PoolView]) -> list[PoolView]:
        asked = iter(self._observed([broker for pool in pools for broker in pool.brokers]))
        return [replace(pool, brokers=tuple(islice(asked, len(pool.brokers)))) for pool in pools]

    def _observed(self, brokers: Sequence[BrokerView]) -> list[BrokerView]:
        """Ask the processes of the brokers that run, a few at a time; none more after a missing right."""
        queries = [(broker, port) for broker in brokers if broker.runs for port in broker.ports]
        if len(queries) > MAX_QUERIED:
            self._notes[f"the first {MAX_QUERIED} of {len(queries)} broker processes were asked"] = None
            queries = queries[:MAX_QUERIED]
        for wanted in {broker.access.token for broker, _ in queries}:
            if wanted is not None and wanted not in self._tokens:
                self._tokens[wanted] = self._token(wanted)
        deadline = time.monotonic() + BROKERS_TIMEOUT_S
        first = [self._ask(broker, port, deadline) for broker, port in queries[:1]]
        if self._lacks_proxy:
            return list(brokers)
        with ThreadPoolExecutor(MAX_CONCURRENT_QUERIES) as threads:
            others = threads.map(lambda query: self._ask(query[0], query[1], deadline), queries[1:])
            answers = [*first, *others]
        found: dict[str, list[Observed]] = {}
        for (broker, _), answer in zip(queries, answers, strict=True):
            found.setdefault(broker.pod, []).append(answer)
        return [replace(broker, observed=tuple(found.get(broker.pod, ()))) for broker in brokers]

    def _token(self, wanted: KeyOf) -> str:
        """Return the token of brokers' HTTP ports, as the user may read it; empty if not."""
        try:
            found = self._api.object(object_path(wanted.kind, self._namespace, wanted.name))
            return base64.b64decode(found["data"][wanted.key], validate=True).decode("ascii").strip()
        except AnswerError as error:
            self._lack(error, rights.read_token(self._namespace, wanted.name))
        except (KeyError, TypeError, ValueError):
            self._notes[f"Secret {wanted.name} has no token in key {wanted.key}"] = None
        return ""

    @property
    def _lacks_proxy(self) -> bool:
        return rights.proxy_to_pods(self._namespace) in self._missing

    def _ask(self, broker: BrokerView, port: int, deadline: float) -> Observed:
        number = broker.ports.index(port)
        name = f"{broker.pod} worker {number}" if len(broker.ports) > 1 else broker.pod
        if self._cancelled.is_set():
            return Observed(name, error="not asked: interrupted")
        if time.monotonic() >= deadline:
            return Observed(name, error=f"not asked: the brokers before it took {BROKERS_TIMEOUT_S:g} s")
        path = broker_path(self._namespace, broker.pod, port, self._query, tls=broker.access.tls)
        token = "" if broker.access.token is None else self._tokens.get(broker.access.token, "")
        try:
            status, body = self._api.get(path, BROKER_TIMEOUT_S, {TOKEN_HEADER: token} if token else {})
        except AnswerError as error:
            return Observed(name, error=str(error))
        return self._answer(name, status, body)

    def _answer(self, name: str, status: int, body: bytes) -> Observed:
        """Return the answer of a broker. The API server answers instead of it where it refuses or cannot reach the pod."""
        try:
            document = parse(body)
        except ValueError:
            document = None
        if isinstance(document, dict) and document.get("kind") == "Status":
            error = AnswerError(refusal(status, document, body), status)
            if error.forbidden:
                self._missing[rights.proxy_to_pods(self._namespace)] = None
            return Observed(name, error=str(error))
        if document is None:
            return Observed(name, error=f"the answer is no JSON: {refusal(status, document, body)}")
        return answered(name, status, document)

    def _listed(self, kind: Kind, selector: str = "") -> list[Manifest]:
        items, more = self._api.list(object_path(kind, self._namespace), selector, MAX_ITEMS)
        if more:
            self._notes[f"only the first {MAX_ITEMS:,} {kind.plural} were read"] = None
        return items

    def _lack(self, error: AnswerError, right: NeededRight) -> None:
        """Record that something cannot be read."""
        if error.forbidden:
            self._missing[right] = None
        else:
            self._notes[self._problem(error, right)] = None

    def _problem(self, error: AnswerError, right: NeededRight) -> str:
        if error.forbidden:
            return f"missing right: {right.text}"
        if lacks_kind(error):
            return f"the API server does not serve {right.resource}: install the definitions (crds/) and the operator"
        return f"{right.resource} of namespace {self._namespace} cannot be read: {error}"
