"""S3 notifications by SNS and SQS start the same executions as events by EventBridge."""

from inorder import PROJECT
from inorder.aws.stack import Described, deploy, sam_deploy
from inorder.local_aws import LocalAws
from tests.conftest import picture
from tests.stack.conftest import CYAN, RED, Workflow

KEY = "holiday/a b+c%2B é.png"


def test_an_upload_is_processed_by_way_of_sns_and_sqs_behind_a_malformed_message(
    local: LocalAws,
) -> None:
    workflow = Workflow(local, deploy(local, "adapting", {}))
    parameters = {"StackName": "adapting"}
    sam_deploy(local, "adapting-records", parameters, PROJECT / "stacks/records/template.yaml")
    queues = Described(local.client("cloudformation"), "adapting-records").outputs
    sns = local.client("sns")
    topic = sns.create_topic(Name="pictures")["TopicArn"]
    [arn] = workflow.queue_attributes(queues["RecordsQueueUrl"], "QueueArn")
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    by_sns = [{"TopicArn": topic, "Events": ["s3:ObjectCreated:*"]}]
    workflow.s3.put_bucket_notification_configuration(  # in place of EventBridge
        Bucket=workflow.stack.input_bucket,
        NotificationConfiguration={"TopicConfigurations": by_sns},
    )
    local.client("sqs").send_message(QueueUrl=queues["RecordsQueueUrl"], MessageBody="no JSON")
    workflow.upload(KEY, picture(RED))
    [execution] = workflow.of_key(KEY, 1)
    assert execution.outcome == "Processed", execution
    assert workflow.colour(KEY) == CYAN
    assert workflow.receive(queues["UnadaptedRecordsQueueUrl"]) == "no JSON"
