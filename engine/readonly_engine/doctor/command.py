"""Command line of `pulsar-readonly doctor`: check a cluster and this machine. It changes nothing in the cluster."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.config.arguments import add_options
from readonly_engine.config.option import ConfigError, key_of
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.config.reader import make_config, read_config_file
from readonly_engine.doctor.checks.finding import warn
from readonly_engine.doctor.clients import secrets_of
from readonly_engine.doctor.examination import CHECK_CONFIGURATION, Subjects, examine
from readonly_engine.doctor.progress import Progress
from readonly_engine.doctor.redaction import Redactor
from readonly_engine.doctor.report import as_json, as_table, exit_status
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.tool.run import INTERRUPTED, exit_now, print_error, run_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.doctor.checks.finding import Finding

NAME: Final = "pulsar-readonly doctor"
TIMEOUT_S: Final = 60.0
MIN_TIMEOUT_S: Final = 1.0
MAX_TIMEOUT_S: Final = 600.0
MAX_THREADS: Final = 64
"""Threads for name lookups and kazoo: a DNS that does not answer blocks one for each name."""

DEFAULT_WIDTH: Final = 160
"""Columns of the table where the output is no terminal."""

_OWN: Final = ("topic", "namespace", "output", "strict", "timeout")

_EXAMPLES: Final = """examples:
  pulsar-readonly doctor --config serve.yaml
  pulsar-readonly doctor --config serve.yaml --topic orders --namespace public/default --strict
  pulsar-readonly doctor --metadata-store-url zk:zookeeper:2181 --service-url pulsar://broker:6650 --admin-url http://broker:8080
  pulsar-readonly doctor --config serve.yaml --output json

Exit status: 0 without failures, 1 for warnings with --strict, 2 for failures or invalid options, 130 after an interrupt."""


def parser() -> argparse.ArgumentParser:
    """Return the parser. The options of `serve` that are not given are absent."""
    made = OptionParser(
        prog=NAME,
        description="Check a source cluster and this machine, before or after an installation. It takes the options of serve, "
        "and changes nothing in the cluster.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    group = made.add_argument_group("Checks")
    group.add_argument(
        "--topic",
        metavar="TOPIC",
        action="append",
        help="topic to check: its owner, policies, ledgers; may be repeated",
    )
    group.add_argument(
        "--namespace", metavar="TENANT/NAMESPACE", action="append", help="namespace to check; may be repeated"
    )
    group.add_argument(
        "-o",
        "--output",
        type=str.lower,
        choices=("text", "json"),
        default="text",
        help="form of the report (default text)",
    )
    group.add_argument("--strict", action="store_true", default=False, help="exit with status 1 for warnings, too")
    group.add_argument(
        "--timeout", metavar="SECONDS", type=_seconds, default=TIMEOUT_S,
        help=f"limit of the whole command, from {MIN_TIMEOUT_S:g} to {MAX_TIMEOUT_S:g} (default {TIMEOUT_S:g})",
    )  # fmt: skip
    add_options(made)
    return made


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not MIN_TIMEOUT_S <= seconds <= MAX_TIMEOUT_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a number of seconds from {MIN_TIMEOUT_S:g} to {MAX_TIMEOUT_S:g}"
        )
    return seconds


def subjects_of(topics: list[str], namespaces: list[str]) -> Subjects:
    """Return the topics and namespaces of --topic and --namespace, each once.

    Raises:
        ConfigError: a name is invalid.
    """
    try:
        names = [parse_topic_name(text) for text in topics]
    except TopicNameError as error:
        raise ConfigError(f"--topic: {error}") from error
    for text in namespaces:
        try:
            parse_topic_name(f"persistent://{text}/x")
            valid = text.count("/") == 1
        except TopicNameError:
            valid = False
        if not valid:
            raise ConfigError(f"--namespace: must be TENANT/NAMESPACE, not {text!r}")
    return Subjects(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(namespaces)))


def main(argv: list[str]) -> int:
    """Run the command. It ends the process itself, because a DNS that does not answer would keep its threads running.

    Returns:
        The exit status 2 for invalid options.
    """
    given = vars(parser().parse_args(argv))
    own: dict[str, Any] = {name: given.pop(name) for name in _OWN if name in given}
    # The report has the texts of the engine's warnings and errors. A log would have them with their secrets.
    logging.basicConfig(level=logging.CRITICAL, format=f"{NAME}: %(message)s")
    path = given.pop("config", None)
    flags = {key_of(name): value for name, value in given.items()}
    try:
        wanted = subjects_of(own.get("topic", []), own.get("namespace", []))
        ignored: list[str] = []
        config = make_config(read_config_file(Path(path), ignored.append) if path else {}, flags, topics_required=False)
    except ConfigError as error:
        print_error(NAME, Redactor(()).text(str(error)))
        return 2
    return run_command(NAME, _check(config, wanted, own, ignored), ())


async def _check(config: EngineConfig, wanted: Subjects, own: Mapping[str, Any], ignored: list[str]) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MAX_THREADS))
    progress = Progress(sys.stderr, NAME)
    writing = asyncio.ensure_future(progress.run())
    try:
        found = await examine(config, wanted, own["timeout"], progress)
    except asyncio.CancelledError:
        exit_now(INTERRUPTED)
    finally:
        writing.cancel()
    redactor = Redactor(secrets_of(config))
    found = [*(redactor.finding(_ignored(key)) for key in ignored), *found]
    width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    try:
        sys.stdout.write(as_json(found) if own["output"] == "json" else as_table(found, width))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has ended, for example `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    exit_now(exit_status(found, strict=own["strict"]))


def _ignored(key: str) -> Finding:
    """Return the finding about a key of the file that this version does not have (unknown-keys: warn)."""
    observed, remedy = "unknown key in the file of --config, ignored", "correct it, or use the version that has it"
    return warn(CHECK_CONFIGURATION, observed, remedy, key)
