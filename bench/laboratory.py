"""A local AWS with everything that the contenders need, deployed once for all of them."""

import io
import json
import shutil
import zipfile
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.config import Config

from inorder import PROJECT, local_aws
from inorder.aws.stack import Stack, deploy
from inorder.local_aws import LocalAws

FUNCTION, ROUTER = "bench", "bench-router"
PRODUCT, POLICY = "inorder", "latest-wins"
ROUTERS = 4
FUNCTION_SECONDS = 900  # a waiter within a function may wait for long


class Laboratory:
    """Everything that is deployed."""

    input_bucket, output_bucket = "bench-input", "bench-output"
    lock_table = "bench-locks"

    def __init__(self, local: LocalAws, folder: Path) -> None:
        self.local, self.folder = local, folder
        self.s3, self.functions = self.client("s3"), self.client("lambda")

    def client(self, service: str) -> Any:
        """Make a client that sends each request once."""
        config = Config(
            inject_host_prefix=False,
            max_pool_connections=100,
            read_timeout=FUNCTION_SECONDS,
            retries={"total_max_attempts": 1},
        )
        # boto3's overloads know literal service names only.
        return self.local.session.client(  # type: ignore[call-overload]
            service, endpoint_url=self.local.endpoint_url, config=config
        )

    def deploy(self, contenders: Collection[str]) -> None:
        """Create buckets, a table, queues, the functions, and the stacks of the state machines."""
        for bucket in (self.input_bucket, self.output_bucket):
            self.s3.create_bucket(Bucket=bucket)
        self.client("dynamodb").create_table(
            TableName=self.lock_table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "key", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
        )
        sqs = self.client("sqs")
        self.standard_queue: str = sqs.create_queue(QueueName="bench")["QueueUrl"]
        self.fifo_queue: str = sqs.create_queue(
            QueueName="bench.fifo", Attributes={"FifoQueue": "true"}
        )["QueueUrl"]
        code = code_of_functions()
        arn = self._create_function(FUNCTION, code, 1769)
        self._create_function(ROUTER, code, 256)
        if PRODUCT in contenders:
            parameters = {"Policy": POLICY, "WorkFunctionArn": arn}
            self.stack: Stack = deploy(self.local, "bench-inorder", parameters)

    def bound(self, concurrency: int) -> None:
        """Limit how many invocations the function may have at a time."""
        self.functions.put_function_concurrency(
            FunctionName=FUNCTION, ReservedConcurrentExecutions=concurrency
        )

    def warm(self, mark: str, workers: int) -> None:
        """Start the functions' workers, so that no cold start is measured."""
        self.bound(workers)
        for name, number in ((FUNCTION, workers), (ROUTER, ROUTERS)):
            payload = json.dumps({"warm": {"mark": f"{mark}-{name}", "workers": number}})

            def invoke(_: int, name: str = name, payload: str = payload) -> None:
                self.functions.invoke(FunctionName=name, Payload=payload)

            with ThreadPoolExecutor(number) as pool:
                list(pool.map(invoke, range(number)))

    def _create_function(self, name: str, code: bytes, memory: int) -> str:
        variables = {
            "BENCH_FOLDER": str(self.folder),
            "FIFO_QUEUE_URL": self.fifo_queue,
            "HANDLES_DELETIONS": "true",
            "LOCK_TABLE": self.lock_table,
            "MAXIMUM_BYTES": "50000000",
            "MAXIMUM_PIXELS": "30000000",
            "OUTPUT_BUCKET": self.output_bucket,
            "POWERTOOLS_LOG_LEVEL": "INFO",  # the server's own LOG_LEVEL is inherited
            "POWERTOOLS_METRICS_NAMESPACE": "bench",
            "POWERTOOLS_SERVICE_NAME": "bench",
            "RECORD_RETENTION_DAYS": "7",
            "SLOW_MARK": "",
            "SLOW_SECONDS": "0",
        }
        arn: str = self.functions.create_function(
            FunctionName=name,
            Runtime="python3.13",
            Handler="bench.contenders.lambda_function.handler",
            Role="arn:aws:iam::000000000000:role/bench",
            Code={"ZipFile": code},
            Timeout=FUNCTION_SECONDS,
            MemorySize=memory,
            Environment={"Variables": variables},
        )["FunctionArn"]
        return arn


def code_of_functions() -> bytes:
    """Pack the product's function and the contenders; packages come from this environment."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted((PROJECT / "functions").glob("*/*.py")):
            archive.write(file, file.relative_to(PROJECT / "functions"))
        for file in sorted((PROJECT / "bench" / "contenders").glob("*.py")):
            archive.write(file, file.relative_to(PROJECT))
    return packed.getvalue()


@contextmanager
def laboratory(folder: Path, contenders: Collection[str]) -> Iterator[Laboratory]:
    """Start a local AWS, deploy what the contenders need, and remove it again."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = {"BENCH_FOLDER": str(folder), "LAMBDA_WARM_TTL_SECONDS": "36000"}
    with local_aws.start(folder / "local-aws", settings=settings, server="bench.server") as local:
        lab = Laboratory(local, folder)
        lab.deploy(contenders)
        yield lab
