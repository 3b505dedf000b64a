"""Handlers of kopf: decorators with a few lines of delegation each.

Only `on.event` handlers watch objects: they keep no state in annotations and set no finalizer. The controller does retries,
deduplication and the resync.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import kopf

from readonly_operator.kube.api_server import ApiServer, KubeError, NoConfigurationError
from readonly_operator.kube.kinds import (
    AUTOSCALER,
    BINDING,
    CERTIFICATE,
    CONFIG_MAP,
    DISRUPTION_BUDGET,
    NAMESPACE,
    NETWORK_POLICY,
    POD,
    POD_MONITOR,
    POOL,
    SERVICE,
    SERVICE_ACCOUNT,
    SOURCE,
    STATEFUL_SET,
    WATCHED,
)
from readonly_operator.kube.names import OPERATOR
from readonly_operator.runtime.controller import Controller, NotInstalledError
from readonly_operator.runtime.health import Health
from readonly_operator.runtime.kopf_retries import Backoffs

if TYPE_CHECKING:
    from readonly_operator.settings import Settings

RETRY_SECONDS = 5
RETRIES = 24
"""Two minutes in all: the definitions may be applied together with the operator, and the API server may be starting."""

_KINDS = {(kind.group, kind.version, kind.plural): kind for kind in (*WATCHED, NAMESPACE)}


@dataclass
class Operation:
    """State that kopf passes to the handlers as `memo`.

    Attributes:
        settings: of this process.
        controller: None until started.
        refusal: why the operator cannot start; empty as long as it can.
        health: for the probes.
    """

    settings: Settings
    controller: Controller | None = None
    refusal: str = ""
    health: Health = field(default_factory=Health)

    def is_active(self) -> bool:
        """Return whether a step may still change something."""
        return self.controller is not None and self.controller.is_active()

    def watch_refused(self) -> None:
        """Note that a request of kopf failed."""
        if self.controller is not None:
            self.controller.watch_refused()


@kopf.on.startup(retries=RETRIES)
def configure(settings: kopf.OperatorSettings, memo: Any, retry: int, **_: Any) -> None:
    """Configure kopf, list all objects and start the workers."""
    settings.watching.server_timeout, settings.watching.client_timeout, settings.watching.connect_timeout = 120, 150, 5
    settings.watching.reconnect_backoff = 1.0
    for kind in WATCHED:
        if kind.selector:
            settings.watching.label_selectors[kind.group, kind.version, kind.plural] = kind.selector
    settings.networking.request_timeout, settings.networking.enforce_retry_after = (
        memo.settings.request_timeout_seconds,
        True,
    )
    settings.networking.error_backoffs = Backoffs(memo.watch_refused)
    settings.scanning.disabled = True  # the kinds are known, so no rights on definitions are needed
    settings.posting.enabled = False
    settings.posting.reporting_component = OPERATOR
    settings.peering.standalone = True
    if memo.is_active():
        raise kopf.TemporaryError("reconciles from before the CRD was deleted are still running", delay=RETRY_SECONDS)
    try:
        controller = Controller(ApiServer(timeout_seconds=memo.settings.request_timeout_seconds), memo.settings)
        controller.start()
        if controller.may_watch_namespaces():
            watch_namespaces()
    except NoConfigurationError as error:
        memo.refusal = str(error)
        raise kopf.PermanentError(memo.refusal) from None
    except (NotInstalledError, KubeError, OSError) as error:
        memo.refusal = str(error)
        if retry + 1 < RETRIES:
            raise kopf.TemporaryError(memo.refusal, delay=RETRY_SECONDS) from None
        raise kopf.PermanentError(memo.refusal) from None
    memo.refusal = ""
    memo.controller = controller
    memo.health.run(controller)


@kopf.on.cleanup()
def stop(memo: Any, **_: Any) -> None:
    """Let the workers finish."""
    memo.health.run(None)
    if memo.controller is not None:
        memo.controller.stop()


@kopf.on.event(POOL.group, POOL.version, POOL.plural)
@kopf.on.event(BINDING.group, BINDING.version, BINDING.plural)
@kopf.on.event(SOURCE.group, SOURCE.version, SOURCE.plural)
@kopf.on.event(SERVICE_ACCOUNT.group, SERVICE_ACCOUNT.version, SERVICE_ACCOUNT.plural)
@kopf.on.event(CONFIG_MAP.group, CONFIG_MAP.version, CONFIG_MAP.plural)
@kopf.on.event(SERVICE.group, SERVICE.version, SERVICE.plural)
@kopf.on.event(CERTIFICATE.group, CERTIFICATE.version, CERTIFICATE.plural)
@kopf.on.event(STATEFUL_SET.group, STATEFUL_SET.version, STATEFUL_SET.plural)
@kopf.on.event(DISRUPTION_BUDGET.group, DISRUPTION_BUDGET.version, DISRUPTION_BUDGET.plural)
@kopf.on.event(AUTOSCALER.group, AUTOSCALER.version, AUTOSCALER.plural)
@kopf.on.event(NETWORK_POLICY.group, NETWORK_POLICY.version, NETWORK_POLICY.plural)
@kopf.on.event(POD_MONITOR.group, POD_MONITOR.version, POD_MONITOR.plural)
@kopf.on.event(POD.group, POD.version, POD.plural)
async def observe(event: Any, resource: kopf.Resource, memo: Any, **_: Any) -> None:
    """Pass a watch event to the controller."""
    memo.controller.observe(_KINDS[resource.group, resource.version, resource.plural], event["type"], event["object"])


@cache  # once in a process, which may start kopf again
def watch_namespaces() -> None:
    """Watch namespaces too, whose labels pools may select. Without the right to do so, kopf would end the process."""
    kopf.on.event(NAMESPACE.group, NAMESPACE.version, NAMESPACE.plural)(observe)
