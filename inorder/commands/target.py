"""Says to which account `make deploy` and `make package` go, and refuses a local AWS."""

import sys

import boto3
import click

from inorder.aws.stack import is_local
from inorder.commands.terminal import explained
from inorder.errors import Failure


def target() -> str:
    """Name the account and the region of the environment; a Failure if it has a local AWS."""
    session = boto3.Session()
    cloudformation = session.client("cloudformation")
    if is_local(cloudformation):
        raise Failure(
            f"AWS_ENDPOINT_URL names a local AWS ({cloudformation.meta.endpoint_url}), whose"
            " functions have this machine's Python, and not Lambda's. Open a new shell to deploy"
            " to AWS; `make up` deploys to the local AWS."
        )
    account = session.client("sts").get_caller_identity()["Account"]
    return f"Deploying to account {account} in {cloudformation.meta.region_name} ..."


def main() -> None:
    """Print it, or why there is none."""
    try:
        click.echo(target(), err=True)
    except Failure as error:
        sys.exit(f"Error: {error}")
    except Exception as error:
        if text := explained(error):
            sys.exit(f"Error: {text}")
        raise


if __name__ == "__main__":
    main()
