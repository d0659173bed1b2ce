"""The cases of uncoordinated.asl.json."""

from tests.policies import table
from tests.policies.table import CREATED, PROCESSED, Cases, Effect, answer

CASES = Cases(
    data=CREATED,
    choices=[],
    transitions={
        "Invert Image": {
            "Processed": [table.ANSWERED_PROCESSED],
            "Lost": [table.FUNCTION_FAILED.times(3), table.TIMED_OUT],
        },
        "Processed": table.END,
        "Lost": table.END,
    },
    outputs=[Effect("Processed", answer(PROCESSED), {"outcome": "Processed", "result": PROCESSED})],
    writes=[],
    stories=["A1 B2 2=Processed 1=Processed is=B"],
    seconds=84,
)
