"""Whether the outputs of an object are as its policy promises, and what helps if they are not."""

import shlex
from dataclasses import replace
from datetime import timedelta
from typing import Any

from inorder.audit.comparing import Reading, Scope, Subject, Verdict, compare
from inorder.model.outcomes import DONE, FINISHED
from inorder.story.parts import Event, Judgement, Story, is_newer, named
from inorder.story.view import View
from inorder.wording import INORDER, clock, counted, span, verb
from inorder_fence import ObjectEvent, named_version
from inorder_fence.fenced_output import OutputState

UNTOUCHED = "No repair replaces this output. If nothing needs it, delete the output."
FOLDER = "The object is a folder marker, which S3's console has made: it has no output."
ON_ITS_WAY = timedelta(minutes=1)  # an event of S3 may need so long to start an execution
UNTIL_RESUMED = "Until the pause ends, no queue is read, and no sweep frees a lock."
RUNS = {"Working": "is being processed", "Waiting": "waits for the lock"}
ELSEWHERE = "a function of your own (WorkFunctionArn) writes the output, and nothing says where"


def judge(view: View, story: Story) -> Judgement:
    """Decide whether the outputs are right, by what the policy keeps, and name what helps."""
    facts = view.facts
    judged = _Judging(view, story).judge()
    if not (story.events or story.deliveries):
        if facts.source is None and facts.has("object") and not facts.outputs:
            near = f" Keys like it: {', '.join(facts.near)}." if facts.near else ""
            judged = Judgement("none", f"There is no such object.{near}")
        elif facts.lacks_version:
            judged = Judgement("none", f"There is no version {facts.version_id} of this object.")
        elif facts.left_out and not facts.outputs:
            judged = Judgement("none", "There should be no output.")
    if facts.left_out:
        why = f"No event of this object starts an execution now: {facts.left_out}."
        judged = replace(judged, text=f"{judged.text} {why}")
    return judged


class _Judging:
    def __init__(self, view: View, story: Story) -> None:
        self._view, self._facts, self._story = view, view.facts, story
        self._output = story.outputs[0] if story.outputs else None
        self._opening = self._shown()  # what the judgement says first
        self._audit = f"{INORDER} audit --prefix {shlex.quote(view.facts.key)}"
        self._repair = self._repairing()  # "" if no repair touches the output
        # Without one of these, something may still act on the object that was not read.
        self._is_complete = not {*(view.facts.unread or {})} - {"object", "output"}
        is_named = any(output.sequencer for output in story.outputs)
        self._is_elsewhere = view.facts.is_own_function and not is_named

    def _repairing(self, more: str = "") -> str:
        return f"`{self._audit} --repair{more}` (and all other keys that begin so)"

    def judge(self) -> Judgement:
        if self._facts.source and self._facts.source.is_folder and not self._output:
            return Judgement("none", FOLDER)
        if not self._facts.has("output"):
            return Judgement("unknown", "Whether the output is right is not known.")
        return self._judge_each() if self._facts.keeps == "each" else self._judge_one()

    def _judge_one(self) -> Judgement:
        """Compare the output with the object as it is now, as an audit does."""
        source, facts = self._facts.source, self._facts
        if not facts.has("object"):
            return self._judged("unknown", "Whether that is right is not known.")
        live = ObjectEvent(facts.bucket, "", "", source.etag, source.version_id) if source else None
        output = OutputState("-", self._output.metadata) if self._output else OutputState()
        scope = Scope(facts.bucket, "", "", facts.keeps, facts.handles_deletions)
        compared = compare(live, output, scope)
        if source is None and self._output:
            self._opening += " The object was deleted."
        if compared is Verdict.RIGHT:
            why = "it was made from the object as it is now"
            if source is None:
                deleted = "the stack handles no deletions, so the output stays"
                why = deleted if self._output else "there is no object"
            elif live and not output.shows(live):
                why = "the policy keeps the output that was made first"
            return self._judged("right", f"That is right: {why}.")
        if compared is Verdict.FOREIGN and not self._is_elsewhere:
            self._opening += " This stack has not written it."
            reading = Reading(Subject(facts.key), output=output, source=live)
            is_replaced = scope.rewrites and reading.is_replaceable
            self._repair = self._repairing(" --foreign") if is_replaced else ""
        event = self._deciding()
        return self._because(event) if event else self._without_event()

    def _judge_each(self) -> Judgement:
        """Compare the outputs with the events that should have one."""
        outputs = self._story.outputs
        shown = {output.version_id or output.sequencer for output in outputs}
        # A version has one output, whichever of its events has made it: the last one counts.
        lacking = {
            name: event
            for event in self._story.events
            if (name := named_version(event.version_id) or event.sequencer) not in shown
            and self._should_have_output(event)
        }
        number = len(outputs)
        self._opening = f"There {verb(number, 'are')} {counted(number, 'output')}."
        if lacking:
            number = len(lacking)
            self._opening += f" {number} of the events {verb(number, 'lack')} one."
            name, event = next(iter(lacking.items()))
            if name in {output.key.rpartition("/")[2] for output in outputs}:
                self._repair = ""  # what others have written is in its place
            return self._because(event)
        if self._facts.pause and self._facts.source and not self._deciding():
            return self._without_event()
        if not self._facts.has("executions"):
            return self._judged("unknown", "Whether there are more events is not known.")
        return self._judged("right", "That is right: each event that should have one has it.")

    def _without_event(self) -> Judgement:
        """Judge without the event of the object as it is now."""
        source, text = self._facts.source, "No event of the deletion was read"
        if source:
            text = f"No event of the object's change at {clock(source.modified)} was read"
        if self._facts.pause and not self._facts.left_out:
            return self._later(f"{text}: it may wait.")
        if source:
            age = self._facts.now - source.modified if source.modified else ON_ITS_WAY
            if age < ON_ITS_WAY + timedelta(seconds=self._facts.quiet_seconds):
                ago = f"The object was changed {span(age.total_seconds())} ago"
                return self._judged("pending", f"{ago}; its event may be on its way.")
        older = ", and older executions were not read" if self._facts.since else ""
        doctor = f"`{INORDER} doctor` says why an event may not come."
        return self._wrong(f"{text}{older}. {doctor}")

    def _because(self, event: Event) -> Judgement:
        """Judge by the event that should have made the output, and has not."""
        name = named(event.sequencer)
        for run in self._story.deliveries:
            if self._is_of(event, run) and run.outcome in RUNS:
                return self._judged("pending", f"Not yet: {name} {RUNS[run.outcome]}.")
        for pending in self._story.pending:
            if pending.sequencer == event.sequencer and pending.kind != "overtaken":
                if pending.kind == "parked":
                    return self._judged("parked", pending.text)
                return self._later(f"Not yet. {pending.text}")
        return self._ended(event)

    def _ended(self, event: Event) -> Judgement:
        """Judge by how the last execution of an event ended, as nothing else has the event."""
        ended = [execution for execution in self._view.executions if self._is_of(event, execution)]
        name = named(event.sequencer)
        if not ended:
            return self._wrong(f"Nothing that was read will still act on {name}.", event)
        last, outcome = ended[-1], ended[-1].ended_as
        text = f"Its {name} ended as {outcome}"
        if outcome == "Retrying":
            return self._later(f"Not yet: {name} was handed to the retry queue.")
        if outcome == "Parked":
            gone = ", and the queue no longer has it" if self._facts.has("parked events") else ""
            again = f"Replace the object, or {self._repair} tries it again."
            helps = again if self._repair else UNTOUCHED
            return self._judged("parked", f"{text}{gone}. {helps}")
        if self._view.is_of_another_policy(last):
            return self._wrong(f"{text} under {last.policy}, before the policy was changed.", event)
        is_own = last.status == "SUCCEEDED" and outcome not in FINISHED
        if is_own or (self._is_elsewhere and outcome in FINISHED):
            why = "only the policy says what that means" if is_own else ELSEWHERE
            return self._judged("unknown", f"{text}: {why}.")
        since = "nothing that was read will still act on it"
        if outcome == "Processed":
            since = "the output was changed or removed since"
        return self._wrong(f"{text}, and {since}.", event)

    def _wrong(self, text: str, event: Event | None = None) -> Judgement:
        """Judge what nothing will mend by itself, if all that may do so was read."""
        if not self._is_complete:
            return self._judged("unknown", f"{text} Not all was read; `{self._audit}` compares it.")
        helps = f"{self._repair} mends it." if self._repair else UNTOUCHED
        if self._facts.keeps == "each" and event and event.version_id is None:
            helps = "Upload the object again."  # an audit cannot compare it
        return self._judged("wrong", f"That is wrong. {text} {helps}")

    def _later(self, text: str) -> Judgement:
        """Judge what a queue or a sweep will mend, which both wait for the end of a pause."""
        waits = (self._facts.pause, UNTIL_RESUMED if self._facts.is_paused else "")
        return self._judged("pending", " ".join(filter(None, (text, *waits))))

    def _judged(self, state: Any, text: str) -> Judgement:
        return Judgement(state, f"{self._opening} {text}")

    def _should_have_output(self, event: Event) -> bool:
        outcomes = self._outcomes(event)
        acts = any(pending.sequencer == event.sequencer for pending in self._story.pending)
        if event.is_deletion or "Superseded" in outcomes or not (outcomes or acts):
            return False  # a record alone does not say whether it was superseded
        return not any(self._removes(other, event) for other in self._story.events)

    def _removes(self, other: Event, event: Event) -> bool:
        is_done = bool(self._outcomes(other) & DONE)
        if not (other.is_deletion and self._facts.handles_deletions and is_done):
            return False
        if event.version_id:  # a delete marker has a version of its own, and removes none
            return other.version_id == event.version_id
        return is_newer(other.sequencer, event.sequencer)

    def _outcomes(self, event: Event) -> set[str]:
        return {run.outcome for run in self._story.deliveries if self._is_of(event, run)}

    @staticmethod
    def _is_of(event: Event, execution: Any) -> bool:
        return (execution.sequencer, execution.version_id) == (event.sequencer, event.version_id)

    def _deciding(self) -> Event | None:
        """Find the newest event that made the object as it is now: created, or deleted."""
        source, events = self._facts.source, self._story.events
        if source is None:
            return events[-1] if events and events[-1].is_deletion else None
        for event in reversed(events):
            # Not every event of the current version names it.
            is_current = named_version(event.version_id) in {None, source.version_id}
            if event.etag == source.etag and is_current:
                return event
        return None

    def _shown(self) -> str:
        output = self._output
        if output is None:
            return "There is no output."
        if output.sequencer is None:
            return f"The output {output.key} does not name its event."
        version = f" of version {output.version_id}" if output.version_id else ""
        return f"The output {output.key} was made for {named(output.sequencer)}{version}."
