"""Whether the outputs of an object are as its policy promises."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from audit_keys.comparing import Verdict as Compared
from audit_keys.comparing import compare
from inorder.model.outcomes import DONE, FINISHED, RETRYING
from inorder.story.parts import (
    Event,
    Facts,
    Output,
    Source,
    Verdict,
    clock,
    is_newer,
    named,
    span,
)
from inorder_fence import ObjectEvent, named_version

ON_ITS_WAY = timedelta(minutes=1)  # an event of S3 may need so long to start an execution


def judge(facts: Facts, events: tuple[Event, ...]) -> Verdict:
    """Decide whether the outputs are right, by what the policy keeps; oldest events first."""
    judging = _Judging(facts, events)
    if facts.keeps is None:
        return judging.forwarded()
    if not facts.has("outputs"):
        return Verdict("unknown", "Whether the output is right is not known.")
    by_policy = {"each": judging.each, "first": judging.first}
    return by_policy.get(facts.keeps, judging.newest)()


class _Judging:
    def __init__(self, facts: Facts, events: tuple[Event, ...]) -> None:
        self._facts, self._events = facts, events
        self._output = facts.outputs[0] if facts.outputs else None
        self._last = events[-1] if events else None
        self._shows = _shown(self._output)

    def newest(self) -> Verdict:
        """Compare the output with the object as it is now."""
        source, output = self._facts.source, self._output
        if not self._facts.has("source"):
            return self._by_events()
        if source is None:
            return self._without_source()
        if output and self._compared(source, output) is Compared.RIGHT:
            return self._of_this_content(output)
        made = self._event_of(source)
        if made is None:
            return self._without_event(source)
        if self._facts.keeps == "last":
            return Verdict("wrong", f"{self._shows} The object is that of {named(made.sequencer)}.")
        return self._because(made, self._shows)

    def first(self) -> Verdict:
        """Compare the output with the event that was processed."""
        done = [each for each in self._events if each.outcome == "Processed"]
        counts = done or [each for each in self._events if each.outcome != "Duplicate"]
        if not self._output:
            if not counts:
                return Verdict("unknown", f"{self._shows} No event is known that should make one.")
            return self._because(counts[0], self._shows)
        if any(each.sequencer == self._output.sequencer for each in done):
            return Verdict("right", f"{self._shows} That is right: it was processed first.")
        if done and self._facts.has("executions"):
            text = f"But {named(done[0].sequencer)} is the one that was processed."
            return Verdict("wrong", f"{self._shows} {text}")
        return Verdict("unknown", f"{self._shows} Which event was processed first is not known.")

    def each(self) -> Verdict:
        """Compare the outputs with the events that should have one."""
        shown = {(each.version_id, each.sequencer) for each in self._facts.outputs}
        lacking = [
            each
            for each in self._events
            if self._should_have_output(each)
            and (named_version(each.version_id), each.sequencer) not in shown
        ]
        number = len(self._facts.outputs)
        shows = f"There {'is 1 output' if number == 1 else f'are {number} outputs'}."
        if lacking:
            verb = "lacks" if len(lacking) == 1 else "lack"
            return self._because(
                lacking[0], f"{shows} {len(lacking)} of the events {verb} one.", "have one"
            )
        if not self._facts.has("executions"):
            return Verdict("unknown", f"{shows} Whether there are more events is not known.")
        text = "That is right: each event known that should have one has it."
        return Verdict("right", f"{shows} {text}")

    def forwarded(self) -> Verdict:
        """Judge a policy that forwards events and writes no outputs."""
        said = "This policy writes no outputs."
        unfinished = [each for each in self._events if each.outcome not in FINISHED]
        if unfinished:
            return self._because(unfinished[-1], said, "be forwarded")
        if not self._events or not self._facts.has("executions"):
            return Verdict("unknown", f"{said} Whether there are other events is not known.")
        return Verdict("right", f"{said} The content of each event known was forwarded.")

    def _compared(self, source: Source | None, output: Output) -> Compared:
        """Compare them as an audit does."""
        made_of = ObjectEvent("", "", "", source.etag, source.version_id) if source else None
        keeps = self._facts.keeps or "newest"
        return compare(made_of, output.state, keeps, self._facts.handles_deletions)

    def _of_this_content(self, output: Output) -> Verdict:
        said = f"{self._shows} That is right: it was made from the object as it is now."
        newest = self._last
        if (
            newest
            and not newest.version_id
            and not newest.is_deletion
            and is_newer(newest.sequencer, output.sequencer)
        ):
            said += f" The newer {named(newest.sequencer)} ({newest.outcome}) has the same content."
        return Verdict("right", said)

    def _without_source(self) -> Verdict:
        if self._output is None:
            return Verdict("right", "There is no output. That is right: there is no object.")
        shows = f"{self._shows} The object was deleted."
        if self._compared(None, self._output) is Compared.RIGHT:
            text = "The stack does not handle deletions, so the output stays."
            return Verdict("right", f"{shows} {text}")
        if self._last and self._last.is_deletion and self._facts.keeps != "last":
            return self._because(self._last, shows)
        return self._nothing_known(shows, "the deletion")

    def _without_event(self, source: Source) -> Verdict:
        age = self._facts.now - source.modified if source.modified else None
        if age is not None and age < ON_ITS_WAY:
            ago = span(age.total_seconds())
            text = f"The object was changed {ago} ago; its event may be on its way."
            return Verdict("pending", f"{self._shows} {text}")
        changed = f"The object was changed at {clock(source.modified)}."
        return self._nothing_known(f"{self._shows} {changed}", "that change")

    def _nothing_known(self, shows: str, what: str) -> Verdict:
        """Judge without the event that should have made the output."""
        if self._facts.keeps == "last":
            return Verdict("wrong", f"{shows} The output does not match the object.")
        if not self._facts.has("executions"):
            text = f"The output does not match, and whether an event of {what} arrived is not known"
            return Verdict("unknown", f"{shows} {text}.")
        return Verdict(
            "wrong",
            f"{shows} No event of {what} is known. Either its execution is older than what was"
            " read, or there was none: is EventBridge switched on for the bucket, the rule enabled,"
            " the event in UndeliveredEventsQueue?",
        )

    def _by_events(self) -> Verdict:
        """Judge without the object, by sequencers."""
        newest, output = self._last, self._output
        if newest is None or not self._facts.has("executions"):
            return Verdict("unknown", f"{self._shows} Whether there is a newer event is not known.")
        made = None if newest.is_deletion else newest.sequencer
        if (output.sequencer if output else None) == made:
            return Verdict("right", f"{self._shows} That is right: no newer event is known.")
        return self._because(newest, self._shows)

    def _because(self, event: Event, shows: str, what: str = "decide it") -> Verdict:
        """Judge by the event that should have made the output, and has not."""
        name = f"{named(event.sequencer)}, which should {what},"
        queued = {each.queue for each in self._facts.queued if each.sequencer == event.sequencer}
        gone = self._facts.has("parked") and "parked" not in queued
        parked = "was parked, and is no longer in the queue" if gone else "is parked"
        died = (
            ("pending", "is not finished, because its execution died. The schedule starts it again")
            if self._facts.has_table and self._facts.heal_minutes
            else ("wrong", "is not finished, because its execution died. Nothing starts it again")
        )
        verdicts: dict[str, tuple[Any, str]] = {
            "Working": ("pending", "is being processed"),
            "Waiting": ("pending", "waits for the lock"),
            "Retrying": ("pending", "failed, and is tried again by itself"),
            "Parked": (
                "parked",
                f"{parked}: its object cannot have an output, or a person must decide",
            ),
            "InvalidEvent": ("parked", f"{parked}, because it is not a valid event"),
            "Undelivered": ("wrong", "started no execution: it is in UndeliveredEventsQueue"),
            "Unknown": ("unknown", "may or may not have been processed"),
            "Superseded": ("unknown", "was superseded, by an event that is not known"),
            **dict.fromkeys(("Died", "TimedOut", "Aborted", "NotParked"), died),
        }
        if self._is_own(event):
            only = f"ended as {event.outcome}, and only the policy knows whether it needs an output"
            verdicts[event.outcome] = ("unknown", only)
        state, text = verdicts.get(
            event.outcome,
            (
                "wrong",
                f"ended as {event.outcome}. Something else has changed or removed the output",
            ),
        )
        lead = {"pending": "That is not right yet:", "wrong": "That is not right:"}.get(state)
        sentence = f"{lead} {name} {text}." if lead else f"{name[0].upper()}{name[1:]} {text}."
        return Verdict(state, f"{shows} {sentence}")

    def _is_own(self, event: Event) -> bool:
        """Tell whether an event's outcome is one that the shipped policies do not have."""
        ended = {each.ended_as for each in self._facts.executions if each.status == "SUCCEEDED"}
        return event.outcome in ended - FINISHED - {RETRYING}

    def _should_have_output(self, event: Event) -> bool:
        if event.is_deletion or event.outcome == "Superseded":
            return False
        return not any(self._removes(other, event) for other in self._events)

    def _removes(self, other: Event, event: Event) -> bool:
        if not (other.is_deletion and self._facts.handles_deletions and other.outcome in DONE):
            return False
        if event.version_id:  # a delete marker has a version of its own, and removes none
            return other.version_id == event.version_id
        return is_newer(other.sequencer, event.sequencer)

    def _event_of(self, source: Source) -> Event | None:
        """Find the newest event that created the object as it is now."""
        for event in reversed(self._events):
            if event.etag == source.etag and _is_of(named_version(event.version_id), source):
                return event
        return None


def _is_of(version_id: str | None, source: Source) -> bool:
    """Tell whether this may be the source's version; not every source of events names it."""
    return version_id is None or version_id == source.version_id


def _shown(output: Output | None) -> str:
    if output is None:
        return "There is no output."
    if output.sequencer is None:
        return f"The output {output.key} does not say of which event it is."
    version = f" of version {output.version_id}" if output.version_id else ""
    return f"The output {output.key} is that of {named(output.sequencer)}{version}."
