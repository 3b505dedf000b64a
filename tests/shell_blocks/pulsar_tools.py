"""The commands of Pulsar's own tools on the pages: those that kubectl exec and docker compose exec run, too."""

from typing import NamedTuple

from tests.shell_blocks.blocks import DOCS, candidates, commands, has_commands, pages, program, spans


class ToolCommand(NamedTuple):
    """A command of one of Pulsar's tools.

    Attributes:
        tool: `pulsar` or `pulsar-admin`.
        command: its group and name, such as `topics stats`.
        options: the long options.
    """

    tool: str
    command: tuple[str, ...]
    options: tuple[str, ...]


TOOLS = {"bin/pulsar": "pulsar", "bin/pulsar-admin": "pulsar-admin", "pulsar-admin": "pulsar-admin"}


def tool_command(words: list[str]) -> ToolCommand | None:
    """Return the tool's command in a command line, or None."""
    at = next((index for index, word in enumerate(words) if program([word]) in TOOLS), None)
    if at is None or len(words) < at + 3:
        return None
    if words[at + 2].startswith("-"):
        return None  # zookeeper-shell has no group: ZooKeeper's own shell gets its words
    options = tuple(sorted({word.partition("=")[0] for word in words[at + 3 :] if word.startswith("--")}))
    return ToolCommand(TOOLS[program([words[at]])], tuple(words[at + 1 : at + 3]), options)


def on_pages() -> set[ToolCommand]:
    """Return the commands of Pulsar's tools in the blocks and in the prose of all pages."""
    texts = [block.text for block in candidates() if has_commands(block.text)]
    texts += [span for page in pages() for span in spans((DOCS / page).read_text(encoding="utf-8"))]
    found = (tool_command(words) for text in texts for words in commands(text))
    return {one for one in found if one is not None}
