"""The command line of `pulsar-readonly export`."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_engine.config.option_parser import OptionParser
from readonly_engine.metadata.url import FORMS

from readonly_spark.export.errors import ExportError
from readonly_spark.export.settings import (
    AVAILABLE_NOW,
    CHECKPOINT,
    CONTINUOUS,
    FORMATS,
    PARQUET,
    TRIGGERS,
    ExportSettings,
    absolute,
    names,
    pairs,
    start_options,
)
from readonly_spark.export.totals import Totals, progress_line, summary, summary_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.query import StreamingQuery

    from readonly_spark.export.metrics import ExportMetrics
    from readonly_spark.export.progress import ProgressListener
    from readonly_spark.lag.meter import LagMeter

NAME: Final = "pulsar-readonly export"
METADATA_VARIABLE: Final = "PULSAR_READONLY_METADATA_STORE_URL"
JARS_VARIABLE: Final = "PULSAR_READONLY_SPARK_JARS"
POLL_S: Final = 0.5
STOP_TIMEOUT_S: Final = 60.0
_MISSING: Final = re.compile(r"^ModuleNotFoundError: No module named '(\w+)", re.MULTILINE)
_CAUSE: Final = re.compile(r"\b(?:SourceError|DataLossError|OptionError|OffsetError|ExportError): ([^\n]*)")

_EXAMPLES: Final = """examples:
  pulsar-readonly export --topics orders --to /data/orders
  pulsar-readonly export --topics orders,returns --to /data/shop --format delta --partition-by topic,publishDate
  pulsar-readonly export --topics-pattern 'public/default/sensor-.*' --to /data/sensors --trigger continuous
  pulsar-readonly export --topics orders --from 2026-11-21T00:00:00Z --columns messageId,publishTime,value --to /data/today
  pulsar-readonly export --topics orders --to s3a://lake/orders --checkpoint s3a://lake/_orders --master spark://spark:7077

The same command resumes where the last run ended, also after a crash."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = OptionParser(
        prog=NAME,
        description="Export topics to a Parquet, Delta or Iceberg table with Apache Spark, from bookies and tiered storage.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--metadata-store-url", metavar="URL", default=os.environ.get(METADATA_VARIABLE),
        help=f"metadata store of the cluster, {FORMS} (default: environment variable {METADATA_VARIABLE})")  # fmt: skip
    topics = made.add_mutually_exclusive_group(required=True)
    topics.add_argument(
        "--topics", "--topic", metavar="TOPIC[,TOPIC...]", help="topics; all partitions of partitioned topics"
    )
    topics.add_argument(
        "--topics-pattern", metavar="RE", help="topics by a regular expression (RE2) for TENANT/NAMESPACE/TOPIC"
    )
    add("--to", metavar="PATH", required=True, help="folder or URI of the table")
    add("--format", type=str.lower, choices=FORMATS, default=PARQUET, help="default %(default)s")
    add("--trigger", type=str.lower, choices=TRIGGERS, default=AVAILABLE_NOW,
        help="available-now (default): export the current messages and end; continuous: run until SIGTERM or Ctrl-C")  # fmt: skip
    add("--interval", metavar="SECONDS", type=_seconds, default=10.0,
        help="between micro-batches, with --trigger continuous (default %(default)s)")  # fmt: skip
    add("--from", dest="start", metavar="WHERE", default="earliest",
        help="start of the first run: earliest (default), latest, a time (2026-11-21T12:00:00Z, or ms since the epoch), "
        'or {"TOPIC": "LEDGER:ENTRY", ...}')  # fmt: skip
    add("--columns", metavar="NAME[,NAME...]", default="", help="columns of the table (default: all)")
    add("--partition-by", metavar="NAME[,NAME...]", default="",
        help="partition files by columns, or by the derived columns publishDate or publishHour")  # fmt: skip
    add("--checkpoint", metavar="PATH", help=f"folder or URI of the export's state (default {CHECKPOINT} below --to)")
    add("--adopt", action="store_true",
        help="with a new --checkpoint: resume a table that another checkpoint wrote")  # fmt: skip
    add("--max-bytes-per-batch", metavar="SIZE", default="512MiB",
        help="target size of a micro-batch in stored bytes; a crash repeats at most one (default %(default)s)")  # fmt: skip
    add("--option", metavar="NAME=VALUE", action="append", default=[],
        help="an option of the source pulsar-readonly; repeatable")  # fmt: skip
    add("--table", metavar="NAMESPACE.NAME", default="pulsar.messages",
        help="name of the Iceberg table in its catalog (default %(default)s)")  # fmt: skip
    add("--catalog", metavar="NAME=VALUE", action="append", default=[],
        help="property of the Iceberg catalog, as in pyiceberg; repeatable (default: a file in the table's folder)",
    )  # fmt: skip
    add("--expire-snapshots", metavar="HOURS", type=_hours,
        help="of an Iceberg table, expire the export's snapshots at this age, also fractions (default: they stay)")  # fmt: skip
    add("--master", metavar="URL", help="Spark's master (default: the one of spark-submit, else local[*])")
    add("--shared-folder", action="store_true",
        help="with executors on other machines: the path --to is one folder on all of them, as on a network volume")  # fmt: skip
    add("--conf", metavar="NAME=VALUE", action="append", default=[], help="Spark setting; repeatable")
    add("--jars", metavar="PATH[,PATH...]", default=os.environ.get(JARS_VARIABLE, ""),
        help=f"jars or folders of jars (default: environment variable {JARS_VARIABLE})")  # fmt: skip
    add("--ship-code", action="store_true",
        help="send this project's code to the executors, which must have its dependencies")  # fmt: skip
    add(
        "--progress",
        metavar="SECONDS",
        type=_seconds,
        default=5.0,
        help="between progress lines (default %(default)s)",
    )
    add("--metrics", metavar="[HOST:]PORT", type=_address,
        help="serve Prometheus metrics there: exported messages, and the lag of each topic in messages and seconds")  # fmt: skip
    add(
        "-o",
        "--output",
        type=str.lower,
        choices=("text", "json"),
        default="text",
        help="format of the summary (default %(default)s)",
    )
    return made


def _seconds(text: str) -> float:
    return _above_0(text, "seconds")


def _hours(text: str) -> float:
    return _above_0(text, "hours")


def _above_0(text: str, unit: str) -> float:
    if not re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number of {unit} above 0")
    return float(text)


def _address(text: str) -> tuple[str, int]:
    from readonly_spark.lag.metrics import parse_address  # noqa: PLC0415  --help does not need its library

    try:
        return parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def settings_of(arguments: argparse.Namespace, folder: Path) -> ExportSettings:
    """Return the settings of a command line.

    Args:
        arguments: the parsed arguments.
        folder: the current folder.

    Raises:
        ExportError: an option is missing or contradicts another.
    """
    if not arguments.metadata_store_url:
        raise ExportError(f"--metadata-store-url is missing and {METADATA_VARIABLE} is not set; set it to {FORMS}")
    source = pairs("--option", arguments.option)
    named = {"topics": arguments.topics} if arguments.topics else {"topicsPattern": arguments.topics_pattern}
    own = {
        "metadataStoreUrl": arguments.metadata_store_url,
        **{name: value for name, value in named.items() if value},
        **start_options(arguments.start),
        "maxBytesPerTrigger": arguments.max_bytes_per_batch,
    }
    if {name.lower() for name in source} & {"maxmessagespertrigger"}:
        del own["maxBytesPerTrigger"]
    for name in source:
        if name.lower() in {key.lower() for key in own}:
            raise ExportError(f"--option {name}: use the command's own option, see --help")
    to = absolute(arguments.to, folder)
    made = ExportSettings(
        source={**own, **source},
        to=to,
        checkpoint=absolute(arguments.checkpoint, folder) if arguments.checkpoint else f"{to.rstrip('/')}/{CHECKPOINT}",
        table_format=arguments.format,
        trigger=arguments.trigger,
        interval_s=arguments.interval,
        columns=names(arguments.columns),
        partition_by=names(arguments.partition_by),
        table=arguments.table,
        catalog=pairs("--catalog", arguments.catalog),
        shared_folder=arguments.shared_folder,
        expire_snapshots_h=arguments.expire_snapshots,
    )
    if arguments.master is not None:
        made.check_master(arguments.master)  # `session` checks the master of spark-submit
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the command; return 0 on success, 1 after an error, 130 or 143 after an interrupt before the end."""
    made = parser()
    arguments = made.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format=f"{NAME}: %(message)s", stream=sys.stderr)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # kazoo logs each attempt; the last error suffices
    logging.getLogger("py4j").setLevel(
        logging.CRITICAL
    )  # it logs a stack trace of what ends the query, which `_cause` prints
    try:
        settings = settings_of(arguments, Path.cwd())
        configuration = pairs("--conf", arguments.conf)
        with _signals() as stopped:
            return _export(settings, configuration, arguments, stopped)
    except ExportError as error:
        print(f"{NAME}: {error}", file=sys.stderr)  # noqa: T201
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"pyspark", "pyiceberg", "pyarrow", "fastavro"}:
            raise
        print(f"{NAME}: package {error.name} is missing; install pulsar-readonly[spark]", file=sys.stderr)  # noqa: T201
    return 1


class _Stopped(threading.Event):
    """Set by a signal; `number` is the signal."""

    number = 0


@contextmanager
def _signals() -> Iterator[_Stopped]:
    stopped = _Stopped()

    def stop(number: int, frame: object) -> None:
        del frame
        stopped.number = number
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _export(
    settings: ExportSettings,
    configuration: dict[str, str],
    arguments: argparse.Namespace,
    stopped: _Stopped,
) -> int:
    # Spark is slow to import, and --help does not need it.
    from readonly_spark.errors import SourceError  # noqa: PLC0415
    from readonly_spark.export.session import check_version, session, start  # noqa: PLC0415
    from readonly_spark.export.table import ExportTable  # noqa: PLC0415
    from readonly_spark.lag.meter import LagMeter  # noqa: PLC0415

    began = time.monotonic()
    check_version()
    try:
        with (
            LagMeter(settings.source, "--metadata-store-url") as meter,
            ExportTable(settings, meter.cluster(), adopt=arguments.adopt) as table,
        ):
            table.lock()
            with (
                session(settings, arguments.master, arguments.jars, configuration, ship=arguments.ship_code) as spark,
                table,
            ):
                table.open(spark)
                totals = Totals(ends=table.checkpoint.next_entries())
                with _metrics(totals, arguments.metrics) as metrics:
                    query, listener = start(spark, settings, table, totals)
                    _watch(query, listener, totals, meter, stopped, began, arguments.progress, metrics)
                cause = None if stopped.is_set() else query.exception()
                if cause is not None:
                    raise ExportError(_cause(str(cause)))
                found = summary(totals, time.monotonic() - began, meter.measure(totals.ends))
    except SourceError as error:
        raise ExportError(str(error)) from None
    print(json.dumps(found) if arguments.output == "json" else summary_text(found, settings.to))  # noqa: T201
    # A signal is the normal end of a continuous export.
    return 128 + stopped.number if stopped.is_set() and settings.trigger != CONTINUOUS else 0


@contextmanager
def _metrics(totals: Totals, address: tuple[str, int] | None) -> Iterator[ExportMetrics | None]:
    if address is None:
        yield None
        return
    from readonly_spark.export.metrics import ExportMetrics  # noqa: PLC0415  only with --metrics

    with ExportMetrics(totals, address) as metrics:
        yield metrics


def _watch(
    query: StreamingQuery,
    listener: ProgressListener,
    totals: Totals,
    meter: LagMeter,
    stopped: _Stopped,
    began: float,
    every: float,
    metrics: ExportMetrics | None,
) -> None:
    """Print progress until the query ends or a signal arrives, then stop it."""
    from py4j.protocol import Py4JError  # noqa: PLC0415

    printed_at = began
    if metrics is not None:
        metrics.measured(meter.measure(totals.ends), meter.measured_at)
    while query.isActive and not stopped.wait(POLL_S):
        now = time.monotonic()
        if now - printed_at >= every:
            printed_at = now
            lags = meter.measure(totals.ends)
            if metrics is not None:
                metrics.measured(lags, meter.measured_at)
            line = progress_line(totals, now - began, lags)
            print(f"{NAME}: {line}", file=sys.stderr, flush=True)  # noqa: T201
    if stopped.is_set():
        with suppress(OSError, Py4JError):  # the JVM may have received the signal too
            query.stop()
            listener.wait()
        return
    listener.wait()


def _cause(text: str) -> str:
    """Return the cause of a failed query from Spark's long message."""
    missing = _MISSING.findall(text)
    if missing and missing[-1].startswith("readonly_"):
        return f"Spark's workers lack package {missing[-1]}; use --ship-code, or install pulsar-readonly there"
    if missing:
        return f"Spark's workers lack package {missing[-1]}; install pulsar-readonly[spark] there"
    found = _CAUSE.findall(text)
    return found[-1].strip() if found else text.strip()


if __name__ == "__main__":
    sys.exit(main())
