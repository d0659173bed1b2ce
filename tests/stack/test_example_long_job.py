"""The example of long jobs, beside the main stack: late, stopped, failed and rejected jobs."""

import json
import re
import subprocess
from pathlib import Path
from shutil import copytree
from typing import Any

import jmespath  # type: ignore[import-untyped]
import pytest
from click.testing import CliRunner

from inorder import PROJECT
from inorder.aws.executions import wait_until
from inorder.aws.stack import deploy
from inorder.commands.main import main
from inorder.local_aws import LocalAws
from tests.stack.conftest import SECONDS, Deployed, Workflow, edit
from tests.support.replacing import replaced

EXAMPLE = PROJECT / "examples" / "long_job"
STACK = "long-jobs"
# The first job of a slow object does its work, and waits until the test lets it go on.
WORK = """

import time
from pathlib import Path

HERE = Path({folder!r})
count = handler


def handler(payload, context):
    found = ObjectEvent.from_event(payload["event"])
    content = s3.get_object(Bucket=found.bucket, Key=found.key)["Body"].read()
    if content.startswith(b"broken"):
        raise RuntimeError("It says so.")
    if content.startswith(b"bad"):
        return {{"outcome": "Rejected", "error": "NoText", "cause": "It says so."}}
    answer = count(payload, context)
    if content.startswith(b"slow") and not (HERE / "working").exists():
        (HERE / "working").touch()
        while not (HERE / "released").exists():
            time.sleep(0.1)
        (HERE / "ended").touch()
    return answer
"""


class Jobs(Workflow):
    """The main stack with the example, some of whose jobs wait or fail."""

    def __init__(self, local: LocalAws, folder: Path) -> None:
        self.folder = copytree(EXAMPLE, folder / "long_job")
        code, template = self.folder / "count_lines.py", self.folder / "template.yaml"
        code.write_text(code.read_text() + WORK.format(folder=str(self.folder)))
        # So small that a job has several parts, and with short pauses between two attempts.
        edit(template, {'SLICE_BYTES: "268435456"': 'SLICE_BYTES: "8"'})
        edit(self.folder / "long_job.asl.json", {'"IntervalSeconds": 10': '"IntervalSeconds": 1'})
        deploy(local, STACK, {})
        outputs = Deployed(local, STACK).deployed
        names = ("InputBucketName", "OutputBucketName", "WorkFunctionPolicyArn")
        parameters = {name: outputs[name] for name in names}
        example = Deployed(local, "example", template, **parameters).deployed
        self.function, self.machine = example["FunctionArn"], example["StateMachineArn"]
        super().__init__(local, deploy(local, STACK, {"WorkFunctionArn": self.function}))
        self.states = local.client("stepfunctions")
        self.allow_plain_http()

    def job(self, key: str, number: int = 1) -> str:
        """Wait until so many events are processed, and give the ARN of the last one's job."""
        processed = self.of_key(key, number)[-1]
        assert processed.outcome == "Processed", processed
        [job] = [arn for arn in self.listed() if arn.endswith(f"-{processed.sequencer}")]
        return job

    def end_of(self, job: str) -> dict[str, Any]:
        """Wait until a job has ended, and describe it."""
        described: dict[str, Any] = {}

        def has_ended() -> bool:
            described.update(self.states.describe_execution(executionArn=job))
            return bool(described["status"] != "RUNNING")

        wait_until(has_ended, SECONDS, f"the end of {job}")
        return described

    def listed(self, **status: Any) -> list[str]:
        """List the ARNs of all jobs, or of those with a status."""
        answer = self.states.list_executions(stateMachineArn=self.machine, **status)
        return [execution["executionArn"] for execution in answer["executions"]]

    def start_slow(self, key: str) -> str:
        """Upload a slow object, wait until its job works, and give the job's ARN."""
        for marker in ("working", "released", "ended"):
            (self.folder / marker).unlink(missing_ok=True)
        self.upload(key, b"slow\n")
        job = self.job(key)
        wait_until((self.folder / "working").exists, SECONDS, "the work")
        return job

    def release(self) -> None:
        """Let the slow job go on, and wait until its function has ended."""
        (self.folder / "released").touch()
        wait_until((self.folder / "ended").exists, SECONDS, "the slow function")

    def audit(self, key: str) -> str:
        command = ("audit", "--stack-name", STACK, "--prefix", key, "--grace", "0")
        return CliRunner(env=self.local.environment).invoke(main, command).output


@pytest.fixture(scope="module")
def jobs(strict: LocalAws, tmp_path_factory: pytest.TempPathFactory) -> Jobs:
    return Jobs(strict, tmp_path_factory.mktemp("jobs"))


def test_a_deletion_removes_the_output_of_a_job_in_parts(jobs: Jobs) -> None:
    key = "a b/ü.txt"
    jobs.upload(key, b"one\ntwo\nthree\nfour\n")
    ended = jobs.end_of(jobs.job(key))
    assert json.loads(ended["output"]) == {"outcome": "Processed", "output_key": "a b/out-ü.txt"}
    [processed] = jobs.of_key(key, 1)
    assert jobs.output(key) == f"4\n{processed.sequencer}#".encode()
    history = jobs.states.get_execution_history(executionArn=ended["executionArn"])["events"]
    entered = [entry.get("stateEnteredEventDetails", {}).get("name") for entry in history]
    assert entered.count("Work") == 3
    assert "1 right" in jobs.audit(key)
    jobs.delete(key)
    assert jobs.of_key(key, 2)[-1].outcome == "Processed"
    assert jobs.output(key) is None


def test_a_second_delivery_starts_nothing(jobs: Jobs) -> None:
    job = jobs.start_slow("twice")
    [event] = jobs.events("twice", 1)
    before = jobs.listed()

    def deliver() -> None:
        again = {**event, "id": "another", "retry": {"number": 2}}
        result = jobs.invoke(jobs.function, {"event": again, "fence": "newest"})
        assert (result["outcome"], result["job"]) == ("Processed", job.rpartition(":")[2])

    deliver()
    jobs.release()
    assert jobs.end_of(job)["status"] == "SUCCEEDED"
    deliver()
    assert jobs.listed() == before


@pytest.mark.parametrize("newer", [b"slow\n", b"new\n"], ids=["the same content", "another one"])
def test_an_older_job_that_ends_last_changes_nothing(jobs: Jobs, newer: bytes) -> None:
    slow = jobs.start_slow(key := f"x{len(newer)}")
    assert "1 missing" in jobs.audit(key)
    jobs.upload(key, newer)
    assert jobs.end_of(jobs.job(key, 2))["status"] == "SUCCEEDED"
    output = jobs.output(key)
    assert output
    assert output.endswith(f"\n{jobs.of_key(key, 2)[-1].sequencer}#".encode())
    jobs.release()
    assert json.loads(jobs.end_of(slow)["output"])["outcome"] == "Superseded"
    assert jobs.output(key) == output


def test_an_older_job_is_found_by_its_key_and_stopped(jobs: Jobs) -> None:
    key, readme = "stopped", (EXAMPLE / "README.md").read_text(encoding="utf-8")
    slow = jobs.start_slow(key)
    [pipe] = re.findall(r"^hash=\$\((.*)\)$", readme, re.MULTILINE)
    named = replaced(pipe, "BUCKET/KEY", f"{jobs.stack.input_bucket}/{key}")
    begin = subprocess.run(named, shell=True, capture_output=True, text=True, check=True)  # noqa: S602 - of our own document
    [query] = re.findall(r'--query "(.*)"', readme)
    running = jobs.states.list_executions(stateMachineArn=jobs.machine, statusFilter="RUNNING")
    assert jmespath.search(replaced(query, "$hash", begin.stdout.strip()), running) == [slow]
    jobs.states.stop_execution(executionArn=slow)
    jobs.upload(key, b"new\n")
    jobs.end_of(jobs.job(key, 2))
    output = jobs.output(key)
    jobs.release()
    assert jobs.end_of(slow)["status"] == "ABORTED"
    assert output
    assert jobs.output(key) == output


@pytest.mark.parametrize(
    ("content", "error"), [(b"broken", "Runtime.HandlerError"), (b"bad", "Rejected")]
)
def test_a_failed_job_leaves_no_output_and_is_found(jobs: Jobs, content: bytes, error: str) -> None:
    jobs.upload(key := content.decode(), content)
    job = jobs.job(key)
    failed = jobs.end_of(job)
    assert (failed["status"], failed["error"]) == ("FAILED", error)
    assert "It says so." in failed["cause"]
    assert job in jobs.listed(statusFilter="FAILED")
    assert jobs.output(key) is None
    assert "1 missing" in jobs.audit(key)


def test_an_event_of_a_version_is_parked(jobs: Jobs) -> None:
    jobs.upload("versions", b"one\n")
    jobs.end_of(jobs.job("versions"))
    [event] = jobs.events("versions", 1)
    event["detail"]["object"]["version-id"] = "v1"
    before = jobs.listed()
    assert jobs.run(event).outcome == "Parked"
    assert jobs.listed() == before
