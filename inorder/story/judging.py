"""Whether the outputs of an object are as its policy promises."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from inorder.audit.comparing import Scope, Verdict, compare
from inorder.model.outcomes import DONE, FINISHED, RETRYING
from inorder.story.parts import (
    Event,
    Facts,
    Judgement,
    Output,
    Source,
    clock,
    counted,
    is_newer,
    named,
    span,
)
from inorder_fence import ObjectEvent, named_version

FOLDER = "The object is a folder marker, which S3's console has made: it has no output."
ON_ITS_WAY = timedelta(minutes=1)  # an event of S3 may need so long to start an execution


def judge(facts: Facts, events: tuple[Event, ...]) -> Judgement:
    """Decide whether the outputs are right, by what the policy keeps; oldest events first."""
    judged = _judged_by_policy(facts, events)
    if not (events or facts.executions or facts.outputs):
        if facts.source is None and facts.has("object"):
            near = f" Keys like it: {', '.join(facts.near)}." if facts.near else ""
            judged = Judgement("none", f"There is no such object.{near}")
        elif facts.left_out:
            judged = Judgement("none", "There should be no output.")
    if facts.left_out:
        why = f"No event of this object starts an execution now: {facts.left_out}."
        judged = replace(judged, text=f"{judged.text} {why}")
    return judged


def _judged_by_policy(facts: Facts, events: tuple[Event, ...]) -> Judgement:
    judging = _Judging(facts, events)
    if facts.source and facts.source.is_folder and not facts.outputs:
        return Judgement("none", FOLDER)
    if not facts.has("output"):
        return Judgement("unknown", "Whether the output is right is not known.")
    by_policy = {"each": judging.each, "first": judging.first}
    return by_policy.get(facts.keeps, judging.newest)()


class _Judging:
    def __init__(self, facts: Facts, events: tuple[Event, ...]) -> None:
        self._facts, self._events = facts, events
        self._output = facts.outputs[0] if facts.outputs else None
        self._said = _shown(self._output)  # what the judgement says first

    def newest(self) -> Judgement:
        """Compare the output with the object as it is now."""
        source, output = self._facts.source, self._output
        if not self._facts.has("object"):
            return self._judged("unknown", "Whether that is right is not known.")
        if source is None:
            return self._without_source()
        if output and self._compared(source, output) is Verdict.RIGHT:
            return self._judged("right", "That is right: it was made from the object as it is now.")
        created = self._creation_of(source)
        if created is None:
            return self._without_event(source)
        return self._because(created)

    def first(self) -> Judgement:
        """Compare the output with the event that was processed."""
        done = [each for each in self._events if each.outcome == "Processed"]
        counts = done or [each for each in self._events if each.outcome != "Duplicate"]
        if not self._output:
            if counts:
                return self._because(counts[0])
            return self._judged("unknown", "No event is known that should make one.")
        if any(each.sequencer == self._output.sequencer for each in done):
            return self._judged("right", "That is right: it was processed first.")
        if done and self._is_written_otherwise:
            return self._because(done[0])
        if done and self._facts.has("executions"):
            return self._judged("wrong", f"But {named(done[0].sequencer)} was processed first.")
        return self._judged("unknown", "Which event was processed first is not known.")

    def each(self) -> Judgement:
        """Compare the outputs with the events that should have one."""
        shown = {(each.version_id, each.sequencer) for each in self._facts.outputs}
        lacking = [
            each
            for each in self._events
            if self._should_have_output(each)
            and (named_version(each.version_id), each.sequencer) not in shown
        ]
        number = len(self._facts.outputs)
        self._said = f"There {'is' if number == 1 else 'are'} {counted(number, 'output')}."
        if lacking:
            verb = "lacks" if len(lacking) == 1 else "lack"
            self._said += f" {len(lacking)} of the events {verb} one."
            return self._because(lacking[0], "should have one")
        if not self._facts.has("executions"):
            return self._judged("unknown", "Whether there are more events is not known.")
        return self._judged("right", "That is right: each event that should have one has it.")

    def _judged(self, state: Any, text: str) -> Judgement:
        return Judgement(state, f"{self._said} {text}")

    def _compared(self, source: Source | None, output: Output) -> Verdict:
        """Compare them as an audit does."""
        bucket, keeps = self._facts.bucket, self._facts.keeps
        made_of = ObjectEvent(bucket, "", "", source.etag, source.version_id) if source else None
        scope = Scope(bucket, "", "", keeps, self._facts.handles_deletions)
        return compare(made_of, output.state, scope)

    def _without_source(self) -> Judgement:
        if self._output is None:
            return self._judged("right", "That is right: there is no object.")
        self._said += " The object was deleted."
        if self._compared(None, self._output) is Verdict.RIGHT:
            text = "The stack does not handle deletions, so the output stays."
            return self._judged("right", text)
        last = self._events[-1] if self._events else None
        if last and last.is_deletion:
            return self._because(last)
        return self._nothing_known("the deletion")

    def _without_event(self, source: Source) -> Judgement:
        age = self._facts.now - source.modified if source.modified else None
        if age is not None and age < ON_ITS_WAY:
            ago = span(age.total_seconds())
            text = f"The object was changed {ago} ago; its event may be on its way."
            return self._judged("pending", text)
        self._said += f" The object was changed at {clock(source.modified)}."
        return self._nothing_known("that change")

    def _nothing_known(self, what: str) -> Judgement:
        """Judge without the event that should have made the output."""
        if not self._facts.has("executions"):
            text = f"The output does not match, and whether an event of {what} arrived is not known"
            return self._judged("unknown", f"{text}.")
        return self._judged(
            "wrong",
            f"No event of {what} is known. Either its execution is older than what was read, or"
            " there was none: is EventBridge switched on for the bucket, the rule enabled? Does"
            " `inorder undelivered` list it?",
        )

    def _because(self, event: Event, what: str = "decides it") -> Judgement:
        """Judge by the event that should have made the output, and has not."""
        queued = {each.queue for each in self._facts.queued if each.sequencer == event.sequencer}
        gone = self._facts.has("parked events") and "parked" not in queued
        parked = "was parked, and is no longer in the queue" if gone else "is parked"
        died = (
            ("pending", "is unfinished: its execution has died. The next sweep retries it")
            if self._facts.has_table
            else ("wrong", "is unfinished: its execution has died. `inorder stuck` may list it")
        )
        judged: dict[str, tuple[str, str]] = {
            "Working": ("pending", "is being processed"),
            "Waiting": ("pending", "waits for the lock"),
            "Retrying": ("pending", "failed, and is tried again by itself"),
            "Parked": (
                "parked",
                f"{parked}: its object cannot have an output, or a person must decide",
            ),
            "Unknown": ("unknown", "may or may not have been processed"),
            "Superseded": ("unknown", "was superseded, by an event that is not known"),
            **dict.fromkeys(("Died", "TimedOut", "Aborted", "NotParked"), died),
        }
        ended = f"ended as {event.outcome}"
        other = ("wrong", f"{ended}. Something else has changed or removed the output since")
        if self._is_own(event):
            other = ("unknown", f"{ended}: only the policy knows whether that needs an output")
        elif self._is_written_otherwise:
            text = "a function of your own (WorkFunctionArn) writes the output, maybe elsewhere"
            other = ("unknown", f"{ended}: {text}")
        state, text = judged.get(event.outcome, other)
        said = f"{named(event.sequencer)} {what}, and {text}."
        lead = {"pending": "That is not right yet: ", "wrong": "That is not right: "}.get(state)
        return self._judged(state, f"{lead}{said}" if lead else said[0].upper() + said[1:])

    @property
    def _is_written_otherwise(self) -> bool:
        """Tell whether a user's function may write the output, and not as the fence does."""
        is_named = any(each.sequencer for each in self._facts.outputs)
        return self._facts.is_own_function and not is_named

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

    def _creation_of(self, source: Source) -> Event | None:
        """Find the newest event that created the object as it is now."""
        for event in reversed(self._events):
            # Not every event of the current version names it.
            is_current = named_version(event.version_id) in {None, source.version_id}
            if event.etag == source.etag and is_current:
                return event
        return None


def _shown(output: Output | None) -> str:
    if output is None:
        return "There is no output."
    if output.sequencer is None:
        return f"The output {output.key} does not name its event."
    version = f" of version {output.version_id}" if output.version_id else ""
    return f"The output {output.key} was made for {named(output.sequencer)}{version}."
