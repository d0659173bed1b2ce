"""How an execution ends, in the words of the ASL files; test_policies.py compares them."""

DUPLICATE, RETRYING = "Duplicate", "Retrying"
# After one of these, the execution itself has finished its event.
DONE = frozenset({"Processed", "Superseded"})
# After one of these, no message of the event can matter.
FINISHED = DONE | {DUPLICATE}
PARKED = "Parked"  # the event is in the queue of parked events, or on its way there
NOT_PARKED = "NotParked"  # neither queue nor bus could be reached: a sweep heals the key
# The name of an execution that a holder starts begins with this.
STARTED_NAME = "newest-"
