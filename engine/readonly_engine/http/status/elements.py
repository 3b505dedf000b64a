"""HTML elements. Each foreign text gets into the page by `text` or as an attribute's value, which escape it. Pure."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final, NewType

from readonly_engine.status.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Html = NewType("Html", str)
"""Text that is HTML already. Only this module makes it."""

EMPTY: Final = Html("")
_VOID: Final = frozenset({"br", "input", "link", "meta"})


def text(value: str) -> Html:
    """Return a text for the page: escaped, without control characters, and of bounded length."""
    return Html(html.escape(printable(value)))


def name(value: str) -> Html:
    """Return a foreign name, whose direction of writing does not change the text around it."""
    return Html(f"<bdi>{text(value)}</bdi>")


def join(items: Iterable[Html], between: str = "") -> Html:
    """Return several elements as one."""
    return Html(between.join(items))


def tag(element: str, *content: Html, **attributes: str | bool) -> Html:
    """Return an element.

    Args:
        element: its name.
        content: what is in it.
        attributes: texts, not escaped; True for an attribute without a value, False for none. `class_` and `for_` stand for the
            words of Python, and `_` for `-`.
    """
    words = [element]
    for key, value in attributes.items():
        word = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(word)
        elif value is not False:
            words.append(f'{word}="{html.escape(value)}"')
    begin = f"<{' '.join(words)}>"
    return Html(begin if element in _VOID else f"{begin}{''.join(content)}</{element}>")


def style(css: str) -> Html:
    """Return the style sheet, which is the program's own and has no foreign text."""
    return Html(f"<style>{css}</style>")


def document(head: Sequence[Html], body: Sequence[Html]) -> str:
    """Return a whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        + "\n".join(head)
        + "\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


class Column:
    """A column of a table.

    Args:
        title: its head.
        numeric: whether its cells are numbers, which are aligned at their ends.
    """

    __slots__ = ("numeric", "title")

    def __init__(self, title: str, *, numeric: bool = False) -> None:
        self.title = title
        self.numeric = numeric


def table(caption: str, columns: Sequence[Column], rows: Iterable[Sequence[Html]]) -> Html:
    """Return a table with a caption. The first cell of each line is its head. Keyboards can scroll it.

    Args:
        caption: its title.
        columns: its columns.
        rows: the cells of each line, as many as columns.
    """
    head = tag("tr", *(tag("th", text(one.title), scope="col", class_=_class(one)) for one in columns))
    lines = [
        tag(
            "tr",
            tag("th", row[0], scope="row", class_=_class(columns[0])),
            *(tag("td", cell, class_=_class(one)) for one, cell in zip(columns[1:], row[1:], strict=True)),
        )
        for row in rows
    ]
    if not lines:
        lines = [tag("tr", tag("td", text("none"), colspan=str(len(columns))))]
    made = tag(
        "table",
        tag("caption", text(caption)),
        tag("thead", head),
        Html("\n<tbody>\n" + "\n".join(lines) + "\n</tbody>"),
    )
    return tag("div", made, class_="scroll", role="region", aria_label=caption, tabindex="0")


def facts_list(items: Iterable[tuple[str, Html]]) -> Html:
    """Return a list of names and values."""
    return tag("dl", *(tag("div", tag("dt", text(key)), tag("dd", value)) for key, value in items))


def _class(column: Column) -> str | bool:
    return "number" if column.numeric else False
