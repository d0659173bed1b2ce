"""Makes the moves of audits that repair: each reads a record and an output, then the source.

The adversary may let an audit read and repair at any time, also what is right. So the search need
not know when an audit finds something wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from audit_keys.comparing import Reading, Subject
from inorder_fence import ObjectEvent
from inorder_fence.fenced_output import OutputState
from tests.proof.model.engine import read
from tests.proof.model.state import Audited, Delivery, Move, State
from tests.proof.model.steps import Steps


class Audits(Steps):
    """Makes the moves of audits."""

    source_first = False  # True is wrong: a test shows that the search finds it

    def _audit(self, state: State) -> Iterator[Move]:
        """Read what is known of a subject, or its source, and start the repair."""
        for subject in self._promise.subjects(state) if state.repairs else ():
            upload = self._find(state.happened, subject)
            version = self._version(upload, subject)
            record = state.item(self._promise.audited(version))
            key = f"out-k/{subject}" if subject else "out-k"
            output = dict(state.outputs).get(key)
            is_alone = state.is_quiet and not (state.late or state.audits or state.orphans)
            alone = state.issued if is_alone else None
            known = Audited(subject, version, record, output, alone)
            if self.source_first:
                known = known._replace(happened=state.happened)
            audits = tuple(sorted({*state.audits, known}, key=repr))
            yield "an audit reads", state.spend("repairs")._replace(audits=audits), None
        for audited in state.audits:
            left = state._replace(audits=tuple(each for each in state.audits if each != audited))
            yield self._repair(left, audited)

    def _find(self, happened: int, subject: str | None) -> int | None:
        """Give the upload that is the source of a subject."""
        if subject:
            return self._scenario.find(subject, happened)
        return self._scenario.current(happened)

    def _version(self, upload: int | None, subject: str | None) -> str | None:
        is_named = upload is not None and self._scenario.is_named(upload)
        return self._scenario.version_id(upload) if upload and is_named else subject

    def _repair(self, state: State, audited: Audited) -> Move:
        """Read the source; the audit goes on only if its version is still the same."""
        scenario, happened, subject = self._scenario, state.happened, audited.subject
        if self.source_first:
            happened = audited.happened
            audited = audited._replace(
                record=state.item(self._promise.audited(audited.version)),
                output=dict(state.outputs).get("out-k"),
            )
        upload = self._find(happened, subject)
        deletions = (
            each
            for each in range(happened, 0, -1)
            if scenario.is_deletion(each) and subject in {None, str(scenario.version(each))}
        )
        number = upload or next(deletions, None)
        if number is None or self._version(upload, subject) != audited.version:
            return "the audit ends", state, None
        source = None
        if upload:
            etag = f"etag-{scenario.content(upload)}"
            source = ObjectEvent("b", "k", "", etag, audited.version)
        attributes = read(audited.record or "{}")
        record = {name: value.get("S", "") for name, value in attributes.items()}
        output = OutputState()
        if audited.output:
            output = OutputState(audited.output.etag, dict(audited.output.metadata))
        event = self._engine.repair(Reading(Subject("k", subject), record, output, source))
        more = {name: event[name] for name in ("source", "detail")} | {"id": str(number)}
        more["covers"] = happened == scenario.last and (not subject or number == happened)
        sequencer = event["detail"]["object"]["sequencer"]
        # Nothing else goes on, so nothing may supersede the repair.
        is_only = audited.alone == state.issued and state.is_quiet
        after = state._replace(
            issued=max(state.issued, sequencer),
            covered=state.covered or (is_only and more["covers"]),
        )
        delivery = Delivery(number, json.dumps(more, sort_keys=True))
        return f"the repair of {number} is sent", after.with_delivery(delivery), None
