"""Which bindings fit into a pool's ConfigMap."""

import pytest
from readonly_operator.model.lookup import Entry, LookupConfig, entry_size
from readonly_operator.model.size_limit import MAX_BYTES, fit

KUBERNETES_LIMIT = 1 << 20
"""MaxSecretSize of Kubernetes' API validation, which ConfigMaps have too."""


def entry(name: str, topics: int, length: int = 1000) -> Entry:
    return Entry(
        f"team/{name}", tuple(f"persistent://public/default/{number:03}{'x' * length}" for number in range(topics))
    )


def names(fitted):
    return [one.name.removeprefix("team/") for one in fitted.entries]


def test_sizes_add_up_to_the_file():
    entries = [entry("a", 3), entry("b", 200), Entry("team/ü", ("persistent://public/default/ü",), tail="Owner")]
    empty = len(LookupConfig.of_entries([]).yaml()) - len(" []")
    assert sum(map(entry_size, entries)) + empty == len(LookupConfig.of_entries(entries).yaml().encode())


def test_the_largest_bindings_of_a_pool_are_refused_one_by_one():
    large = [entry(f"large{number}", 256) for number in range(8)]  # as with two lists of 256 topics of 500 characters
    fitted = fit([*large, entry("small", 1)], {}, "demo")
    assert names(fitted) == ["large0", "large1", "large2", "small"]
    assert set(fitted.refused) == {f"team/large{number}" for number in range(3, 8)}
    assert len(LookupConfig.of_entries(fitted.entries).yaml().encode()) < KUBERNETES_LIMIT
    message = fitted.refused["team/large3"]
    size = entry_size(large[3])
    assert message.startswith(
        f"it takes {size:,} bytes, and {MAX_BYTES - 3 * size:,} of the 1,000,000 bytes for the bindings of"
    )
    assert "former" not in message


def test_an_older_binding_that_grows_takes_no_room_of_another():
    former = {
        one.name: one for one in (entry("old", 100), entry("young", 250), entry("third", 250), entry("fourth", 250))
    }
    grown = fit([entry("old", 256), *list(former.values())[1:]], former, "demo")
    assert set(grown.entries) == set(former.values())
    assert grown.refused["team/old"].endswith("; brokers keep its former topics and options")
    shrunk = fit([entry("old", 1), *list(former.values())[1:], entry("new", 90)], former, "demo")
    assert shrunk.refused == {}
    assert "new" in names(shrunk)


def test_a_deleted_binding_makes_room():
    former = {one.name: one for one in (entry(str(number), 250) for number in range(3))}
    wanted = [former["team/1"], former["team/2"], entry("new", 250)]
    assert fit(wanted, former, "demo").refused == {}


@pytest.mark.parametrize("topics", [1, 256])
def test_a_config_that_is_too_large_already_only_shrinks(topics):
    former = {"team/a": entry("a", 10), "team/b": entry("b", 10)}
    fitted = fit([entry("a", topics), former["team/b"]], former, "demo", limit=1000)
    assert (fitted.refused == {}) is (topics == 1)
    assert {one.name for one in fitted.entries} == {"team/a", "team/b"}
