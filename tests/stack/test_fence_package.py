"""The fence's wheel alone runs the handler of its README."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from inorder import PROJECT
from inorder.local_aws import LocalAws
from tests.support import events

FOLDER = PROJECT / "functions" / "inorder_fence"


def test_the_wheel_alone_runs_the_handler_of_the_readme(
    fence: Path, local: LocalAws, tmp_path: Path
) -> None:
    s3 = local.client("s3")
    for bucket in ("fence-input", "fence-output"):
        s3.create_bucket(Bucket=bucket)
    [wheel] = fence.glob("*.whl")
    run = [sys.executable, "-m", "uv", "run", "--quiet", "--isolated", "--no-project"]
    run += ["--python", sys.executable, "--with", f"{wheel}[boto3]", "python", "-I"]
    [handler] = re.findall(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    sent = [
        events.upload(s3, f"a/{each}", each.encode("latin1"), bucket="fence-input")
        for each in ("x", "é")
    ]
    payloads = [{"event": event, "fence": "newest"} for event in sent]
    answers = f"\nimport json\nprint(json.dumps([handler(each, None) for each in {payloads!r}]))\n"
    (tmp_path / "app.py").write_text(handler + answers)
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [*run, tmp_path / "app.py"],
        env=os.environ | local.environment | {"OUTPUT_BUCKET": "fence-output"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    processed, rejected = json.loads(done.stdout)
    assert (processed["outcome"], processed["output_key"]) == ("Processed", "a/out-x")
    assert (rejected["error"], rejected["cause"]) == ("Rejection", "The object is not UTF-8.")
    written = s3.get_object(Bucket="fence-output", Key="a/out-x")["Body"].read()
    assert written == f"X\n{events.SEQUENCER}#".encode()
