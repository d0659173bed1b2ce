"""Says to which account `make deploy` and `make package` go, and refuses a local AWS."""

import sys

import boto3
import click

from inorder.aws.stack import is_local
from inorder.commands.terminal import explained
from inorder.errors import Failure


def account(session: boto3.Session) -> str:
    """Give the ID of the account of AWS; a Failure if the environment has a local AWS."""
    cloudformation = session.client("cloudformation")
    if is_local(cloudformation):
        raise Failure(
            f"AWS_ENDPOINT_URL names a local AWS ({cloudformation.meta.endpoint_url}). Open a new"
            " shell to use AWS, for which functions are built. `make up` and"
            " `sam deploy --config-env local` deploy to the local AWS: docs/engines.md."
        )
    return str(session.client("sts").get_caller_identity()["Account"])


def main() -> None:
    """Print it, or why there is none."""
    session = boto3.Session()
    try:
        name = account(session)
    except Failure as error:
        sys.exit(f"Error: {error}")
    except Exception as error:
        if text := explained(error):
            sys.exit(f"Error: {text}")
        raise
    click.echo(f"Deploying to account {name} in {session.region_name} ...", err=True)


if __name__ == "__main__":
    main()
