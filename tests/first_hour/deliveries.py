"""What is asked with events: through the rule, and by hand on each policy's state machine."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from botocore.exceptions import ClientError

from inorder.audit.audit import Audit
from inorder.demo.pictures import SLOW_EVERY, PicturePair, own_pairs
from inorder.demo.run import GAP_SECONDS, UNCOORDINATED, shows
from inorder.errors import Failure
from tests.conftest import picture
from tests.first_hour.questions import Answer, question, seen
from tests.first_hour.trial import PREFIX, Trial
from tests.support.events import upload

RED = (255, 0, 0)
STRANGE = ["{}", "{x}", 'a"b', "a'b", "é", "a+b", "a b", "%2B", "a%20b", "folder/x"]
STRANGE += ["[a]", "日本", "a&b=c", "\\"]
UPLOADS, UPLOADS_LOCALLY = 100, 20
PATIENCE = 300  # seconds until the output of an upload must be there
QUIET, QUIET_LOCALLY = 1000, 30
SHOWN, SHOWN_LOCALLY = 30, 18  # keys of the demonstration, a sixth of them slow


def outcome(ended: dict[str, Any]) -> str:
    """Give the outcome of an execution, or the error with which it ended."""
    output = json.loads(ended.get("output") or "{}")
    return str(output.get("outcome") or ended.get("error") or ended["status"])


def event_of(trial: Trial, key: str, content: bytes, sequencer: str) -> dict[str, Any]:
    """Upload an object of which the rule starts nothing, and build its event."""
    s3, bucket = trial.client("s3"), trial.stack.input_bucket
    return upload(s3, key, content, bucket=bucket, sequencer=sequencer)


@question(
    "Do 100 uploads at once become 100 right outputs, whatever their keys?",
    "The audit finds all of them right, and refuses a prefix without objects. Keys have braces,"
    " quotes, é, +, spaces and %2B, and EventBridge does not encode them.",
)
def uploads(trial: Trial) -> Answer:
    number = UPLOADS_LOCALLY if trial.local else UPLOADS
    keys = [f"{PREFIX}all/{each}.png" for each in STRANGE]
    keys += [f"{PREFIX}all/{each}.png" for each in range(number - len(keys))]
    began = time.time()
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda key: trial.put(key, picture(RED)), keys))
    delays = dict[str, float]()

    def all_there() -> bool:
        for key in set(keys) - set(delays):
            if trial.output(key):
                delays[key] = time.time() - began
        return len(delays) == len(keys)

    with suppress(TimeoutError):
        trial.wait(all_there, PATIENCE, f"{number} outputs")
    if missing := sorted(set(keys) - set(delays)):
        return seen(False, f"{len(missing)} have no output: {missing}")
    report = Audit(trial.aws, f"{PREFIX}all/").run(grace=trial.seconds(60, 1))
    late = sorted(delays.values())
    told = f"all within {late[-1]:.1f} s, half within {late[len(late) // 2]:.1f} s;"
    counts = {str(verdict): count for verdict, count in report.counts.items()}
    try:
        Audit(trial.aws, f"{PREFIX}no/such/prefix/").run()
    except Failure as error:
        is_right = report.is_right and report.counts.total() == number
        return seen(is_right, f"{told} {counts}; without objects: {error}", counts)
    return seen(False, f"{told} {counts}; without objects it found all right", counts)


@question(
    "Is a multipart upload one event?",
    "Yes, of reason CompleteMultipartUpload, and its ETag is compared like any other.",
)
def multipart(trial: Trial) -> Answer:
    s3 = trial.client("s3")
    where = {"Bucket": trial.stack.input_bucket, "Key": f"{PREFIX}parts.png"}
    upload = where | {"UploadId": s3.create_multipart_upload(**where)["UploadId"]}
    part = s3.upload_part(**upload, PartNumber=1, Body=picture(RED))
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    completed = s3.complete_multipart_upload(**upload, MultipartUpload=parts)
    seconds = trial.wait(lambda: bool(trial.output(where["Key"])), PATIENCE, "its output")
    return seen(True, f"ETag {completed['ETag']}, an output after {seconds:.1f} s")


@question(
    "Is the output of a deleted object removed?",
    "Soon, by the event Object Deleted.",
)
def deletion(trial: Trial) -> Answer:
    key = f"{PREFIX}deleted.png"
    trial.put(key, picture(RED))
    trial.wait(lambda: bool(trial.output(key)), PATIENCE, "its output")
    trial.client("s3").delete_object(Bucket=trial.stack.input_bucket, Key=key)
    seconds = trial.wait(lambda: not trial.output(key), PATIENCE, "the end of its output")
    return seen(True, f"after {seconds:.1f} s")


def shown(trial: Trial, policy: str, number: int) -> Counter[str]:
    """Deliver what `inorder demo` does, by hand; count the outcomes, and what outputs show."""

    def show(at: int, pair: PicturePair) -> list[str]:
        key, slow = f"by-hand/{policy}/{pair.key}", b"" if at % SLOW_EVERY else b"slow"
        old = event_of(trial, key, pair.old + slow, "00B1")
        runs = [executions.submit(trial.run, policy, old)]
        time.sleep(GAP_SECONDS)
        new = event_of(trial, key, pair.new, "00B2")
        runs += [executions.submit(trial.run, policy, each) for each in (new, old, new)]
        ended = [outcome(each.result()) for each in runs]
        return [*ended, "new" if shows(trial.output(key) or b"", pair.new) else "STALE"]

    with ThreadPoolExecutor(24) as executions, ThreadPoolExecutor(6) as keys:
        return Counter(itertools.chain(*keys.map(show, itertools.count(1), own_pairs(number))))


@question(
    "What does the demonstration show, without coordination and with it?",
    "Without it, all is Processed, and some outputs are stale: a slow function ends after the one"
    " of the newer picture. With it, none is stale, and nothing is processed twice.",
)
def demonstration(trial: Trial) -> Answer:
    number = SHOWN_LOCALLY if trial.local else SHOWN
    off, on = (shown(trial, policy, number) for policy in (UNCOORDINATED, "latest-wins"))
    is_shown = off["STALE"] > 0 and off["Processed"] == 4 * number
    is_kept = on["new"] == number and on["Processed"] <= 2 * number
    is_kept &= on["Processed"] + on["Superseded"] + on["Duplicate"] == 4 * number
    return seen(is_shown and is_kept, f"off: {dict(off)}; on: {dict(on)}")


@question(
    "Does S3 refuse conditional writes and deletions as the fence expects, with the KMS key?",
    "412 if there is another object, 404 if there is none; of ten writers at once, one wins:"
    " https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-requests.html",
)
def conditions(trial: Trial) -> Answer:
    s3 = trial.client("s3")
    where = {"Bucket": trial.stack.output_bucket, "Key": "by-hand/conditions"}

    def status(call: Callable[..., Any], **condition: str) -> int:
        try:
            answer = call(**where, **condition)
        except ClientError as error:
            answer = error.response
        return int(answer["ResponseMetadata"]["HTTPStatusCode"])

    with ThreadPoolExecutor(10) as pool:
        at_once = Counter(pool.map(lambda _: status(s3.put_object, IfNoneMatch="*"), range(10)))
    written = s3.head_object(**where)
    told = [status(s3.put_object, IfNoneMatch="*")]
    for etag in ('"0"', written["ETag"]):
        told += [status(s3.delete_object, IfMatch=etag), status(s3.put_object, IfMatch=etag)]
    is_refused = told == [412, 412, 412, 204, 404] and at_once[200] == 1
    observed = f"{told}; ten at once: {dict(at_once)}; {written.get('ServerSideEncryption')}"
    return seen(is_refused and set(at_once) <= {200, 409, 412}, observed)


@question(
    "Do quiet executions meet timeouts of 1 and 2 s?",
    "None of a thousand duplicates ends as Retrying. It is observed how long they take.",
)
def quiet(trial: Trial) -> Answer:
    event = event_of(trial, "by-hand/quiet.png", picture(RED), "00C1")
    first = outcome(trial.run("latest-wins", event))
    number = QUIET_LOCALLY if trial.local else QUIET
    with ThreadPoolExecutor(5) as pool:
        ended = list(pool.map(lambda _: trial.run("latest-wins", event), range(number)))
    outcomes = Counter(map(outcome, ended))
    seconds = sorted((each["stopDate"] - each["startDate"]).total_seconds() for each in ended)
    told = f"{first}, then {dict(outcomes)}; half within {seconds[number // 2]:.2f} s"
    told += f", all within {seconds[-1]:.2f} s"
    return seen(first == "Processed" and outcomes == {"Duplicate": number}, told)
