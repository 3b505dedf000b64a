"""Checks of source clusters: reachability, and the explicit LAC setting of their brokers.

Checks run in threads of their own, because an answer may take long. Reconciling reads the last report, which all pools of one
cluster share.
"""

from __future__ import annotations

import logging
import math
import random
import re
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from readonly_engine.metadata.url import STORES

from readonly_operator.api.metadata_store import StoreUrl
from readonly_operator.api.pool.explicit_lac import LAC_SETTING
from readonly_operator.api.pool.source import TlsClient
from readonly_operator.cluster.cursor_limits import NO_LIMITS, CursorLimits
from readonly_operator.cluster.fetch import ANONYMOUS, Credentials, FetchError, connect, get_json, get_text, send

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from readonly_operator.api.pool import Source

    TlsContext = Callable[[str, TlsClient], ssl.SSLContext]

logger = logging.getLogger(__name__)

STEP_SECONDS = 3.0
RETRY_SECONDS = 10.0
"""Delay before an unreachable cluster is checked again."""
MAX_CONCURRENT_CHECKS = 8
"""Clusters checked at the same time, so that an unreachable one does not delay the others."""
MAX_BROKERS = 200
_BROKER = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253})|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}")
"""A broker in the admin API's list. Other text could name a path of any server."""
FORBIDDEN = 403
PULSAR_PORT = 6650
TLS_PORT = 6651
HEALTH_SECONDS = 15.0
"""Deadline of a health check, which writes a message and reads it back."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Report about a source cluster.

    Attributes:
        problems: unreachable URLs of the spec with the reason; none when all answer.
        intervals_ms: explicit LAC interval of each active broker that answered, by broker; 0 is off.
        unasked: active brokers whose configuration could not be read, with the reason.
        cursor_limits: settings of the brokers that answered which limit local cursors, the strictest of each.
    """

    problems: tuple[str, ...]
    intervals_ms: tuple[tuple[str, int], ...] = ()
    unasked: tuple[tuple[str, str], ...] = ()
    cursor_limits: CursorLimits = NO_LIMITS


def check(
    source: Source,
    credentials_for: Callable[[Source], Credentials] = lambda _: ANONYMOUS,
    tls_context: TlsContext | None = None,
) -> SourceReport:
    """Check a cluster now; it takes a few seconds when something does not answer.

    Args:
        source: the cluster.
        credentials_for: returns the credentials for its admin API; may raise a FetchError.
        tls_context: returns the TLS context for a part of the source; None to connect without TLS handshakes.
    """
    problems = []
    brokers: list[str] = []
    credentials = ANONYMOUS
    try:
        credentials = credentials_for(source)
        brokers = active_brokers(source, credentials)
    except FetchError as error:
        problems.append(f"adminUrl {source.admin_url}: {error}")
    tls = source.tls
    brokers_tls = None
    if source.service_url.startswith("pulsar+ssl://"):
        brokers_tls = tls.brokers if tls and tls.brokers else TlsClient()
    handshake = _Handshake(source.namespace, brokers_tls, tls_context)
    problems += _unreachable("serviceUrl", source.service_url, _service_addresses(source.service_url), handshake)
    for field, url in source.metadata_stores:
        wanted = tls.metadata_store if tls else None
        handshake = _Handshake(source.namespace, wanted, tls_context, STORES[StoreUrl.parse(url).kind].protocols)
        problems += _unreachable(field, url, _store_addresses(url), handshake)
    intervals: list[tuple[str, int]] = []
    unasked: list[tuple[str, str]] = []
    limits = NO_LIMITS
    for broker in sorted(brokers)[:MAX_BROKERS]:
        try:
            settings = _runtime_settings(source, broker, credentials)
            intervals.append((broker, _lac_interval(settings)))
            limits = limits.strictest(CursorLimits.of_broker(settings))
        except FetchError as error:
            unasked.append((broker, str(error)))
    return SourceReport(tuple(problems), tuple(intervals), tuple(unasked), limits)


@dataclass(frozen=True, slots=True)
class _Handshake:
    """The TLS handshake with one part of a source.

    Attributes:
        namespace: namespace of the named Secrets and ConfigMaps, and of short host names.
        wanted: the certificates; None for no TLS.
        tls_context: makes the context; None for no handshake.
        protocols: application protocols (ALPN), which gRPC servers require.
    """

    namespace: str
    wanted: TlsClient | None
    tls_context: TlsContext | None
    protocols: tuple[str, ...] = ()

    def context(self) -> ssl.SSLContext | None:
        """Return the context; None if the connection has no TLS, or the operator has no right to read a Secret for it.

        Raises:
            FetchError: a Secret or ConfigMap is missing, or lacks a valid value.
        """
        if self.wanted is None or self.tls_context is None:
            return None
        try:
            context = self.tls_context(self.namespace, self.wanted)
        except FetchError as error:
            if error.status == FORBIDDEN:
                return None  # the brokers mount it without that right
            raise
        if self.protocols:
            context.set_alpn_protocols(list(self.protocols))
        return context


class SourceMonitor:
    """Check each source cluster that pools name, and keep its last report.

    Args:
        period: seconds between two checks of a reachable cluster.
        changed: called with a source whose report changed.
        credentials_for: returns the credentials for a source's admin API.
        tls_context: returns the TLS context for a part of a source; None to connect without TLS handshakes.
    """

    def __init__(
        self,
        period: float,
        changed: Callable[[Source], None],
        credentials_for: Callable[[Source], Credentials] = lambda _: ANONYMOUS,
        tls_context: TlsContext | None = None,
    ) -> None:
        self._period = period
        self._changed = changed
        self._credentials_for = credentials_for
        self._tls_context = tls_context
        self._lock = threading.Condition()
        self._stopped = False
        self._reports: dict[Source, SourceReport | None] = {}
        self._due: dict[Source, float] = {}
        self._threads = [
            threading.Thread(target=self._run, name=f"source-monitor-{number}", daemon=True)
            for number in range(MAX_CONCURRENT_CHECKS)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop; a running check ends by itself."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()

    def report(self, source: Source) -> SourceReport | None:
        """Return the last report; None before the first, which is then scheduled."""
        with self._lock:
            if source not in self._reports:
                self._reports[source] = None
                self._due[source] = time.monotonic()
                self._lock.notify()
            return self._reports[source]

    def refresh(self, source: Source) -> None:
        """Check a cluster again now, because its brokers have changed."""
        with self._lock:
            if source in self._due:
                self._due[source] = time.monotonic()
                self._lock.notify()

    def keep(self, sources: set[Source]) -> None:
        """Forget clusters that no pool names any more."""
        with self._lock:
            for source in self._reports.keys() - sources:
                del self._reports[source], self._due[source]

    def _run(self) -> None:
        while (source := self._next()) is not None:
            try:
                self._check(source)
            except Exception:  # the thread serves all pools: one source must not end it
                logger.exception("check of a source cluster failed, retrying: url=%s", source.admin_url)
                with self._lock:
                    if source in self._due:
                        self._due[source] = time.monotonic() + RETRY_SECONDS

    def _next(self) -> Source | None:
        """Wait for the next due cluster; None after `stop`."""
        with self._lock:
            while not self._stopped:
                source, due = min(self._due.items(), key=lambda item: item[1], default=(None, math.inf))
                wait = due - time.monotonic()
                if source is not None and wait <= 0:
                    self._due[source] = math.inf  # until this check ends
                    return source
                self._lock.wait(None if due == math.inf else wait)
            return None

    def _check(self, source: Source) -> None:
        found = check(source, self._credentials_for, self._tls_context)
        period = RETRY_SECONDS if found.problems else self._period
        with self._lock:
            if source not in self._reports:
                return
            new = self._reports[source] != found
            self._reports[source] = found
            self._due[source] = time.monotonic() + period * random.uniform(0.9, 1.1)  # noqa: S311 (jitter, no secret)
            self._lock.notify()
        if new:
            for problem in found.problems:
                logger.warning("source cluster unreachable: %s", problem)
            self._changed(source)


def active_brokers(source: Source, credentials: Credentials = ANONYMOUS) -> list[str]:
    """Return HOST:PORT of the web service of each active broker (BrokersBase.getActiveBrokers).

    Raises:
        FetchError: no host of the admin URL answers.
    """
    reasons = []
    for url in source.admin_urls:
        try:
            answer = get_json(f"{url}/admin/v2/brokers", STEP_SECONDS, credentials)
        except FetchError as error:
            reasons.append(str(error))
            continue
        if not isinstance(answer, list) or not all(isinstance(one, str) for one in answer):
            reasons.append("the answer is not a list of brokers; is this the admin API of Pulsar brokers?")
        elif not answer:
            reasons.append("no broker is active")
        else:
            brokers = [one.removeprefix("http://").removeprefix("https://") for one in answer]
            if all(map(_BROKER.fullmatch, brokers)):
                return brokers
            reasons.append("the answer is not a list of brokers as HOST:PORT; is this the admin API of Pulsar brokers?")
    raise FetchError(", ".join(dict.fromkeys(reasons)))


def lac_interval(source: Source, broker: str, credentials: Credentials = ANONYMOUS) -> int:
    """Return the explicit LAC interval of a broker (HOST:PORT) in ms (BrokersBase.getRuntimeConfiguration).

    Raises:
        FetchError: the broker does not answer with it.
    """
    return _lac_interval(_runtime_settings(source, broker, credentials))


def _runtime_settings(source: Source, broker: str, credentials: Credentials) -> Any:
    url = f"{_scheme(source)}://{broker}/admin/v2/brokers/configuration/runtime"
    return get_json(url, STEP_SECONDS, credentials, source.admin_urls)


def _lac_interval(settings: Any) -> int:
    try:
        return int(settings[LAC_SETTING])
    except (KeyError, TypeError, ValueError):
        raise FetchError(f"its runtime configuration has no {LAC_SETTING}") from None


def health(source: Source, broker: str, credentials: Credentials = ANONYMOUS, query: str = "") -> None:
    """Call the health check of a broker (HOST:PORT): it writes a message and reads it back (BrokersBase.healthCheck).

    Args:
        source: the source cluster.
        broker: the broker.
        credentials: for the admin API.
        query: query of the URL, with its question mark.

    Raises:
        FetchError: the broker is unhealthy, or does not answer.
    """
    url = f"{_scheme(source)}://{broker}/admin/v2/brokers/health{query}"
    get_text(url, HEALTH_SECONDS, credentials, source.admin_urls)


def send_to(source: Source, method: str, path: str, value: Any, timeout: float, credentials: Credentials) -> None:
    """Send JSON to the first host of the admin API that accepts it, each within `timeout` seconds.

    Raises:
        FetchError: all hosts failed; it has the last one's reason.
    """
    problem = FetchError("no host")
    for url in source.admin_urls:
        try:
            send(method, f"{url}{path}", value, timeout, credentials)
        except FetchError as error:
            problem = error
        else:
            return
    raise problem


def _scheme(source: Source) -> str:
    return source.admin_url.partition("://")[0]


def _service_addresses(url: str) -> list[tuple[str, int]]:
    scheme, _, hosts = url.partition("://")
    return _addresses(hosts.rstrip("/"), TLS_PORT if scheme == "pulsar+ssl" else PULSAR_PORT)


def _store_addresses(url: str) -> list[tuple[str, int]]:
    store = StoreUrl.parse(url)
    return _addresses(",".join(store.hosts), STORES[store.kind].port)


def _addresses(text: str, default_port: int) -> list[tuple[str, int]]:
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"(.+?)(?::([0-9]+))?", part)
        assert match, part
        found.append((match[1], int(match[2] or default_port)))
    return found


def _unreachable(field: str, url: str, addresses: list[tuple[str, int]], handshake: _Handshake) -> list[str]:
    """Return the problem of a URL; empty when one of its addresses accepts a connection, which is all that a client needs."""
    reasons = []
    try:
        context = handshake.context()
    except FetchError as error:
        return [f"{field} {url}: {error}"]
    for host, port in addresses:
        try:
            connect(host, port, STEP_SECONDS, context, handshake.namespace)
        except FetchError as error:
            reasons.append(str(error))
        else:
            return []
    return [f"{field} {url}: {', '.join(dict.fromkeys(reasons))}"]
