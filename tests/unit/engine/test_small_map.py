"""SmallMap against a dict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.small_map import SmallMap

NOTHING = object()
STEP = st.tuples(st.sampled_from(["set", "pop", "delete", "clear"]), st.integers(0, 2), st.integers())


@given(st.lists(STEP))
def test_it_is_as_a_dict(steps):
    small, usual = SmallMap(), {}
    for step, key, value in steps:
        if step == "set":
            small[key] = usual[key] = value
        elif step == "pop":
            assert small.pop(key, None) == usual.pop(key, None)
        elif step == "clear":
            small.clear()
            usual.clear()
        elif key in usual:
            del small[key], usual[key]
        else:
            with pytest.raises(KeyError):
                del small[key]
        assert (len(small), bool(small), list(small)) == (len(usual), bool(usual), list(usual))
        assert dict(small) == usual
        assert (list(small.items()), list(small.values())) == (list(usual.items()), list(usual.values()))
        for asked in range(3):
            assert (asked in small) == (asked in usual)
            assert small.get(asked) == usual.get(asked)
            assert small.get(asked, NOTHING) == usual.get(asked, NOTHING)
            if asked in usual:
                assert small[asked] == usual[asked]
            else:
                with pytest.raises(KeyError):
                    small[asked]
