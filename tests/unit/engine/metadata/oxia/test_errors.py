import grpc
import pytest
from readonly_engine.metadata.oxia.errors import Failure, describe, kind_of


def failed(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        # Texts of a server of 0.14, whose codes are unknown to gRPC.
        (grpc.StatusCode.UNKNOWN, "oxia: session not found", Failure.SESSION_ENDED),
        (grpc.StatusCode.UNKNOWN, "oxia: namespace not found", Failure.REFUSED),
        (grpc.StatusCode.UNKNOWN, "oxia: notifications not enabled on namespace", Failure.REFUSED),
        (grpc.StatusCode.UNKNOWN, "timeoutMs=10: rpc error: code = Code(109) desc = invalid session timeout", Failure.REFUSED),
        (grpc.StatusCode.UNKNOWN, "node is not leader for shard 7", Failure.RETRY),
        (grpc.StatusCode.UNKNOWN, "oxia: resource is already closed", Failure.RETRY),
        (grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses", Failure.RETRY),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", Failure.RETRY),
        (grpc.StatusCode.UNAUTHENTICATED, "", Failure.REFUSED),
        (grpc.StatusCode.PERMISSION_DENIED, "", Failure.REFUSED),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max", Failure.REFUSED),
    ],
)  # fmt: skip
def test_what_a_failure_means(code, details, kind):
    assert kind_of(failed(code, details)) is kind


def test_a_failure_is_described_in_bounds():
    assert describe(failed(grpc.StatusCode.UNAVAILABLE, "")) == "UNAVAILABLE"
    assert describe(failed(grpc.StatusCode.UNKNOWN, "a\n  b")) == "UNKNOWN: a b"
    assert len(describe(failed(grpc.StatusCode.UNKNOWN, "x" * 10_000))) == len("UNKNOWN: ") + 200
