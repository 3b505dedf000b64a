"""The blocks of shell commands in pages of the documentation, and the commands in a block."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
TOP: Final = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "lab/README.md")
"""Pages outside docs/."""

GENERATED: Final = frozenset({"reference/api.md", "reference/cli.md"})
"""Pages that `make docs-pages` and `make crds` write: their blocks are the help of the commands, which the parsers print."""

SHELLS: Final = frozenset({"", "bash", "sh", "shell", "console"})
"""Languages of blocks that may be commands; a block without a language may also be output or YAML."""

PROGRAMS: Final = frozenset(
    {
        *(
            "bin/pulsar",
            "bin/pulsar-admin",
            "bin/pulsar-client",
            "bin/pulsar-daemon",
            "buildah",
            "cosign",
            "curl",
            "docker",
            "export",
            "git",
            "helm",
            "journalctl",
            "kubectl",
        ),
        *(
            "make",
            "operator-sdk",
            "pip",
            "pulsar-admin",
            "pulsar-readonly",
            "python",
            "python3",
            "sed",
            "sha256sum",
            "systemctl",
            "tar",
            "useradd",
        ),
    }
)
"""First words of commands; `.venv/bin/` and `/opt/pulsar-readonly/bin/` are left out."""

_FENCE: Final = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_SPAN: Final = re.compile(r"`([^`\n]+)`")
_ASSIGNMENT: Final = re.compile(r"[A-Z_]+=.*")


@dataclass(frozen=True, slots=True)
class Block:
    """A block between two fences.

    Attributes:
        page: path from docs/.
        language: word after the first fence; empty for none.
        text: its lines.
    """

    page: str
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line."""
        return self.text.strip().partition("\n")[0].strip()


def in_text(page: str, text: str) -> Iterator[Block]:
    """Yield all blocks of a page."""
    for found in _FENCE.finditer(text):
        yield Block(page, found[2].strip(), textwrap.dedent(found[3]))


def of_page(page: str) -> list[Block]:
    """Return all blocks of a page."""
    return list(in_text(page, (DOCS / page).read_text(encoding="utf-8")))


def pages() -> list[str]:
    """Return the pages whose blocks are in the registry, by their paths from docs/."""
    inside = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - GENERATED
    return sorted(inside | {f"../{name}" for name in TOP})


def spans(text: str) -> list[str]:
    """Return the commands between single backticks in the prose of a page."""
    return [span for span in _SPAN.findall(_FENCE.sub("", text)) if " " in span and has_commands(span)]


def indented(text: str) -> list[str]:
    """Return the indented lines outside of fences that are commands: no registry would see them."""
    lines = _FENCE.sub("", text).splitlines()
    return [line.strip() for line in lines if line.startswith("    ") and has_commands(line.strip())]


def candidates() -> list[Block]:
    """Return the blocks of these pages that are commands, or have no language."""
    return [block for page in pages() for block in of_page(page) if block.language in SHELLS]


def program(words: list[str]) -> str:
    """Return the program of a command, without the folder of a virtual environment; empty for none."""
    return re.sub(r"^(?:\.venv/bin|/opt/pulsar-readonly/bin)/", "", words[0]) if words else ""


def commands(text: str) -> list[list[str]]:
    """Return the commands of a block as words; comments, assignments, `sudo`, redirections and punctuation are left out.

    Raises:
        ValueError: a quote is not closed.
    """
    found: list[list[str]] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        skipped = False
        for word in lexer:
            if set(word) <= set("|&;"):
                found.append(words)
                words = []
            elif set(word) <= set("<>"):
                skipped = True
            elif skipped:
                skipped = False
            else:
                words.append(word)
        found.append(words)
    return [plain for words in found if (plain := _plain(words))]


def _plain(words: list[str]) -> list[str]:
    """Return a command without variables before it, and without sudo and its user."""
    while words and _ASSIGNMENT.fullmatch(words[0]):
        words = words[1:]
    if words[:1] == ["sudo"]:
        words = words[3:] if words[1:2] == ["-u"] else words[1:]
    return words


def has_commands(text: str) -> bool:
    """Return whether a line begins with a known program."""
    starts = (_plain(line.split()) for line in text.splitlines() if not line.startswith("  "))
    return any(program(words) in PROGRAMS for words in starts if words)
