# The application as a stack of CloudFormation, for those who use Terraform.
# `make package BUCKET=...` writes out/packaged.yaml, which belongs beside this file.

terraform {
  required_providers {
    aws = { source = "hashicorp/aws", version = ">= 5.0" }
  }
}

variable "artifacts_bucket" { type = string }
variable "input_bucket" { type = string } # with EventBridge switched on
variable "output_bucket" { type = string }
variable "work_function_arn" { type = string }
variable "work_function_role_name" { type = string }

resource "aws_s3_object" "template" {
  bucket = var.artifacts_bucket
  key    = "in-order/${filemd5("${path.module}/packaged.yaml")}.yaml" # another template has another URL
  source = "${path.module}/packaged.yaml"
}

resource "aws_cloudformation_stack" "in_order" {
  name         = "in-order" # at most 66 characters, as the state machines are named after it
  template_url = "https://${var.artifacts_bucket}.s3.amazonaws.com/${aws_s3_object.template.key}"
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
  parameters = {
    Policy               = "latest-wins"
    InputBucketName      = var.input_bucket
    OutputBucketName     = var.output_bucket
    WorkFunctionArn      = var.work_function_arn
    WorkFunctionRoleName = var.work_function_role_name
  }
}

output "state_machine_arn" { value = aws_cloudformation_stack.in_order.outputs["StateMachineArn"] }
output "parked_events_queue_url" { value = aws_cloudformation_stack.in_order.outputs["ParkedEventsQueueUrl"] }
