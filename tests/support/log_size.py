"""What AWS writes to the log at level ALL for an entry of a history, and how many bytes.

https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html has the form.
"""

import json
from collections.abc import Mapping
from typing import Any

# An execution that a rule started, of a machine that CloudFormation named.
ARN = (
    "arn:aws:states:us-east-1:123456789012:express:inorder-LatestWinsStateMachine-"
    "AbCdEfGhIjKl:0a1b2c3d-4e5f-6789-abcd-ef0123456789_9f8e7d6c-5b4a-3210-fedc-ba9876543210:"
    "11111111-2222-3333-4444-555555555555"
)
# The optimized integrations return what the service answered and, beside it, this. AWS documents
# that it is there, not how long it is:
# https://docs.aws.amazon.com/step-functions/latest/dg/connect-supported-services.html
_HEADERS = {
    "Server": "Server",
    "Connection": "keep-alive",
    "x-amzn-RequestId": "S17HV3KQ1M3PV9IOD1ETCK0GSFVV4KQNSO5AEMVJF66Q9ASUAAJG",
    "x-amz-crc32": "2745614147",
    "Content-Length": "2",
    "Date": "Sun, 22 Nov 2026 09:30:00 GMT",
    "Content-Type": "application/x-amz-json-1.0",
}
METADATA = {
    "SdkHttpMetadata": {
        "AllHttpHeaders": {name: [value] for name, value in _HEADERS.items()},
        "HttpHeaders": _HEADERS,
        "HttpStatusCode": 200,
    },
    "SdkResponseMetadata": {"RequestId": _HEADERS["x-amzn-RequestId"]},
}


def without_data(details: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out of an entry's details what AWS leaves out if `includeExecutionData` is false.

    That is "input or output of a history event", as AWS describes the same option of
    GetExecutionHistory, and as LocalStack's test_logs has recorded it (docs/engines.md). Errors,
    causes and names stay. Nobody says that the parameters of a call do not, so they are counted.
    """
    left_out = {"input", "inputDetails", "output", "outputDetails"}
    return {name: value for name, value in details.items() if name not in left_out}


def size_of(kind: str, details: Mapping[str, Any]) -> int:
    """Give the size of an entry, in bytes."""
    entry = {
        "id": "10",
        "type": kind,
        "details": {name: _compact(value) for name, value in details.items()},
        "redrive_count": "0",
        "previous_event_id": "10",
        "event_timestamp": "1795339800000",
        "execution_arn": ARN,
    }
    return len(json.dumps(entry, separators=(",", ":")).encode())


def _compact(value: Any) -> Any:
    """Write JSON without spaces, as AWS does."""
    try:
        return json.dumps(json.loads(value), separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError):
        return value
