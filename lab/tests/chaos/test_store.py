from longtests.chaos.store import ROOT, _leaves


def test_records_without_records_below_them_are_found_but_for_brokers_and_folders() -> None:
    tree = {
        ROOT: ["pools"],
        f"{ROOT}/pools": ["a"],
        f"{ROOT}/pools/a": ["brokers", "claims", "batches"],
        f"{ROOT}/pools/a/brokers": ["b-1"],
        f"{ROOT}/pools/a/claims": ["c"],
    }
    assert list(_leaves(ROOT, lambda path: tree.get(path, []))) == [f"{ROOT}/pools/a/claims/c"]
    assert list(_leaves(ROOT, lambda _path: [])) == []
