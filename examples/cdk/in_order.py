"""A construct for the application, over the template that `make package` writes."""

from __future__ import annotations

from aws_cdk import (
    CfnStack,
    Stack,
    aws_lambda,
    aws_s3,
    aws_s3_assets,
    aws_sqs,
)
from constructs import Construct


class InOrder(Construct):
    """Invokes a function for each object of a bucket: once, and in order.

    Parameters
    ----------
    template : str
        The path of the packaged template. CloudFormation names its stack after this construct and
        the stack around it, in at most 66 characters.
    input_bucket, output_bucket : Bucket
        The first must have EventBridge switched on.
    work_function : Function
        Its role gets what the fence needs.
    policy : str
        A value of the template's parameter ``Policy``.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        template: str,
        input_bucket: aws_s3.IBucket,
        output_bucket: aws_s3.IBucket,
        work_function: aws_lambda.IFunction,
        policy: str = "latest-wins",
    ) -> None:
        super().__init__(scope, construct_id)
        asset = aws_s3_assets.Asset(self, "Template", path=template)
        stack = CfnStack(
            self,
            "Stack",
            template_url=asset.http_url,
            parameters={
                "Policy": policy,
                "InputBucketName": input_bucket.bucket_name,
                "OutputBucketName": output_bucket.bucket_name,
                "WorkFunctionArn": work_function.function_arn,
                "WorkFunctionRoleName": work_function.role.role_name,
            },
        )
        queue_arn = Stack.of(self).format_arn(
            service="sqs", resource=stack.get_att("Outputs.ParkedEventsQueueName").to_string()
        )
        self.parked_queue = aws_sqs.Queue.from_queue_arn(self, "ParkedQueue", queue_arn)
