"""Audits a stack: compares all outputs with their sources, and repairs what is wrong."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from inorder.audit.comparing import REPAIRABLE, WRONG, Finding, Scope, Subject, Verdict
from inorder.audit.reading import Reader
from inorder.audit.repairing import repair_event
from inorder.aws import parked
from inorder.aws.stack import CONNECTIONS, Connection
from inorder.errors import Failure
from inorder.model import policies
from inorder_fence import named_version

# A change of an object needs a while until its event starts an execution; see `audit`.
GRACE_SECONDS = 60
NOTHING = "There is no such key, and no such output: nothing was compared."
ROUNDS = 3  # of repairs of a key
UNSETTLED = REPAIRABLE | {Verdict.PARKED}  # a record may say that; the queue is read later

Progress = Callable[[int], Any]  # is told how many more subjects have been compared


@dataclass
class Report:
    """The result of an audit."""

    counts: Counter[Verdict] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)  # all that is not right

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong; what waits, or is skipped, is not wrong."""
        return not any(each.verdict in WRONG for each in self.findings)


class Audit:
    """An audit of the keys that begin with a prefix.

    Parked events are received only if something is wrong.
    """

    def __init__(self, aws: Connection, prefix: str = "") -> None:
        self._aws, self._prefix = aws, prefix
        self.scope = _scope(aws)
        self._reader = Reader(aws.client("s3"), aws.client("dynamodb"), self.scope)

    def run(
        self,
        progress: Progress = lambda _: None,
        grace: float = GRACE_SECONDS,
        only_missing: bool = False,
    ) -> Report:
        """Compare all subjects.

        What looks wrong may be so for a moment only: an upload is there before its event has been
        processed. So it is read again after `grace` seconds, and is wrong only if nothing has
        changed meanwhile, and no execution is at it.

        Parameters
        ----------
        grace : float
            Seconds between the two readings.
        only_missing : bool
            Whether to look for sources without an output only, and not for outputs without source.
        """
        report = Report()
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            seen = [*self._first_sight(pool, report, progress, only_missing)]
            findings = [*self._settled(pool, seen, grace)]
        if not report.counts.total() + len(findings):
            raise Failure(NOTHING)
        for finding in self._with_parked(findings):
            report.counts[finding.verdict] += 1
            if finding.verdict is not Verdict.RIGHT:
                report.findings.append(finding)
        return report

    def _first_sight(
        self, pool: ThreadPoolExecutor, report: Report, progress: Progress, only_missing: bool
    ) -> Iterator[Finding]:
        """Judge all that is listed: count what is right, and give the rest."""
        listed: set[Subject] = set()
        for page in self._reader.sources(self._prefix):
            for finding in pool.map(lambda each: self._reader.compared(*each), page):
                listed.add(finding.subject)
                if finding.verdict in {Verdict.RIGHT, Verdict.SKIPPED}:
                    report.counts[finding.verdict] += 1
                else:
                    yield finding
            progress(len(page))
        for found in () if only_missing else self._reader.outputs(self._prefix):
            unlisted = [each for each in found if each not in listed]
            yield from pool.map(self._reader.find, unlisted)

    def _settled(
        self, pool: ThreadPoolExecutor, seen: list[Finding], grace: float
    ) -> Iterator[Finding]:
        """Read what looks wrong again after the time of grace, and give what stays the same."""
        yield from (each for each in seen if each.verdict not in UNSETTLED)
        before = {each.subject: each.reading for each in seen if each.verdict in UNSETTLED}
        time.sleep(grace if before else 0)
        for finding in pool.map(self._reader.find, before):
            is_same = finding.reading == before[finding.subject]
            if finding.verdict in UNSETTLED and not is_same:
                yield Finding(finding.subject, Verdict.WAITING, None, "It changes.")
            else:
                yield finding

    def _with_parked(self, findings: list[Finding]) -> Iterator[Finding]:
        """Read the queue of parked events, if it may have some of these, and judge again by it."""
        unsure = UNSETTLED
        if self.scope.keeps == "each":  # a claim does not tell whether its event has failed
            unsure = UNSETTLED | {Verdict.WAITING}
        reasons = dict[tuple[str, Any], str]()
        if any(each.verdict in unsure for each in findings):
            with closing(parked.parked_events(self._aws)) as received:
                for message in received:
                    reasons[_object_in(message.body.get("event"))] = message.reason
        for each in findings:
            if each.verdict not in unsure or each.reading is None:
                yield each
                continue
            source = each.reading.source
            reason = reasons.get((each.subject.key, source.object_id if source else None))
            found = self._reader.finding(each.subject, each.reading, parked=reason is not None)
            yield replace(found, reason=reason or found.reason)

    def repair(
        self, findings: Iterable[Finding], concurrency: int
    ) -> Iterator[tuple[Finding, str]]:
        """Start an event for each finding, and wait for its end.

        Gives each finding as it is afterwards, and how the event ended: an outcome, or why none
        was started. At most `concurrency` executions run at once. If this is interrupted, nothing
        is lost: what has been started goes on, and another audit finds the rest.
        """
        with ThreadPoolExecutor(concurrency) as pool:
            try:
                yield from pool.map(self._repair, findings)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _repair(self, finding: Finding) -> tuple[Finding, str]:
        wanted = {finding.verdict, *REPAIRABLE}
        now, outcome = self._reader.find(finding.subject), "Not Started"
        for _ in range(ROUNDS):
            # The queue of parked events was read; a record may call one parked for longer.
            found = self._reader.finding(finding.subject, now.reading, parked=False)
            if now.reading is None or found.verdict not in wanted:
                break
            outcome = self._process(repair_event(self.scope, now.reading, datetime.now(UTC)))
            now = self._reader.find(finding.subject)
            if outcome != "Superseded":  # then an event that nobody knew of was recorded before
                break
        return now, outcome

    def _process(self, event: dict[str, Any]) -> str:
        """Process an event, and give its outcome, or the error with which its execution ended."""
        ended = self._aws.synchronous.start_sync_execution(
            stateMachineArn=self._aws.stack.state_machine_arn, input=json.dumps(event)
        )
        output = json.loads(ended.get("output") or "{}")
        outcome = str(output.get("outcome") or ended.get("error") or ended["status"])
        if reason := output.get("reason"):
            outcome += f" ({reason['Error']}: {reason['Cause']})"
        return outcome


def _scope(aws: Connection) -> Scope:
    """Tell what a stack keeps; a Failure if that cannot be compared with anything."""
    parameters = aws.stack.parameters
    policy = policies.known(parameters.get("Policy", ""))
    if policy is None:
        name = parameters.get("Policy", "of no name")
        raise Failure(
            f"Stack {aws.stack.name} has the policy {name}, which this version does not know."
        )
    return Scope(
        bucket=aws.stack.input_bucket,
        output_bucket=aws.stack.output_bucket,
        table=aws.stack.key_table if policy.cost.uncontended.writes else "",
        keeps=policy.keeps,
        handles_deletions=policy.deletions and parameters.get("HandleDeletions") != "false",
        key_prefix=parameters.get("KeyPrefix", ""),
        key_suffix=parameters.get("KeySuffix", ""),
    )


def _object_in(event: Any) -> tuple[str, Any]:
    """Name the object of an event by its key, version and ETag; of a deletion, by its key."""
    match event:
        case {"detail-type": "Object Deleted", "detail": {"object": {"key": str(key)}}}:
            return key, None
        case {"detail": {"object": {"key": str(key), "etag": str(etag), **more}}}:
            return key, (named_version(more.get("version-id")), etag)
    return "", None
