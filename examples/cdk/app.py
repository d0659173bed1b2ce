"""A CDK app: two buckets, a function, and the application that invokes it once and in order."""

from pathlib import Path

from aws_cdk import App, CfnOutput, CfnStack, Duration, Stack, aws_lambda, aws_s3, aws_s3_assets

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
template = aws_s3_assets.Asset(
    stack,
    "Template",
    path=app.node.try_get_context("template") or str(OUT / "packaged.yaml"),
)
in_order = CfnStack(  # its stack is named Documents-InOrder-..., in at most 66 characters
    stack,
    "InOrder",
    template_url=template.http_url,
    parameters={
        "Policy": "latest-wins",
        "InputBucketName": documents.bucket_name,
        "OutputBucketName": indexes.bucket_name,
        "WorkFunctionArn": function.function_arn,
        "WorkFunctionRoleName": function.role.role_name,  # it gets what the fence needs
    },
)
parked = in_order.get_att("Outputs.ParkedEventsQueueName").to_string()
CfnOutput(stack, "ParkedEventsQueueName", value=parked)
app.synth()
