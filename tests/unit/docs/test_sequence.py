"""Diagrams as SVG: what is read, what is drawn, and that each committed picture is what its text gives."""

import re
import xml.etree.ElementTree as ET

import pytest

from docsite.__main__ import DOCS, pictures
from docsite.sequence import Begin, DiagramError, End, Message, Note, Otherwise, draw, parse

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
NAMESPACE = {"svg": "http://www.w3.org/2000/svg"}


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


def elements(drawn: str, name: str) -> list[ET.Element]:
    return ET.fromstring(drawn).findall(f".//svg:{name}", NAMESPACE)


def test_the_drawing_has_every_text_within_its_borders():
    drawn = draw(parse(TEXT))
    texts = {one.text for one in elements(drawn, "text")}
    assert texts == {
        "A <lookup>",
        "Consumer",
        "Broker",
        "LOOKUP",
        "alt: bound",
        "Connect & go",
        "else: unbound",
        "nothing",
        "PING",
    }
    width, height = (float(ET.fromstring(drawn).get(name)) for name in ("width", "height"))
    for one in elements(drawn, "text"):
        length = len(one.text) * 6.0
        left = float(one.get("x")) - (length / 2 if one.get("text-anchor") == "middle" else 0)
        assert left >= 0, one.text
        assert left + length <= width, one.text
        assert 0 < float(one.get("y")) < height, one.text


@pytest.mark.parametrize("name", pictures())
def test_no_box_of_a_picture_is_cut(name):
    picture = ET.fromstring(pictures()[name])
    width = float(picture.get("width"))
    for box in picture.findall("svg:rect", NAMESPACE):
        left = float(box.get("x", "0"))
        assert left >= 0
        assert left + float(box.get("width")) <= width


def test_a_dashed_arrow_is_dashed_and_points_to_its_target():
    paths = [one for one in elements(draw(parse(TEXT)), "path") if one.get("marker-end")]
    assert [one.get("class") for one in paths] == ["m", "m r", "m"]
    ends = [tuple(map(float, re.match(r"M(\S+) \S+?H(\S+)", one.get("d")).groups())) for one in paths[:2]]
    assert ends[0][0] < ends[0][1]
    assert ends[1][0] > ends[1][1]


def test_long_texts_move_participants_apart():
    def gap(text: str) -> float:
        drawn = draw(parse(f"sequenceDiagram\nparticipant A as A\nparticipant B as B\nA->>B: {text}"))
        places = [float(one.get("x")) for one in elements(drawn, "text") if one.get("class") == "p"]
        return places[1] - places[0]

    assert gap("x" * 100) > gap("x") + 300


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
