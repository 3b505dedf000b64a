import pytest
from readonly_engine.metadata.cluster import ledger_path


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (7, "/ledgers/00/0000/L0007"),
        (12345678, "/ledgers/00/1234/L5678"),
        (1234567890, "/ledgers/12/3456/L7890"),
        (2**31 - 2, "/ledgers/21/4748/L3646"),
        (2**31 - 1, "/ledgers/000/0000/0021/4748/L3647"),
        (2**31, "/ledgers/000/0000/0021/4748/L3648"),
        (2**63 - 1, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_the_znode_of_a_ledger(ledger_id, path):
    """Short up to 2^31 - 2, long from Integer.MAX_VALUE on (StringUtils.getHybridHierarchicalLedgerPath)."""
    assert ledger_path("/ledgers", ledger_id) == path


def test_the_root_is_the_clusters():
    assert ledger_path("/bk/ledgers", 7) == "/bk/ledgers/00/0000/L0007"
