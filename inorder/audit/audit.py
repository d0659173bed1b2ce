"""Audits a stack: compares all outputs with their sources, and repairs what is wrong."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from inorder.audit.comparing import REPAIRABLE, WRONG, Finding, Scope, Subject, Verdict
from inorder.audit.listing import Pair, listing
from inorder.audit.reading import Reader
from inorder.audit.repairing import repair_event
from inorder.audit.right_pairs import RightPairs
from inorder.aws import parked, waiting
from inorder.aws.stack import CONNECTIONS, Connection
from inorder.errors import Failure
from inorder.wording import clock
from inorder_fence import named_version
from inorder_fence.object_event import is_sequencer

# A change of an object needs a while until its event starts an execution; see `Audit.run`.
GRACE_SECONDS = 60
WAIT_SECONDS = 5  # between two looks at what is waited for
# S3's times have seconds: a pair is stored only if neither object may change within the same one.
SETTLED = timedelta(seconds=5)
NOTHING = "There is no such key, and no such output: nothing was compared."
REWRITES = (
    "--older-than and --foreign are for policies that keep the newest output, such as latest-wins."
)
ROUNDS = 3  # of repairs of a key
# What may be so for a moment only. A record may say *parked*; the queue is read later.
UNSETTLED = (REPAIRABLE | {Verdict.PARKED}) - {Verdict.OLD}


class Progress:
    """Is told how an audit goes on; this one tells nobody."""

    def listed(self, more: int) -> None:
        """Count more objects that are listed, of both buckets."""

    def compared(self, more: int, total: int) -> None:
        """Count more sources that are compared, of a total."""

    def waits(self, doubtful: Sequence[Finding], grace: float) -> None:
        """Read these again after a while: they look wrong, or wait."""


@dataclass
class Report:
    """The result of an audit."""

    counts: Counter[Verdict] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)  # all that is not right

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong; what waits, or is skipped, is not wrong."""
        return not any(finding.verdict in WRONG for finding in self.findings)


class Audit:
    """An audit of the keys that begin with a prefix.

    Parked events are received only if something is wrong. Right outputs that were written before
    `older_than` are *old*. The file `cache` keeps which outputs were right, so that nobody asks
    about these again. `foreign` says that foreign outputs are to be replaced.
    """

    def __init__(
        self,
        aws: Connection,
        prefix: str = "",
        older_than: datetime | None = None,
        cache: Path | None = None,
        foreign: bool = False,
    ) -> None:
        self._aws, self._prefix = aws, prefix
        self.scope = replace(_scope(aws), older_than=older_than, pause=waiting.backlog(aws))
        if (older_than or foreign) and not self.scope.rewrites:
            raise Failure(REWRITES)
        self._reader = Reader(aws.client("s3"), aws.lists, aws.client("dynamodb"), self.scope)
        self._cache, self._unsure = cache, UNSETTLED
        if self.scope.keeps == "each":  # a claim does not tell whether its event has failed
            self._unsure = UNSETTLED | {Verdict.WAITING}

    def run(
        self,
        progress: Progress | None = None,
        grace: float = GRACE_SECONDS,
        only_missing: bool = False,
        wait: bool = False,
    ) -> Report:
        """Compare all that is listed.

        What looks wrong may be so for a moment only: an upload is there before its event has been
        processed. So it is read again after `grace` seconds, and as many as each event waits, and
        is wrong only if nothing has changed meanwhile, and no execution is at it. Nothing waits for
        events that are all parked, of objects that have not changed for as long.

        With `only_missing`, outputs without a source are not looked for. With `wait`, it ends when
        each output is right, or something is wrong that nothing will act on.
        """
        if wait:
            self.refuse_in_a_pause("no output of theirs can become right")
        progress, grace = progress or Progress(), grace + self._aws.stack.quiet_seconds
        report = Report()
        reader, prefix = self._reader, self._prefix
        pairs = RightPairs(self._cache, self.scope)
        now = reader.clock()
        if self.scope.older_than and self.scope.older_than > now:
            older_than = clock(self.scope.older_than)
            raise Failure(f"No output is older than {older_than}: S3 has {clock(now)}.")
        before, unchanged = now - SETTLED, now - timedelta(seconds=grace)
        listings = listing(reader.sources(prefix), reader.outputs(prefix), progress.listed)
        with ThreadPoolExecutor(CONNECTIONS) as pool, listings as listed:
            doubtful, older = list[Subject](), set[Subject]()
            for page in listed.pairs():
                for pair in self._not_right(page, report, pairs, before, pool):
                    doubtful.append(pair.subject)
                    if datetime.fromisoformat(pair.modified) <= unchanged:
                        older.add(pair.subject)
                progress.compared(len(page), listed.sources)
            for subjects in () if only_missing else listed.outputs_alone():
                doubtful += subjects
            pairs.close(None if prefix else listed.sources)
            seen = [*reader.find_all(doubtful, pool.map)]
            certain = self._surely_parked(seen, older, wait)
            rest = [finding for finding in seen if finding.subject not in certain]
            findings = [*self._settled(pool, rest, progress, grace, wait)]
        if not report.counts.total() + len(seen):
            raise Failure(NOTHING)
        for finding in [*certain.values(), *self._with_parked(findings)]:
            report.counts[finding.verdict] += 1
            if finding.verdict is not Verdict.RIGHT:
                report.findings.append(finding)
        return report

    def _not_right(
        self,
        page: list[Pair],
        report: Report,
        right: RightPairs,
        before: datetime,
        pool: ThreadPoolExecutor,
    ) -> Iterator[Pair]:
        """Count what is right or skipped, and give the rest."""
        stored = right.among(page)
        unknown, to_store = list[Pair](), list[Pair]()
        for pair in page:
            if pair.key.endswith("/") and pair.size == 0:
                report.counts[Verdict.SKIPPED] += 1
            elif pair not in stored or self._is_old(pair):
                unknown.append(pair)
            else:
                report.counts[Verdict.RIGHT] += 1
        with_output = [pair for pair in unknown if pair.output_etag and not self._is_old(pair)]
        outputs = dict(zip(with_output, pool.map(self._reader.compared, with_output), strict=True))
        for pair in unknown:
            if output := outputs.get(pair):
                report.counts[Verdict.RIGHT] += 1
                if pair.stays(output, before):
                    to_store.append(pair)
            else:
                yield pair
        right.add(to_store)

    def _is_old(self, pair: Pair) -> bool:
        older_than, written = self.scope.older_than, pair.output_modified
        if older_than is None or written is None:
            return False
        return datetime.fromisoformat(written) < older_than

    def _surely_parked(
        self, seen: Sequence[Finding], older: Set[Subject], wait: bool
    ) -> dict[Subject, Finding]:
        """Give what the queue of parked events has, if no grace is needed for anything else.

        An object of the same content may just have been uploaded again: only *older* ones count.
        """
        unsure = self._unsure | ({Verdict.WAITING} if wait else set())
        doubtful = [finding for finding in seen if finding.verdict in unsure]
        if any(
            item.verdict is not Verdict.PARKED or item.subject not in older for item in doubtful
        ):
            return {}
        judged = self._with_parked(doubtful)
        return {item.subject: item for item in judged if item.verdict is Verdict.PARKED}

    def _settled(
        self,
        pool: ThreadPoolExecutor,
        seen: Iterable[Finding],
        progress: Progress,
        grace: float,
        wait: bool,
    ) -> Iterator[Finding]:
        """Read again what looks wrong, and give what stays the same for the time of grace.

        With `wait`, what changes and what waits are read again and again.
        """
        pause, waited = WAIT_SECONDS if wait else grace, 0.0
        doubtful = dict[Subject, tuple[Finding, float]]()  # and since when it has not changed
        for finding in seen:
            if finding.verdict in UNSETTLED or (wait and finding.verdict is Verdict.WAITING):
                doubtful[finding.subject] = finding, waited
            else:
                yield finding
        while doubtful:
            progress.waits([finding for finding, _ in doubtful.values()], grace)
            time.sleep(pause)
            waited += pause
            for finding in self._reader.find_all([*doubtful], pool.map):
                last, since = doubtful.pop(finding.subject)
                settled = finding
                if finding.verdict in UNSETTLED and finding.reading != last.reading:
                    settled = Finding(finding.subject, Verdict.WAITING, None, "It changes.")
                if wait and settled.verdict is Verdict.WAITING:
                    doubtful[finding.subject] = finding, waited
                elif settled.verdict in UNSETTLED and waited - since < grace:
                    doubtful[finding.subject] = finding, since
                else:
                    yield settled

    def _with_parked(self, findings: list[Finding]) -> Iterator[Finding]:
        """Read the queue of parked events, if it may have some of these, and judge again by it."""
        reasons = dict[tuple[str, Any], str]()
        if any(finding.verdict in self._unsure for finding in findings):
            with closing(parked.parked_events(self._aws)) as received:
                for message in received:
                    reasons[_object_in(message.body.get("event"))] = message.reason
        for finding in findings:
            if finding.verdict not in self._unsure or finding.reading is None:
                yield finding
                continue
            source = finding.reading.source
            reason = reasons.get((finding.subject.key, source.object_id if source else None))
            final = self._reader.finding(
                finding.subject, finding.reading, parked=reason is not None
            )
            yield replace(final, reason=reason or final.reason)

    def refuse_in_a_pause(self, therefore: str = "nothing can be repaired") -> None:
        """Raise a Failure while events wait: a repair would do the work of each of them twice."""
        if self.scope.pause:
            resume = f" {waiting.RESUME}" if self._aws.stack.is_paused else ""
            raise Failure(f"{self.scope.pause} Until they are started, {therefore}.{resume}")

    def repair(
        self, findings: Iterable[Finding], concurrency: int
    ) -> Iterator[tuple[Finding, str]]:
        """Start an event for each finding, and wait for its end.

        Gives each finding as it is afterwards, and how the event ended: an outcome, or why none
        was started. At most `concurrency` executions run at once. If this is interrupted, nothing
        is lost: what has been started goes on, and another audit finds the rest.
        """
        self.refuse_in_a_pause()
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
            judged = self._reader.finding(finding.subject, now.reading, parked=False)
            if now.reading is None or not judged.is_repairable(wanted):
                break
            self._forget_unordered(now.reading.record)
            outcome = self._process(repair_event(self.scope, now.reading, datetime.now(UTC)))
            now = self._reader.find(finding.subject)
            if outcome != "Superseded":  # then an event that nobody knew of was recorded before
                break
        return now, outcome

    def _forget_unordered(self, record: Mapping[str, str]) -> None:
        """Delete a record, unless it is locked, if no repair could be newer than its sequencer."""
        if is_sequencer(record.get("sequencer", "0")):
            return
        dynamodb = self._aws.client("dynamodb")
        with suppress(dynamodb.exceptions.ConditionalCheckFailedException):
            dynamodb.delete_item(
                TableName=self.scope.table,
                Key={"id": {"S": record["id"]}},
                ConditionExpression="sequencer = :it AND attribute_not_exists(lock_token)",
                ExpressionAttributeValues={":it": {"S": record["sequencer"]}},
            )

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
    stack, policy = aws.stack, aws.stack.policy
    if policy is None:
        name = stack.policy_name or "of no name"
        raise Failure(
            f"Stack {stack.name} has the policy {name}, which this version does not know."
        )
    return Scope(
        bucket=stack.input_bucket,
        output_bucket=stack.output_bucket,
        table=stack.key_table if policy.claims_keys else "",
        keeps=policy.keeps,
        handles_deletions=policy.deletions and stack.handles_deletions,
        key_prefix=stack.parameters.get("KeyPrefix", ""),
        key_suffix=stack.parameters.get("KeySuffix", ""),
        without_output=policy.without_output,
    )


def _object_in(event: Any) -> tuple[str, Any]:
    """Name the object of an event by its key, version and ETag; of a deletion, by its key."""
    match event:
        case {"detail-type": "Object Deleted", "detail": {"object": {"key": str(key)}}}:
            return key, None
        case {"detail": {"object": {"key": str(key), "etag": str(etag), **more}}}:
            return key, (named_version(more.get("version-id")), etag)
    return "", None
