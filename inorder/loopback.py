"""The loopback address, the only one on which anything of this project listens."""

import socket

from inorder.errors import Failure

HOST = "127.0.0.1"


def bound(port: int | None) -> socket.socket:
    """Bind a socket to a port of the loopback address, any free one if none is given."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port or 0))
    except OSError as error:
        listening.close()
        raise Failure(f"Port {port} cannot be used: {error.strerror}.") from None
    return listening
