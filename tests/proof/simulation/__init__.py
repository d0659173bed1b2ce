"""The deployed stack in virtual time, and the tests of bursts and outages in it.

The simulator is `cloud`, and what it is made of: `clock`, `machine` (ASL), `function` (Lambda and
S3), `table` (DynamoDB) and `queue` (SQS and EventBridge). The model uses `machine` and `table`.
"""
