"""The shape of the project's Python code: files of each folder, import circles, and lines that stand twice."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

REPEATED_LINES = 6
"""So many equal lines in a row are a repetition."""


class Folder(NamedTuple):
    """Python files that are directly in one folder.

    Attributes:
        path: of the folder, relative to the project.
        files: how many.
        lines: of all of them.
    """

    path: str
    files: int
    lines: int


class Repetition(NamedTuple):
    """Lines that stand in two files.

    Attributes:
        files: both, in order.
        lines: how many equal lines in a row, the longest run.
    """

    files: tuple[str, str]
    lines: int


def sources(root: Path) -> list[Path]:
    """Return the Python files below a folder, without generated ones."""
    return [
        path for path in sorted(root.rglob("*.py")) if not path.name.endswith("_pb2.py") and ".venv" not in path.parts
    ]


def folders(root: Path, files: Iterable[Path]) -> list[Folder]:
    """Count files and lines of each folder."""
    lines: dict[str, list[int]] = defaultdict(list)
    for path in files:
        lines[str(path.parent.relative_to(root))].append(len(path.read_text(encoding="utf-8").splitlines()))
    return [Folder(folder, len(counts), sum(counts)) for folder, counts in sorted(lines.items())]


def imports_inside(package: Path, *, types: bool) -> dict[str, set[str]]:
    """Return the modules of a package that each of its modules imports when it is loaded.

    Args:
        package: folder of the package.
        types: whether imports for type checking count too.
    """
    modules = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sources(package)
    }
    return {
        name: {
            module
            for module in _imported(ast.parse(path.read_text(encoding="utf-8")), modules, types=types)
            if module in modules
        }
        - {name}
        for name, path in modules.items()
    }


def _imported(tree: ast.AST, modules: Container[str], *, types: bool) -> Iterator[str]:
    """Yield names of imported modules; `from package import name` may be the package's own name or a module in it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # `from package import module` imports the module; any other name is the package's own.
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from members if all(member in modules for member in members) else [node.module or "", *members]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            if types:
                yield from _imported(node, modules, types=types)
        elif types or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            # An import inside a function is done when the function is called, and makes no circle at loading.
            yield from _imported(node, modules, types=types)


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the import circles: strongly connected components of at least two modules (Tarjan), largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    for start in graph:
        if start in index:
            continue
        work: list[tuple[str, Iterator[str]]] = []
        index[start] = low[start] = len(index)
        stack.append(start)
        work.append((start, iter(sorted(graph[start]))))
        while work:
            name, following = work[-1]
            module = next(following, None)
            if module is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    at = stack.index(name)
                    component, stack[at:] = sorted(stack[at:]), []
                    if len(component) > 1:
                        found.append(component)
            elif module not in index:
                index[module] = low[module] = len(index)
                stack.append(module)
                work.append((module, iter(sorted(graph[module]))))
            elif module in stack:
                low[name] = min(low[name], index[module])
    return sorted(found, key=len, reverse=True)


def repetitions(root: Path, files: Iterable[Path], lines: int = REPEATED_LINES) -> list[Repetition]:
    """Return the pairs of files that share a run of equal lines, longest run first.

    Blank lines, comments, imports and lines without a letter do not count; indentation does not either.
    """
    texts = {str(path.relative_to(root)): _code(path) for path in files}
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, text in texts.items():
        for at in range(len(text) - lines + 1):
            places[tuple(text[at : at + lines])].append((name, at))
    longest: dict[tuple[str, str], int] = defaultdict(int)
    for found in places.values():
        for number, (one, at) in enumerate(found):
            for other, other_at in found[number + 1 :]:
                if one != other:
                    pair = (min(one, other), max(one, other))
                    longest[pair] = max(longest[pair], _run(texts[one], at, texts[other], other_at))
    return sorted((Repetition(pair, run) for pair, run in longest.items()), key=lambda each: (-each.lines, each.files))


def _code(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    imports: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [
        line
        for number, line in lines
        if number not in imports and not line.startswith("#") and any(letter.isalpha() for letter in line)
    ]


def _run(one: Sequence[str], at: int, other: Sequence[str], other_at: int) -> int:
    length = 0
    while at + length < len(one) and other_at + length < len(other) and one[at + length] == other[other_at + length]:
        length += 1
    return length
