"""The description of one program of a framework: `programs/NAME/program.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from devstack.errors import DevstackError

PROGRAMS: Final = Path(__file__).parent / "programs"
SHARED: Final = Path(__file__).parent / "shared"
DESCRIPTION: Final = "program.yaml"
READER: Final = "Reader"
TYPES: Final = ("Exclusive", "Failover", "Shared", "Key_Shared", READER)
_MAX_TIMEOUT_S: Final = 600.0
_FORMS: Final = {
    "title": "a text",
    "language": "a text",
    "package": "a text",
    "version": "a text between quotes",
    "page": "a text",
    "build": "a list of command lines, each a list of texts",
    "run": "a command line, a list of texts",
    "types": f"a list of {', '.join(TYPES)}",
    "timeout_seconds": f"a number above 0, of at most {_MAX_TIMEOUT_S:g}",
    "partitions": "true or false",
    "admin": "true or false",
    "batches": "true or false",
    "shared": "a list of names of folders of shared/",
    "note": "a text",
}
_OPTIONAL: Final = {"partitions": True, "admin": False, "batches": True, "shared": [], "note": ""}


@dataclass(frozen=True, slots=True)
class Program:
    """One program.

    Attributes:
        folder: its files.
        title: name of the framework, for the page.
        language: its language, for the page.
        package: coordinate of the package in its registry.
        version: pinned version of the package.
        page: what the program is, in one line.
        build: command lines that build it, in order, in a copy of the folder.
        run: command line of the program, in that copy.
        types: subscription types that it can use, or Reader.
        timeout_seconds: limit of one run.
        partitions: whether it can read a partitioned topic.
        admin: whether it sends requests to the admin API.
        batches: whether it gets batches, too.
        shared: folders with further files of the program, which its build finds in shared/NAME.
        note: remark about the framework, for the page; empty for none.
    """

    folder: Path
    title: str
    language: str
    package: str
    version: str
    page: str
    build: tuple[tuple[str, ...], ...]
    run: tuple[str, ...]
    types: tuple[str, ...]
    timeout_seconds: float
    partitions: bool
    admin: bool
    batches: bool
    shared: tuple[Path, ...]
    note: str

    @property
    def name(self) -> str:
        """Name of its folder, which options and results use."""
        return self.folder.name


def load_program(folder: Path) -> Program:
    """Return the program of a folder.

    Raises:
        DevstackError: the description is missing, or a field of it has another form.
    """
    path = folder / DESCRIPTION
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise DevstackError(f"{path}: cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise DevstackError(f"{path}: no mapping", f"give the fields {', '.join(_FORMS)}")
    if unknown := sorted(set(map(str, document)) - set(_FORMS)):
        raise DevstackError(f"{path}: {unknown[0]}: unknown field", f"give {', '.join(_FORMS)}")
    for name, form in _FORMS.items():
        if name not in document and name not in _OPTIONAL:
            raise DevstackError(f"{path}: {name}: missing", f"give {form}")
        if name in document and not _has_form(name, document[name]):
            raise DevstackError(f"{path}: {name}: {document[name]!r}", f"give {form}")
    fields = _OPTIONAL | document
    return Program(
        folder=folder,
        **{
            name: fields[name]
            for name in ("title", "language", "package", "version", "page", "partitions", "admin", "batches", "note")
        },
        build=tuple(tuple(words) for words in fields["build"]),
        run=tuple(fields["run"]),
        types=tuple(fields["types"]),
        shared=tuple(SHARED / name for name in fields["shared"]),
        timeout_seconds=float(fields["timeout_seconds"]),
    )


def load_programs(root: Path = PROGRAMS) -> list[Program]:
    """Return all programs, sorted by name.

    Raises:
        DevstackError: a description is wrong.
    """
    return [load_program(path.parent) for path in sorted(root.glob(f"*/{DESCRIPTION}"))]


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _has_form(name: str, value: Any) -> bool:
    match name:
        case "build":
            return isinstance(value, list) and all(_is_words(words) and words for words in value)
        case "run":
            return _is_words(value) and bool(value)
        case "types":
            return _is_words(value) and bool(value) and set(value) <= set(TYPES)
        case "timeout_seconds":
            return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _MAX_TIMEOUT_S
        case "shared":
            return _is_words(value) and all((SHARED / name).is_dir() for name in value)
        case "partitions" | "admin" | "batches":
            return isinstance(value, bool)
        case _:
            return isinstance(value, str) and bool(value.strip()) and "|" not in value
