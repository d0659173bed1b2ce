"""The events of a trial: uploads, overwrites, duplicates, late events, and faults."""

from __future__ import annotations

import json
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, NamedTuple

from inorder import local_aws
from inorder.asl.definition import EXPRESS_SECONDS
from inorder.audit.audit import Audit
from inorder.audit.comparing import WRONG, Verdict
from inorder.aws.executions import LocalStateMachine, wait_until
from inorder.aws.stack import Connection
from inorder.console import saved
from inorder.console.answers import Answers
from inorder.demo.pictures import own_pairs
from inorder.errors import Failure
from inorder.local_aws import LocalAws
from inorder.model.execution import Execution
from inorder.model.outcomes import RETRYING
from inorder.trying import verdict
from inorder.trying.inside import FAILS, JOURNAL, RELEASE, TIMES_OUT
from inorder.trying.verdict import Finding, Invocation
from inorder.trying.work import Work, create_function, deploy_with_work
from inorder.wording import INORDER

POLICY = "latest-wins"
PROCESSED, SUPERSEDED = "Processed", "Superseded"
LATE, STALL_SECONDS = "try-late", 900  # the function that stalls, and its timeout
PATIENCE_SECONDS = EXPRESS_SECONDS + 60
MOST_ATTEMPTS = 3  # at an event without an answer; the stack would go on for a day

Say = Callable[[str], Any]


class Sample(NamedTuple):
    """Two contents for one key: the second one overwrites the first one."""

    name: str
    old: bytes
    new: bytes


def made_samples() -> list[Sample]:
    """Make samples of several kinds, as nobody knows which one a handler takes."""
    [picture] = own_pairs(1)
    return [
        Sample("text.txt", b"one\n", b"another\n"),
        Sample("rows.jsonl", b'{"row": 1}\n', b'{"row": 1}\n{"row": 2}\n'),
        Sample(f"picture{Path(picture.key).suffix}", picture.old, picture.new),
    ]


def paired(samples: Sequence[Sample]) -> list[Sample]:
    """Let each sample be overwritten by another one of its kind, if there is one."""
    kinds = defaultdict[str, list[Sample]](list)
    for sample in samples:
        kinds[Path(sample.name).suffix].append(sample)
    alike = ((sample, kinds[Path(sample.name).suffix]) for sample in samples)
    return [sample._replace(new=others[others.index(sample) - 1].old) for sample, others in alike]


def run(
    work: Work, timeout: int, files: Sequence[Path], folder: Path, say: Say
) -> Iterator[Finding]:
    """Try work on a local AWS of its own.

    The folder gets the journal, and the page with all executions.
    """
    shutil.rmtree(folder, ignore_errors=True)
    journal = folder.resolve() / "journal"
    journal.mkdir(parents=True)
    say("Starting a local AWS, and deploying a stack with the work ...")
    with local_aws.start(folder.with_name(f"{folder.name}-aws")) as local:
        variables = {JOURNAL: str(journal)}
        stack = deploy_with_work(local, "try", {"Policy": POLICY}, work, timeout, variables)
        variables[RELEASE] = str(journal / "release")
        create_function(local, stack, LATE, work, STALL_SECONDS, variables)
        trial = Trial(local, stack.name, journal, timeout)
        samples = [Sample(file.name, file.read_bytes(), b"") for file in files]
        yield from trial.findings(samples or made_samples(), say, is_made=not files)
        saved.write(folder / "console.html", saved.read(Answers(trial.aws, trial.machine)))


class Unprocessed(Exception):
    """An event was not processed; the text says why. What needs that cannot be tried."""


class Trial:
    """A trial in a deployed stack."""

    def __init__(self, local: LocalAws, stack: str, journal: Path, timeout: int) -> None:
        self.aws, self._journal, self._timeout = Connection(stack, local), journal, timeout
        self._s3, self._functions = local.client("s3"), local.client("lambda")
        self._input, self._output = self.aws.stack.input_bucket, self.aws.stack.output_bucket
        states = local.client("stepfunctions")
        self.machine = LocalStateMachine(states, self.aws.stack.state_machine_arn)

    def findings(self, samples: Sequence[Sample], say: Say, *, is_made: bool) -> Iterator[Finding]:
        """Do all of the trial that can be done with what the work accepts."""
        say("Uploading ...")
        accepted, findings = self._accepted(samples, is_made=is_made)
        if accepted:
            say("Overwriting ...")
            findings.append(self._tried(self._overwrite, accepted))
            say(f"Losing answers, one for {self._timeout} s ...")
            findings.append(self._tried(self._lose_answers, accepted[0]))
            say("Letting invocations write late ...")
            for how in ("overwritten", "deleted"):
                findings.append(self._tried(self._write_late, accepted[0], how))
            findings += [self._outputs(), self._times()]
        yield from verdict.answers(self._invocations)
        yield from verdict.faults(self._invocations, time.time(), self._timeout)
        yield from findings

    def _tried(self, step: Callable[..., Finding], *arguments: Any) -> Finding:
        """Take a step of the trial, which may need what the work does not do."""
        try:
            return step(*arguments)
        except Unprocessed as error:
            return Finding("broken", str(error))

    def _accepted(
        self, samples: Sequence[Sample], *, is_made: bool
    ) -> tuple[list[Sample], list[Finding]]:
        """Upload each sample, of made ones until one is processed; a Failure if all are rejected.

        A finding says which event the work has not answered.
        """
        accepted, findings, rejected = list[Sample](), list[Finding](), ""
        for sample in samples:
            key = f"first/{sample.name}"
            self._put(key, sample.old)
            try:
                ended = self._settle(key)
            except Unprocessed as error:
                findings.append(Finding("broken", str(error)))
                continue
            invocations = self._of_event(ended.event)
            if reason := invocations[-1].rejection if invocations else "":
                rejected += f" {sample.name}: {reason}."
            elif ended.outcome == PROCESSED:
                accepted.append(sample)
                if is_made:
                    break
            elif ended.outcome == SUPERSEDED:
                only = f"{key}: its only event ended as {SUPERSEDED}: answer {PROCESSED}."
                findings.append(Finding("broken", only))
        if not accepted and not findings and verdict.answers(self._invocations)[0].mark == "kept":
            raise Failure(
                f"Nothing could be tried, because the work rejected each file.{rejected} Name files"
                f" that it takes: {INORDER} try HANDLER FILE"
            )
        return (accepted if is_made else paired(accepted)), findings

    def _overwrite(self, accepted: Sequence[Sample]) -> Finding:
        """Overwrite each sample at once, and deliver all events again."""
        keys = {f"twice/{sample.name}": sample for sample in accepted}
        for key, sample in keys.items():
            self._put(key, sample.old)
            self._put(key, sample.new)
        for key in keys:
            self._processed(key, events=2)
            *older, newest = self.machine.arrived(key)[key]
            for event, wanted in (*((event, SUPERSEDED) for event in older), (newest, "Duplicate")):
                ended = self.machine.run(event, PATIENCE_SECONDS)
                if ended.outcome != wanted:
                    return Finding("broken", f"{key}: a second delivery ended as {ended.ended_as}.")
        return Finding("kept", "Duplicates and late events were dropped without any work.")

    def _lose_answers(self, sample: Sample) -> Finding:
        """Lose an answer, and let another one come after the timeout; the work was done."""
        keys = [f"{how}/{sample.name}" for how in (FAILS, TIMES_OUT)]
        for key in keys:
            (self._journal / key.partition("/")[0]).touch()
            self._put(key, sample.new)
        for key in keys:
            ended = self._processed(key)
        payload = {"event": ended.event, "execution": ended.arn, "fence": "newest"}
        name, before = f"{self.aws.stack.name}-work", self._listed()
        self._functions.invoke(FunctionName=name, Payload=json.dumps(payload))
        if changed := self._changed(before):
            return Finding(
                "broken",
                f"{key}: its event was processed once more, as after a lost answer, which changed"
                f" {changed}. Let a repetition change nothing (docs/function.md).",
            )
        again = self._of_event(ended.event)[-1]
        return unseen(again, "a repetition") or Finding(
            "kept", "After a lost answer and a timeout, a repetition changed nothing."
        )

    def _write_late(self, sample: Sample, how: str) -> Finding:
        """Let an invocation write when a newer event is done, or a deletion.

        It is invoked without a state machine, as one that stalls until its lock is broken.
        """
        key, release = f"late-{how}/{sample.name}", self._journal / "release"
        self._put(key, sample.old)
        event = _again(self._processed(key).event)
        payload = {"event": event, "execution": LATE, "fence": "newest"}
        release.unlink(missing_ok=True)
        with ThreadPool(1) as pool:  # whose thread an interrupt does not wait for
            call = {"FunctionName": LATE, "Payload": json.dumps(payload)}
            invoked = pool.apply_async(self._functions.invoke, (), call)

            def has_stalled() -> bool:
                late = self._of_event(event)
                return invoked.ready() or any(invocation.stalled for invocation in late)

            try:
                wait_until(has_stalled, PATIENCE_SECONDS, "an invocation that stalls")
                if how == "deleted":
                    self._s3.delete_object(Bucket=self._input, Key=key)
                else:
                    self._put(key, sample.new)
                self._settle(key, events=2)
                before = self._listed()
            finally:
                release.touch()
            invoked.get()
        late, *_ = self._of_event(event) or [Invocation("", 0)]
        if changed := self._changed(before):
            return Finding(
                "broken",
                f"{key}: an invocation stalled before {late.stalled}, its object was {how}, and"
                f" then the invocation changed {changed}. No lock can stop a late write: write by"
                " inorder_fence, or under a condition of your own (docs/function.md).",
            )
        if not late.stalled:
            fault, _ = self._fault(late)
            fault = fault or "Nothing was written by boto3."
            return Finding("unknown", f"{key}: {fault} So nothing was late.")
        if finding := unseen(late, "a late write"):
            return finding
        if how == "overwritten" and sample.old == sample.new:
            return Finding("unknown", "A stale output would not show: name two files of a kind.")
        return Finding("kept", f"A write that came when the object was {how} changed nothing.")

    def _processed(self, key: str, events: int = 1) -> Execution:
        """Wait until so many events of a key are done, of which the newest must be processed."""
        if (ended := self._settle(key, events)).outcome != PROCESSED:
            raise Unprocessed(f"{key}: its newest event ended as {ended.ended_as}.")
        return ended

    def _settle(self, key: str, events: int = 1) -> Execution:
        """Wait until so many events of a key are done; give an execution of the newest one."""
        ended: list[Execution] = []

        def is_done() -> bool:
            runs = [run for run in self.machine.all(key) if run.key == key]
            sequencers = sorted({run.sequencer or "" for run in runs})
            if len(sequencers) < events:
                return False
            of_newest = [run for run in runs if run.sequencer == sequencers[-1]]
            retried = [run for run in of_newest if run.outcome == RETRYING]
            if len(retried) >= MOST_ATTEMPTS:
                raise Unprocessed(f"{key}: {self._why_retried(retried[0])}")
            ended[:] = [run for run in of_newest if run.outcome not in {None, RETRYING}]
            return bool(ended) and all(run.status != "RUNNING" for run in runs)

        wait_until(is_done, PATIENCE_SECONDS, f"the events of {key}")
        return min(ended, key=lambda run: run.outcome == "Duplicate")

    def _why_retried(self, retried: Execution) -> str:
        """Say why the last attempt at an event had no answer."""
        faults = [self._fault(invocation) for invocation in self._of_event(retried.event)]
        fault, advice = faults[-1] if faults else ("No attempt has reached the handler.", "")
        return f"{MOST_ATTEMPTS} attempts failed. {fault or retried.cause} {advice}".strip()

    def _fault(self, invocation: Invocation) -> tuple[str, str]:
        return invocation.fault(time.time(), self._timeout)

    def _of_event(self, event: Any) -> list[Invocation]:
        sequencer = event["detail"]["object"]["sequencer"]
        return [invocation for invocation in self._invocations if invocation.sequencer == sequencer]

    @property
    def _invocations(self) -> list[Invocation]:
        return verdict.journal(self._journal)

    def _put(self, key: str, content: bytes) -> None:
        self._s3.put_object(Bucket=self._input, Key=key, Body=content)

    def _listed(self) -> dict[str, str]:
        """Give the ETag of each output."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._output)
        return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", [])}

    def _changed(self, before: dict[str, str]) -> str:
        """Name the outputs that have changed since they were listed."""
        after = self._listed()
        names = (name for name in sorted(before | after) if before.get(name) != after.get(name))
        return ", ".join(names)

    def _outputs(self) -> Finding:
        heads = (self._s3.head_object(Bucket=self._output, Key=key) for key in self._listed())
        if not any("source-etag" in head["Metadata"] for head in heads):
            return Finding("unknown", "No output has the fence's metadata, so none was audited.")
        audited = Audit(self.aws).run(grace=0)  # nothing runs any more
        wrong = [case for case in audited.findings if case.verdict in WRONG - {Verdict.PARKED}]
        if wrong:
            keys = ", ".join(f"{case.subject.key} ({case.verdict.value})" for case in wrong)
            return Finding("broken", f"`inorder audit` finds wrong outputs: {keys}.")
        right = audited.counts[Verdict.RIGHT]
        return Finding("kept", f"All outputs are right, says `inorder audit`: {right}.")

    def _times(self) -> Finding:
        """Compare the times of the handler with its timeout."""
        slowest = max(run.seconds or 0 for run in self._invocations if not run.stalled)
        return Finding(
            "kept",
            f"The slowest invocation took {slowest:.2f} s. Its timeout is {self._timeout} s, and"
            " may be up to 110 s.",
        )


def unseen(invocation: Invocation, cause: str) -> Finding | None:
    """Say that an invocation has written to a store that the trial does not look at."""
    if not invocation.elsewhere:
        return None
    return Finding(
        "unknown",
        f"{invocation.key}: what {cause} changed was not seen, because the work calls"
        f" {', '.join(invocation.elsewhere)}, and only the output bucket is compared. Test that a"
        " write with an older sequencer is refused there (docs/function.md).",
    )


def _again(event: Any) -> Any:
    """Make the event of another upload of the same content, directly after the first one."""
    again = json.loads(json.dumps(event))
    sequencer = again["detail"]["object"]["sequencer"]
    again["detail"]["object"]["sequencer"] = f"{int(sequencer, 16) + 1:0{len(sequencer)}X}"
    return again
