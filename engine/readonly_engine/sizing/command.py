"""Command line of `pulsar-readonly plan`: the size of a pool for a load. It changes nothing in a cluster."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.config.option import ConfigError, argument_form, help_of, key_of, options_of, read_options
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.config.reader import read_config_file
from readonly_engine.doctor.redaction import Redactor
from readonly_engine.metadata.errors import TopicNameError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.tls import ClientTls, TlsError
from readonly_engine.owner.admin import AdminClient
from readonly_engine.owner.admin_requests import COMMAND_ANSWER_BYTES
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.oauth2 import OAuth2Login
from readonly_engine.sizing.options import ADMIN_KEYS, JSON, PlanConfig, check, with_catch_up, workload_of
from readonly_engine.sizing.plan import make_plan
from readonly_engine.sizing.report import as_json, as_table
from readonly_engine.sizing.source_cluster import read_workload
from readonly_engine.tool.errors import ToolError
from readonly_engine.tool.run import print_error, run_command

if TYPE_CHECKING:
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.sizing.workload import Workload

NAME: Final = "pulsar-readonly plan"

_EXAMPLES: Final = """examples:
  100 Readers of one topic with 1,000 messages of 1 KiB per second:
    pulsar-readonly plan --readers 100 --publish-rate 1000 --message-size 1KiB
  20 topics of 4 partitions, 5,000 batched messages per second in all, two kinds of subscriptions:
    pulsar-readonly plan --topics 20 --partitions 4 --publish-rate 5000 --batch-size 10 --subscriptions Exclusive=10 Shared=2x50
  the load of a namespace as it is, and with 50 more Readers of each topic:
    pulsar-readonly plan --admin-url http://broker:8080 --namespace public/default
    pulsar-readonly plan --admin-url http://broker:8080 --namespace public/default --readers 50

Exit status: 0 for a plan, 1 if the source cluster does not answer, 2 for invalid options, 130 after an interrupt."""


def parser() -> argparse.ArgumentParser:
    """Return the parser. Options that are not given are absent."""
    made = OptionParser(
        prog=NAME,
        description="Estimate the size of a pool for a load: brokers, CPU, memory and network, and the relief of the owner "
        "brokers. The load is that of the options, or of the statistics of a source cluster.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument("--config", metavar="FILE", help="YAML file of serve: --admin-url and its TLS are taken from it")
    groups: dict[str, argparse._ArgumentGroup] = {}
    for one in options_of(PlanConfig):
        group = groups.get(one.group) or groups.setdefault(one.group, made.add_argument_group(one.group))
        form = argument_form(one.kind)
        if one.kind.several:
            form |= {"nargs": "+", "action": "extend"}
        names = ("-o", one.flag) if one.name == "output" else (one.flag,)
        group.add_argument(*names, **form, help=help_of(one))
    return made


def config_of(given: dict[str, Any]) -> PlanConfig:
    """Return the settings from parsed options.

    Raises:
        ConfigError: an option is invalid; names it.
    """
    path = given.pop("config", None)
    flags = {key_of(name): value for name, value in given.items()}
    shared: dict[str, object] = {}
    if path is not None:
        shared = {
            key: value for key, value in read_config_file(Path(path), lambda _: None).items() if key in ADMIN_KEYS
        }
    found = read_options(
        PlanConfig,
        {**shared, **flags},
        lambda one: one.flag if one.key in flags else f"{one.key} in the file of --config",
    )
    config = PlanConfig(**found)
    check(config, frozenset(given))
    return config


def topics_of(config: PlanConfig) -> list[TopicName]:
    """Return the topics of --topic, each once, and check the names of --namespace.

    Raises:
        ConfigError: a name is invalid.
    """
    try:
        names = [parse_topic_name(text) for text in config.topic]
    except TopicNameError as error:
        raise ConfigError(f"--topic: {error}") from error
    for name in names:
        if name.domain != "persistent":
            raise ConfigError(f"--topic: {name} is not persistent; a pool serves persistent topics")
    for text in config.namespace:
        try:
            parse_topic_name(f"persistent://{text}/x")
        except TopicNameError:
            raise ConfigError(f"--namespace: must be TENANT/NAMESPACE, not {text!r}") from None
        if text.count("/") != 1:
            raise ConfigError(f"--namespace: must be TENANT/NAMESPACE, not {text!r}")
    return list(dict.fromkeys(names))


def main(argv: list[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0 for a plan, 1 for a failure of the source cluster, 2 for invalid options.
    """
    given = vars(parser().parse_args(argv))
    logging.basicConfig(level=logging.ERROR, format=f"{NAME}: %(message)s")
    try:
        config = config_of(given)
        topics = topics_of(config)
    except ConfigError as error:
        print_error(NAME, Redactor(()).text(str(error)))
        return 2
    return run_command(NAME, _plan(config, topics), (ToolError,))


async def _plan(config: PlanConfig, topics: list[TopicName]) -> None:
    work = await _observed(config, topics) if config.observes else workload_of(config)
    plan = make_plan(work, config.policy)
    sys.stdout.write(as_json(plan) if config.output == JSON else as_table(plan))


async def _observed(config: PlanConfig, topics: list[TopicName]) -> Workload:
    """Return the load of the source cluster, with the subscriptions that the options add to each topic.

    Raises:
        ToolError: a file cannot be used, or the admin API did not answer.
    """
    try:
        login = None if config.admin_oauth2 is None else OAuth2Login(config.admin_oauth2)
    except (OSError, ValueError) as error:
        raise ToolError(f"--admin-oauth2: {error}") from error
    try:
        tls = None if config.admin_tls is None else ClientTls(config.admin_tls)
        admin = AdminClient(
            *config.admin_urls,
            tls=tls,
            token_file=config.admin_token_file,
            login=login,
            max_answer_bytes=COMMAND_ANSWER_BYTES,
        )
    except TlsError as error:
        raise ToolError(f"--{error}") from error
    except (OSError, ValueError) as error:
        raise ToolError(f"--admin-token-file: {error}") from error
    try:
        async with asyncio.timeout(config.timeout):
            if login is not None:
                await login.refresh()
            namespaces = list(dict.fromkeys(config.namespace))
            work = await read_workload(
                admin, topics, namespaces, batch=config.batch_size, connections=config.connections
            )
    except OwnerUnavailableError as error:
        raise ToolError(Redactor(()).text(str(error))) from error
    except TimeoutError as error:
        raise ToolError(
            f"the statistics did not arrive in {config.timeout:g} s; name fewer topics, or raise --timeout"
        ) from error
    finally:
        await admin.close()
    total = sum(load.topics for load in work.loads)
    loads = tuple(
        with_catch_up(replace(load, subscriptions=(*load.subscriptions, *config.added)), config) for load in work.loads
    )
    more = sum(one.count * one.consumers for one in config.added if not one.passthrough)
    connections = work.connections if config.connections is not None else (work.connections or 0) + more * total
    return replace(work, loads=loads, connections=connections)
