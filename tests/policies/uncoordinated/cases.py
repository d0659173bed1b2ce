"""The cases of uncoordinated.asl.json."""

from tests.policies.table import CREATED, PROCESSED, Cases, Effect, answer

CASES = Cases(
    data=CREATED,
    choices=[],
    flow={
        "Invert Image": "Processed: Processed; FunctionFailed*3 TimedOut: Lost",
        "Processed": "",
        "Lost": "",
    },
    outputs=[Effect("Processed", answer(PROCESSED), {"outcome": "Processed", "result": PROCESSED})],
    writes=[],
    stories=["A1 B2 2=Processed 1=Processed is=B"],
    seconds=84,
)
