"""Command line of `pulsar-readonly operator`."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import re
import sys
import textwrap
from typing import TYPE_CHECKING

from readonly_engine.config.log_lines import JsonFormatter, TextFormatter
from readonly_engine.config.option import help_of, options_of
from readonly_engine.config.option_parser import OptionParser

from readonly_operator.settings import FLAGS, Settings, SettingsError, variable_of

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = (
    "Run pools of read-only Pulsar brokers in Kubernetes, from ReadOnlyBrokerPool and ReadOnlyTopicBinding objects."
)
KUBERNETES = (
    "It uses the Kubernetes configuration of the pod that it runs in, else that of KUBECONFIG or ~/.kube/config. "
    "The settings can also be environment variables; flags override them:"
)
WIDTH = 100
"""Columns of the text after the options."""

LIVENESS = re.compile(r"http://([^/\s:\[\]]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}/\S*")


def variables() -> str:
    """Return a paragraph for each environment variable, with its description."""
    paragraphs = [f"  {variable_of(one)}: {help_of(one)}" for one in options_of(Settings)]
    return "\n".join(textwrap.fill(text, WIDTH, subsequent_indent="      ") for text in paragraphs)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = OptionParser(
        prog="pulsar-readonly operator",
        description=DESCRIPTION,
        epilog=f"{textwrap.fill(KUBERNETES, WIDTH)}\n{variables()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    scope = made.add_mutually_exclusive_group()
    scope.add_argument(
        FLAGS["namespaces"], action="append", metavar="NS", help="serve this namespace; may be given several times"
    )
    scope.add_argument("--all-namespaces", action="store_true", help="serve all namespaces (the default)")
    for one in options_of(Settings):
        if one.flag == FLAGS.get(one.name):  # not the namespaces, see above
            made.add_argument(one.flag, metavar=one.kind.form, help=help_of(one))
    made.add_argument(
        "--liveness",
        metavar="URL",
        help="answer the liveness probe there, for example http://*:8081/healthz, and the readiness probe at /readyz; "
        "* is all addresses, IPv4 and IPv6",
    )
    made.add_argument("--metrics", metavar="HOST:PORT", help="serve Prometheus metrics there, for example *:8082")
    made.add_argument(
        "--log-format",
        type=str.lower,
        choices=("text", "json"),
        default="text",
        help="form of log lines (default: text)",
    )
    made.add_argument(
        "--log-level",
        type=str.lower,
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="(default: info)",
    )
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Run the operator until a signal ends it.

    Returns:
        The exit status: 0 after a signal, 1 when the operator cannot run, 2 for invalid options.
    """
    options = parser().parse_args(argv)
    namespaces = () if options.all_namespaces else tuple(options.namespace) if options.namespace else None
    try:
        settings = Settings.load(
            os.environ,
            namespaces=namespaces,
            engine_image=options.engine_image,
            lease=options.lease,
            selector=options.selector,
        )
        if options.liveness:
            _check_liveness(options.liveness)
        metrics_address = None if options.metrics is None else _address("--metrics", options.metrics)
    except SettingsError as error:
        return _refuse(error, 2)
    _configure_logs(options.log_format, options.log_level)
    return _run(settings, options.liveness, metrics_address)


def _run(settings: Settings, liveness: str | None, metrics_address: tuple[str, int] | None) -> int:
    # imported late, so that --help does not wait for the Kubernetes client
    from readonly_operator.runtime.handlers import Operation  # noqa: PLC0415
    from readonly_operator.runtime.health import answering, local_host  # noqa: PLC0415
    from readonly_operator.runtime.kopf_process import run  # noqa: PLC0415
    from readonly_operator.runtime.leadership import leading  # noqa: PLC0415

    if metrics_address:
        from prometheus_client import start_http_server  # noqa: PLC0415

        try:
            start_http_server(metrics_address[1], addr=local_host(metrics_address[0].strip("[]")))
        except OSError as error:
            return _refuse(f"--metrics {metrics_address[0]}:{metrics_address[1]}: {error.strerror or error}", 1)
    operation = Operation(settings)
    try:
        with answering(operation.health, liveness), leading(settings, operation.is_active) as leads:
            if leads:
                operation.health.lead()
                run(operation)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE and liveness is not None
        return _refuse(f"--liveness {liveness}: the address is in use" if taken else error, 1)
    except Exception as error:
        if not operation.refusal:
            logging.getLogger(__name__).debug("the operator failed", exc_info=True)
        return _refuse(operation.refusal or error, 1)
    return 0


def _configure_logs(log_format: str, log_level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(of_record=_object_of) if log_format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler])
    level = logging.getLevelName(log_level.upper())
    logging.getLogger().setLevel(level)
    # It logs a line for each event.
    logging.getLogger("kopf.objects").setLevel(level if log_level == "debug" else logging.WARNING)


def _object_of(record: logging.LogRecord) -> dict[str, object]:
    """Return kind and name of the Kubernetes object that kopf logs about, in the form of the operator's own fields."""
    found = getattr(record, "k8s_ref", None) or {}
    names = [found[key] for key in ("namespace", "name") if found.get(key)]
    return {"kind": found.get("kind"), "object": "/".join(names)} if names else {}


def _check_liveness(url: str) -> None:
    if not LIVENESS.fullmatch(url):
        raise SettingsError(f"--liveness {url}: must be http://HOST:PORT/PATH, for example http://*:8081/healthz")


def _address(option: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingsError(f"{option} {text}: must be HOST:PORT, for example *:8082")
    return host, int(port)


def _refuse(error: object, status: int) -> int:
    sys.stderr.write(f"pulsar-readonly operator: {error}\n")
    return status
