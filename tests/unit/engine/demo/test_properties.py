"""Properties files are edited in place: no glued lines, no second value of a key."""

import pytest
from readonly_engine.demo.properties import edit_properties


@pytest.mark.parametrize(
    ("text", "changes", "edited"),
    [
        pytest.param("a=1\nb=2\nc=3\n", {"b": "9"}, "a=1\nb=9\nc=3\n", id="in its line"),
        pytest.param("a=1\nlast=2", {"new": "3"}, "a=1\nlast=2\nnew=3\n", id="a new key after a line without an end"),
        pytest.param("a=1\nlast=2", {"last": "3"}, "a=1\nlast=3\n", id="the last line without an end"),
        pytest.param("k=1\na=2\nk=3\n", {"k": "9"}, "k=9\na=2\n", id="a key given twice is left once"),
        pytest.param("k=1\nk=2\n\n# k=3\n!k=4\nfree text\n", {}, "k=1\nk=2\n\n# k=3\n!k=4\nfree text\n", id="nothing"),
        pytest.param("# k=1\n#k=2\n", {"k": "3"}, "# k=1\n#k=2\nk=3\n", id="comments are no keys"),
        pytest.param("k = 1\n", {"k": "a=b"}, "k=a=b\n", id="spaces around the sign, signs in values"),
        pytest.param("key=1\nkeyTwo=2\n", {"key": "3"}, "key=3\nkeyTwo=2\n", id="a key that begins like another"),
        pytest.param("zkServers=localhost:2181\n", {"zkServers": ""}, "zkServers=\n", id="a value can be emptied"),
    ],
)
def test_keys_are_set_where_they_stand(text: str, changes: dict[str, str], edited: str) -> None:
    assert edit_properties(text, changes) == edited
