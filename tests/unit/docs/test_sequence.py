"""Diagrams as SVG: what is read, what is drawn, and that each committed picture is what its text gives."""

import re
import xml.etree.ElementTree as ET

import pytest

from docsite.__main__ import DOCS, pictures
from docsite.sequence import Begin, DiagramError, End, Message, Note, Otherwise, parse

TEXT = """sequenceDiagram
    title A <lookup>
    participant C as Consumer
    participant B as Broker
    %% a comment
    C->>B: LOOKUP
    alt bound
        B-->>C: Connect & go
    else unbound
        Note over C,B: nothing
    end
    B->>B: PING
"""


def test_a_diagram_is_read():
    diagram = parse(TEXT)
    assert (diagram.title, diagram.names) == ("A <lookup>", ["Consumer", "Broker"])
    assert diagram.steps == [
        Message(0, 1, "LOOKUP", dashed=False),
        Begin("alt: bound"),
        Message(1, 0, "Connect & go", dashed=True),
        Otherwise("else: unbound"),
        Note(0, 1, "nothing"),
        End(),
        Message(1, 1, "PING", dashed=False),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("graph TD", "first line"),
        ("", "first line"),
        ("sequenceDiagram\nparticipant C as C\nC->>B: x", "no participant B"),
        ("sequenceDiagram\nparticipant C as C\nC=>C: x", "no step of a diagram: C=>C: x"),
        ("sequenceDiagram\nend", "no step of a diagram: end"),
        ("sequenceDiagram\nelse x", "no step of a diagram: else x"),
        ("sequenceDiagram\nloop x", "a frame has no end"),
    ],
)
def test_what_is_no_diagram_is_refused(text, said):
    with pytest.raises(DiagramError, match=re.escape(said)):
        parse(text)


@pytest.mark.parametrize("name", pictures())
def test_no_box_of_a_picture_is_cut(name):
    picture = ET.fromstring(pictures()[name])
    width = float(picture.get("width"))
    for box in picture.findall("{http://www.w3.org/2000/svg}rect"):
        left = float(box.get("x", "0"))
        assert left >= 0
        assert left + float(box.get("width")) <= width


@pytest.mark.parametrize("name", pictures())
def test_the_picture_is_what_its_text_gives(name):
    assert (DOCS / name).read_text(encoding="utf-8") == pictures()[name], f"docs/{name} is behind: make docs-pages"


def test_every_picture_has_its_text_and_is_shown():
    assert {f"pictures/{path.name}" for path in DOCS.glob("pictures/*.svg")} == set(pictures())
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    assert [name for name in pictures() if name not in pages] == []


def test_pictures_need_no_other_file():
    for name in pictures():
        assert (
            re.findall(r"(?:href|src|url)\s*[=(]\s*[\"']?(?!#)[^\"')]*", pictures()[name].replace("url(#a)", "")) == []
        ), name
