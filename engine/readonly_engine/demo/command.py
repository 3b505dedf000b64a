"""Command line of `pulsar-readonly demo`."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from readonly_engine.config import kinds
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.demo.distribution import archive, installed, missing_programs, unpacked
from readonly_engine.demo.errors import DemoError
from readonly_engine.demo.run import DemoOptions, run_demo
from readonly_engine.demo.source_cluster import SourceCluster
from readonly_engine.metadata.url import FORMS, PATTERN
from readonly_engine.tool.run import INTERRUPTED, print_error, run_command

NAME: Final = "pulsar-readonly demo"
MAX_MESSAGES: Final = 1_000_000
MIB: Final = 1 << 20
DATA_MIB: Final = 500
ARCHIVE_MIB: Final = 900
"""Disk of the archive and its unpacked files."""

_SERVICE: Final = kinds.urls("pulsar", "pulsar+ssl")
_NAMESPACE: Final = re.compile(r"[-=:.\w]+/[-=:.\w]+")

_EXAMPLES: Final = """examples:
  pulsar-readonly demo
  pulsar-readonly demo --keep --open
  pulsar-readonly demo --pulsar-home /opt/apache-pulsar-4.0.8
  pulsar-readonly demo --metadata-store-url zk:zookeeper:2181 --service-url pulsar://broker:6650 --admin-url http://broker:8080

Without a cluster it starts a stock Pulsar: --pulsar-home, PULSAR_HOME, pulsar in the PATH, or an archive by Maven in the cache
(PULSAR_READONLY_CACHE, default ~/.cache/pulsar-readonly). In a running cluster it creates one topic, and deletes it
at its end. It asks first, or needs --yes.
Exit status: 0 if all messages arrived, 1 if not or if a part failed, 2 for invalid options, 130 after an interrupt."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's options."""
    made = OptionParser(
        prog=NAME,
        description="Show a pool at work: stock clients read a topic through two read-only brokers, one of which is killed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--messages", type=_messages, default=10_000, metavar="N", help="messages to publish (default 10000)"
    )
    made.add_argument("--keep", action="store_true", help="keep all running after the report, until Ctrl-C")
    made.add_argument("--yes", action="store_true", help="do not ask before anything is created in a running cluster")
    made.add_argument("--open", action="store_true", help="open the status page in a browser")
    made.add_argument("--pulsar-home", type=Path, metavar="FOLDER", help="an unpacked Pulsar to start")
    running = made.add_argument_group("a running cluster instead of a stock Pulsar, all three together")
    running.add_argument(
        "--metadata-store-url",
        type=_store,
        metavar="URL",
        help=f"its metadata store, {FORMS}",
    )
    running.add_argument("--service-url", type=_service_url, metavar="URL", help="its service URL, pulsar://HOST:PORT")
    running.add_argument("--admin-url", type=_admin_url, metavar="URL", help="its admin API, http://HOST:PORT")
    running.add_argument("--token-file", type=Path, metavar="FILE", help="token of brokers, clients and the admin API")
    running.add_argument(
        "--namespace", type=_namespace, default="public/default", help="namespace of the topic (default public/default)"
    )
    return made


def _messages(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_MESSAGES:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of messages; give 1 to {MAX_MESSAGES}")
    return int(text)


def _namespace(text: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no namespace; give TENANT/NAMESPACE, as public/default")
    return text


def _store(text: str) -> str:
    if not re.fullmatch(PATTERN, text):
        raise argparse.ArgumentTypeError(f"{text!r} is no metadata store; give {FORMS}")
    return text


def _service_url(text: str) -> str:
    read = _SERVICE.read(text)
    if read is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no service URL; give {_SERVICE.expected}")
    return read


def _admin_url(text: str) -> str:
    read = kinds.ENDPOINT.read(text)
    if read is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no admin API; give {kinds.ENDPOINT.expected}")
    return read.rstrip("/")


def options_of(made: argparse.ArgumentParser, parsed: argparse.Namespace) -> DemoOptions:
    """Return the checked options; end the process with status 2 if they contradict each other."""
    addresses = (parsed.metadata_store_url, parsed.service_url, parsed.admin_url)
    if any(addresses) and not all(addresses):
        made.error("a running cluster needs all of --metadata-store-url, --service-url and --admin-url")
    if parsed.token_file and not any(addresses):
        made.error("--token-file goes with --metadata-store-url, --service-url and --admin-url")
    if parsed.pulsar_home and any(addresses):
        made.error("--pulsar-home starts a Pulsar: leave it out, or leave out the addresses of a running cluster")
    if all(addresses) and not parsed.yes and not sys.stdin.isatty():
        made.error(
            "there is no terminal to ask in before a topic is created in the running cluster: give --yes (make: YES=1)"
        )
    return DemoOptions(
        cluster=SourceCluster(*addresses) if all(addresses) else None,
        pulsar_home=parsed.pulsar_home,
        token_file=str(parsed.token_file.absolute()) if parsed.token_file else "",
        namespace=parsed.namespace,
        messages=parsed.messages,
        keep=parsed.keep,
        open_page=parsed.open,
        ask=not parsed.yes,
    )


def check_machine(options: DemoOptions) -> DemoOptions:
    """Check all that the demo needs before it starts anything; return the options with the Pulsar that is installed.

    Raises:
        DemoError: something is missing; the text names all of it.
    """
    if not sys.platform.startswith("linux"):
        raise DemoError(f"the demo runs on Linux, and this is {sys.platform}")
    if importlib.util.find_spec("pulsar") is None:
        raise DemoError("the Python package pulsar-client is missing: pip install 'pulsar-readonly[demo]'")
    if options.token_file:
        try:
            Path(options.token_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DemoError(f"--token-file {options.token_file}: {error}") from error
    if options.cluster is not None:
        return options
    home = installed(options.pulsar_home)
    if missing := missing_programs(home):
        raise DemoError(
            f"missing: {', '.join(missing)}. Debian's packages are in parentheses; or give a running cluster"
        )
    _check_disk(Path(tempfile.gettempdir()), DATA_MIB)
    if home is None and not unpacked().is_dir():
        folder = archive().parent
        folder.mkdir(parents=True, exist_ok=True)
        _check_disk(folder, ARCHIVE_MIB)
    return DemoOptions(
        pulsar_home=home,
        namespace=options.namespace,
        messages=options.messages,
        keep=options.keep,
        open_page=options.open_page,
    )


def _check_disk(folder: Path, needed_mib: int) -> None:
    free = shutil.disk_usage(folder).free // MIB
    if free < needed_mib:
        raise DemoError(f"{folder} has {free} MiB free, and {needed_mib} MiB are needed: make room there")


def main(argv: list[str]) -> int:
    """Run the command.

    Returns:
        The exit status, as in `--help`.
    """
    made = parser()
    try:
        options = check_machine(options_of(made, made.parse_args(argv)))
    except DemoError as error:
        print_error(NAME, str(error))
        return 1
    status = run_command(NAME, run_demo(options), (DemoError,))
    return 0 if options.keep and status == INTERRUPTED else status
