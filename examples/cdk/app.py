"""A CDK app with two buckets and a function, which is invoked once and in order."""

from pathlib import Path

from aws_cdk import App, Duration, Stack, aws_lambda, aws_s3
from in_order import InOrder

HERE = Path(__file__).parent
OUT = HERE.parents[1] / "out"  # `make package` writes the template and the fence's layer there
app = App()
stack = Stack(app, "Documents")
documents = aws_s3.Bucket(stack, "Documents", event_bridge_enabled=True)
indexes = aws_s3.Bucket(stack, "Indexes")
fence = aws_lambda.LayerVersion(
    stack,
    "Fence",
    code=aws_lambda.Code.from_asset(
        app.node.try_get_context("fence") or str(OUT / "fence" / "inorder_fence_layer.zip")
    ),
    compatible_runtimes=[aws_lambda.Runtime.PYTHON_3_13],
)
function = aws_lambda.Function(
    stack,
    "IndexFunction",
    code=aws_lambda.Code.from_asset(str(HERE.parent / "json_index")),
    layers=[fence],
    handler="app.handler",
    runtime=aws_lambda.Runtime.PYTHON_3_13,
    timeout=Duration.seconds(15),
    recursive_loop=aws_lambda.RecursiveLoop.ALLOW,
    environment={
        "OUTPUT_BUCKET": indexes.bucket_name,
        "MAXIMUM_BYTES": "33554432",
        "RECORD_RETENTION_DAYS": "7",
        "HANDLES_DELETIONS": "true",
    },
)
InOrder(
    stack,
    "InOrder",
    template=app.node.try_get_context("template") or str(OUT / "packaged.yaml"),
    input_bucket=documents,
    output_bucket=indexes,
    work_function=function,
)
app.synth()
