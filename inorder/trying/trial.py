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

POLICY = "latest-wins"
LATE, STALL_SECONDS = "try-late", 900  # the function that stalls, and its timeout
PATIENCE_SECONDS = EXPRESS_SECONDS + 60
MOST_RETRIES = 3  # of an event whose invocations the journal does not have

Say = Callable[[str], Any]


class Sample(NamedTuple):
    """Two contents for one key: the second one overwrites the first one."""

    name: str
    old: bytes
    new: bytes


def made() -> list[Sample]:
    """Make samples of several kinds, as nobody knows which one a handler takes."""
    [picture] = own_pairs(1)
    return [
        Sample("text.txt", b"one\n", b"another\n"),
        Sample("rows.jsonl", b'{"row": 1}\n', b'{"row": 1}\n{"row": 2}\n'),
        Sample(f"picture{Path(picture.key).suffix}", picture.old, picture.new),
    ]


def paired(given: Sequence[Sample]) -> list[Sample]:
    """Let each sample be overwritten by another one of its kind, if there is one."""
    kinds = defaultdict[str, list[Sample]](list)
    for each in given:
        kinds[Path(each.name).suffix].append(each)
    alike = ((each, kinds[Path(each.name).suffix]) for each in given)
    return [each._replace(new=others[others.index(each) - 1].old) for each, others in alike]


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
        trial = _begin(work, timeout, local, journal)
        given = [Sample(file.name, file.read_bytes(), b"") for file in files]
        yield from trial.findings(given or made(), say, is_made=not files)
        saved.write(folder / "console.html", saved.read(Answers(trial.aws, trial.machine)))


def _begin(work: Work, timeout: int, local: LocalAws, journal: Path) -> Trial:
    variables = {JOURNAL: str(journal)}
    stack = deploy_with_work(local, "try", {"Policy": POLICY}, work, timeout, variables)
    variables[RELEASE] = str(journal / "release")
    create_function(local, stack, LATE, work, STALL_SECONDS, variables)
    return Trial(local, stack.name, journal, timeout)


class Broken(Exception):
    """The work has broken the contract, so the trial need not go on."""


class Trial:
    """A trial in a deployed stack."""

    def __init__(self, local: LocalAws, stack: str, journal: Path, timeout: int) -> None:
        self.aws, self._journal, self._timeout = Connection(stack, local), journal, timeout
        self._s3, self._functions = local.client("s3"), local.client("lambda")
        self._input, self._output = self.aws.stack.input_bucket, self.aws.stack.output_bucket
        states = local.client("stepfunctions")
        self.machine = LocalStateMachine(states, self.aws.stack.state_machine_arn)

    def findings(self, given: Sequence[Sample], say: Say, *, is_made: bool) -> Iterator[Finding]:
        """Do all of the trial, or what comes before the first answer that breaks the contract."""
        try:
            say("Uploading ...")
            accepted = self._accepted(given, is_made=is_made)
            say("Overwriting ...")
            found = [self._overwrite(accepted), *self._faults(accepted[0], say)]
        except Broken:
            yield self._answers()
            return
        yield from [self._answers(), *found, self._outputs(), self._times()]

    def _accepted(self, given: Sequence[Sample], *, is_made: bool) -> list[Sample]:
        """Upload each sample, of made ones until one is accepted; a Failure if none is."""
        accepted, rejected = list[Sample](), ""
        for sample in given:
            key = f"first/{sample.name}"
            self._put(key, sample.old)
            reason = self._rejection(self._settle(key))
            accepted += [] if reason else [sample]
            rejected += f" {sample.name}: {reason}." if reason else ""
            if accepted and is_made:
                break
        if not accepted:
            raise Failure(
                f"Nothing could be tried, because the work rejected each file.{rejected} Name files"
                " that it takes: inorder try HANDLER FILE"
            )
        return accepted if is_made else paired(accepted)

    def _overwrite(self, accepted: Sequence[Sample]) -> Finding:
        """Overwrite each sample at once, and deliver all events again."""
        keys = {f"twice/{sample.name}": sample for sample in accepted}
        for key, sample in keys.items():
            self._put(key, sample.old)
            self._put(key, sample.new)
        for key in keys:
            self._settle(key, events=2)
            *older, newest = self.machine.arrived(key)[key]
            for event, wanted in (*((each, "Superseded") for each in older), (newest, "Duplicate")):
                ended = self.machine.run(event, PATIENCE_SECONDS)
                if ended.outcome != wanted:
                    return Finding("broken", f"{key}: a second delivery ended as {ended.ended_as}.")
        return Finding("kept", "Duplicates and late events were dropped without any work.")

    def _faults(self, sample: Sample, say: Say) -> list[Finding]:
        say(f"Losing answers, one for {self._timeout} s ...")
        found = [self._lose_answers(sample)]
        say("Letting invocations write late ...")
        return found + [self._write_late(sample, how) for how in ("overwritten", "deleted")]

    def _lose_answers(self, sample: Sample) -> Finding:
        """Lose an answer, and let another one come after the timeout; the work was done."""
        keys = [f"{how}/{sample.name}" for how in (FAILS, TIMES_OUT)]
        for key in keys:
            (self._journal / key.partition("/")[0]).touch()
            self._put(key, sample.new)
        for key in keys:
            if (ended := self._settle(key)).outcome != "Processed":
                return Finding("broken", f"{key}: the second attempt ended as {ended.ended_as}.")
        payload = {"event": ended.event, "execution": ended.arn, "fence": "newest"}
        name, before = f"{self.aws.stack.name}-work", self._listed()
        self._functions.invoke(FunctionName=name, Payload=json.dumps(payload))
        if changed := self._changed(before):
            return Finding(
                "broken",
                f"{key}: its event was processed once more, as after a lost answer, which changed"
                f" {changed}. Let a repetition change nothing (docs/function.md).",
            )
        return Finding("kept", "After a lost answer and a timeout, a repetition changed nothing.")

    def _write_late(self, sample: Sample, how: str) -> Finding:
        """Let an invocation write when a newer event is done, or a deletion.

        It is invoked without a state machine, as one that stalls until its lock is broken.
        """
        key, release = f"late-{how}/{sample.name}", self._journal / "release"
        self._put(key, sample.old)
        event = _again(self._settle(key).event)
        payload = {"event": event, "execution": LATE, "fence": "newest"}
        release.unlink(missing_ok=True)
        with ThreadPool(1) as pool:  # whose thread an interrupt does not wait for
            call = {"FunctionName": LATE, "Payload": json.dumps(payload)}
            invoked = pool.apply_async(self._functions.invoke, (), call)
            sequencer = event["detail"]["object"]["sequencer"]

            def begun() -> list[Invocation]:
                of_event = (each for each in self._invocations if each.sequencer == sequencer)
                return [each for each in of_event if each.stalled or each.seconds is not None]

            wait_until(lambda: bool(begun()), PATIENCE_SECONDS, "an invocation that stalls")
            [late] = begun()
            if how == "deleted":
                self._s3.delete_object(Bucket=self._input, Key=key)
            else:
                self._put(key, sample.new)
            self._settle(key, events=2)
            before = self._listed()
            release.touch()
            invoked.get()
        self._check()
        changed = self._changed(before)
        if not late.stalled:
            return Finding("unknown", f"{key}: nothing was written by boto3, so nothing was late.")
        if how == "overwritten" and sample.old == sample.new:
            return Finding("unknown", "A stale output would not show: name two files of a kind.")
        if not changed:
            return Finding("kept", f"A write that came when the object was {how} changed nothing.")
        return Finding(
            "broken",
            f"{key}: an invocation stalled before {late.stalled}, its object was {how}, and then"
            f" the invocation changed {changed}. No lock can stop a late write: write by"
            " inorder_fence, or under a condition of your own (docs/function.md).",
        )

    def _settle(self, key: str, events: int = 1) -> Execution:
        """Wait until so many events of a key are done; give an execution of the newest one."""
        ended: list[Execution] = []

        def is_done() -> bool:
            self._check()
            found = [each for each in self.machine.all(key) if each.key == key]
            sequencers = sorted({each.sequencer or "" for each in found})
            if len(sequencers) < events:
                return False
            of_newest = [each for each in found if each.sequencer == sequencers[-1]]
            retried = [each for each in of_newest if each.outcome == RETRYING]
            if len(retried) >= MOST_RETRIES:
                raise Failure(f"{key}: its event is retried again and again: {retried[0].cause}")
            ended[:] = [each for each in of_newest if each.outcome not in {None, RETRYING}]
            return bool(ended) and all(each.status != "RUNNING" for each in found)

        wait_until(is_done, PATIENCE_SECONDS, f"the events of {key}")
        return min(ended, key=lambda each: each.outcome == "Duplicate")

    def _rejection(self, ended: Execution) -> str:
        """Say why the work has rejected an event; "" if it has not."""
        return next(each.rejection for each in self._invocations if each.key == ended.key)

    def _check(self) -> None:
        """Raise Broken if the work has broken the contract."""
        if self._answers().mark == "broken":
            raise Broken

    @property
    def _invocations(self) -> list[Invocation]:
        return verdict.journal(self._journal)

    def _answers(self) -> Finding:
        return verdict.answers(self._invocations, time.time(), self._timeout)

    def _put(self, key: str, content: bytes) -> None:
        self._s3.put_object(Bucket=self._input, Key=key, Body=content)

    def _listed(self) -> dict[str, str]:
        """Give the ETag of each output."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._output)
        return {each["Key"]: each["ETag"] for page in pages for each in page.get("Contents", [])}

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
        wrong = [each for each in audited.findings if each.verdict in WRONG - {Verdict.PARKED}]
        if wrong:
            keys = ", ".join(f"{each.subject.key} ({each.verdict.value})" for each in wrong)
            return Finding("broken", f"`inorder audit` finds wrong outputs: {keys}.")
        right = audited.counts[Verdict.RIGHT]
        return Finding("kept", f"All outputs are right, says `inorder audit`: {right}.")

    def _times(self) -> Finding:
        """Compare the times of the handler with its timeout."""
        slowest = max(each.seconds or 0 for each in self._invocations if not each.stalled)
        return Finding(
            "kept",
            f"The slowest invocation took {slowest:.2f} s of its {self._timeout} s, which may be"
            " 110 s.",
        )


def _again(event: Any) -> Any:
    """Make the event of another upload of the same content, directly after the first one."""
    again = json.loads(json.dumps(event))
    sequencer = again["detail"]["object"]["sequencer"]
    again["detail"]["object"]["sequencer"] = f"{int(sequencer, 16) + 1:0{len(sequencer)}X}"
    return again
