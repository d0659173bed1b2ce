"""What latest_wins promises (I1 to I5 of docs/proof.md), and its scenarios."""

from inorder.model import policies
from tests.proof.model.newest import Newest
from tests.proof.model.scenario import DELETED, NO_IMAGE, A, B, C, D, Deletion, Scenario
from tests.proof.model.suite import BLIND, EDGES, LATE, LATE_LONG, ODD_TWICE, SWEPT, Suite


class LatestWins(Newest):
    """The output of a key ends as its newest event says."""

    definition = policies.asl("latest-wins")


# An object is deleted, and perhaps created again, while a holder dies.
DELETED_OBJECT = (
    Scenario([A, DELETED], crashes=1),
    Scenario([A, DELETED, A]),
    Scenario([A, B, DELETED]),
)
# In a versioned bucket, a version or a delete marker is deleted, so that an older one is current.
DELETED_VERSION = (
    Scenario([A, DELETED], versioned=True),
    Scenario([A, Deletion(1)], versioned=True),
    Scenario([NO_IMAGE, DELETED], versioned=True),
    Scenario([NO_IMAGE, Deletion(1)], versioned=True),
    Scenario([A, A, Deletion(1)], versioned=True),
    Scenario([A, DELETED, Deletion(2)], versioned=True),
    Scenario([A, DELETED, Deletion(1)], versioned=True),
    Scenario([A, B, Deletion(2)], versioned=True),
    Scenario([A, NO_IMAGE], versioned=True),
    Scenario([NO_IMAGE, B, Deletion(2)], versioned=True),
    Scenario([A, NO_IMAGE, Deletion(2)], versioned=True),
)
# The bucket's versioning is suspended, or enabled: the null version changes places with others.
SUSPENDED = (
    Scenario([A, B], versioned=True, switched=2),
    Scenario([A, Deletion(1), C, D], delivered=[2, 4], versioned=True, switched=3),
    Scenario([A, B, Deletion(1), D], delivered=[3, 4], versioned=True, switched=2),
)
ENABLED = (Scenario([A, B, A], delivered=[1, 3], switched=2),)
SWITCHED_AND_DELETED = tuple(
    Scenario(changes, versioned=versioned, switched=2)
    for changes in ([A, B, Deletion(2)], [A, DELETED, Deletion(2)], [A, DELETED, C])
    for versioned in (False, True)
)
# Two events of a key, or two deliveries of one, meet while an execution dies.
MEETING = (
    Scenario([A, B], crashes=1),
    Scenario([A], delivered=[1, 1], crashes=1),
    Scenario([A, B], crashes=1, versioned=True),
    *(Scenario(changes) for changes in ([A, B, C], [A, B, A], [A, DELETED], [A, NO_IMAGE])),
)
# A record expires, before or after a second event that may not be an image.
EXPIRED = (
    Scenario([A, B], crashes=1, expiries=1),
    Scenario([NO_IMAGE, B], crashes=1, expiries=1),
)
# A holder starts the newest event itself, once; later attempts fail.
STARTED = (Scenario([A, B], crashes=1, starts=1), Scenario([A, B, C], starts=1))
# Step Functions starts an execution again that has ended, or died.
RESTARTED = (
    Scenario([A], delivered=[1, 1], restarts=1, expiries=1),
    Scenario([A], delivered=[1, 1], crashes=1, restarts=1, expiries=1),
    Scenario([A], delivered=[1, 1], crashes=1, restarts=1),
    Scenario([A, B], crashes=1, restarts=1),
)
# A write takes effect after its timeout, beside another fault.
LATE_AND_MORE = (
    Scenario([A], delivered=[1, 1], lates=2),
    Scenario([A, B], lates=2),
    Scenario([A], lates=1, crashes=2),
    Scenario([A, B], lates=1, starts=1),
    Scenario([A, B], lates=1, faults=1),
)
# Two or three faults of different kinds.
SEVERAL_FAULTS = (
    Scenario([A], crashes=1, faults=1, refusals=2, repeats=1),
    Scenario([A], delivered=[1, 1], crashes=2),
    Scenario([A], delivered=[1, 1], faults=1, repeats=1),
    Scenario([A], delivered=[1, 1], crashes=1, faults=1),
    Scenario([A, B], crashes=2),
    Scenario([A, B], faults=1, repeats=1),
    *(
        Scenario(changes, crashes=1, faults=1)
        for changes in ([A, B], [A, NO_IMAGE], [A, DELETED], [A, B, C])
    ),
    Scenario([A, B], crashes=1, faults=1, starts=1),
    Scenario([A, DELETED], crashes=1, starts=1),
    Scenario([A, B], delivered=[1, 2, 2], crashes=1, starts=1),
    Scenario([A, B, C], crashes=1, starts=1),
    *(Scenario([A, B], delivered=events, crashes=1) for events in ([1, 2, 2], [1, 1, 2])),
    *(Scenario([A, B], delivered=events, crashes=1, faults=1) for events in ([1, 2, 2], [1, 1, 2])),
    Scenario([A, B, C], crashes=1),
    Scenario([A, B, C], expiries=1),
)
# Three changes of a versioned bucket, or with a deletion, and faults.
THREE_CHANGES = (
    *(Scenario(changes, crashes=1) for changes in ([A, DELETED, A], [A, B, DELETED])),
    *(
        Scenario(changes, crashes=1, versioned=True)
        for changes in (
            [A, DELETED, A],
            [A, B, Deletion(2)],
            [A, B, Deletion(1)],
            [A, DELETED, Deletion(2)],
            [A, DELETED, Deletion(1)],
            [A, DELETED, NO_IMAGE],
            [NO_IMAGE, B, Deletion(2)],
            [A, NO_IMAGE, Deletion(2)],
        )
    ),
)
# A sweep reads a record, and acts after others have acted.
SLOWLY_SWEPT = (
    Scenario([A, B], crashes=2, sweeps=1),
    Scenario([A], delivered=[1, 1], crashes=1, faults=1, sweeps=1),
    Scenario([A, B], crashes=1, faults=1, sweeps=1),
)
SUITE = Suite(
    LatestWins,
    short=(
        Scenario([A], crashes=1, faults=1),
        Scenario([A, B], lates=1),
        *(*STARTED, *MEETING, *EXPIRED, *EDGES, *BLIND, *LATE, *SWEPT),
        *(*DELETED_OBJECT, *DELETED_VERSION, *SUSPENDED, *ENABLED),
        Scenario([A, DELETED], crashes=1, versioned=True),
    ),
    full=(
        *(*LATE_LONG, *ODD_TWICE, *SWITCHED_AND_DELETED, *LATE_AND_MORE, *SEVERAL_FAULTS),
        *(*THREE_CHANGES, *RESTARTED, *SLOWLY_SWEPT),
        Scenario([A, B, C], starts=2),
        Scenario([A], crashes=1, faults=2),
        *(Scenario([A, B], delivered=events) for events in ([1, 2, 2], [1, 1, 2])),
        Scenario([A], delivered=[1, 1], faults=1),
        *(Scenario(changes, faults=1) for changes in ([A, B], [A, DELETED])),
        Scenario([A, A], crashes=1),
    ),
    breakages=(),
)
