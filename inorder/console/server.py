"""The server of the web console, on the loopback address only. It reads, and changes nothing.

The page itself is served to everybody on this machine. All data need the token, because other
accounts of the machine reach the server as well, and pages of other sites can send it requests,
also under a name of their own that leads to the loopback address. None of these knows the token.
"""

import re
import secrets
from http import HTTPStatus
from socket import socket
from typing import Any

import uvicorn
from botocore.exceptions import BotoCoreError, ClientError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from inorder.console import page
from inorder.console.answers import Answers, Refused
from inorder.errors import Failure
from inorder.model.execution import to_json
from inorder.wording import in_one_line

NOT_KNOWN = "The token is missing or wrong: open the address that the command has printed."
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


def application(answers: Answers, token: str) -> Starlette:
    """Make the server's application."""

    def index(_: Request) -> Response:
        html = page.index({name: f"/page/{file}" for name, file in page.modules().items()})
        policy = page.content_security_policy(
            html,
            script_src="'self'",
            style_src="'self'",
            connect_src="'self'",
        )
        policy += "; frame-ancestors 'none'"
        return HTMLResponse(html, headers={"Content-Security-Policy": policy})

    def executions(request: Request) -> Response:
        revision = request.query_params.get("revision", "")
        number = int(revision) if re.fullmatch("[0-9]{1,18}", revision) else None
        return Response(answers.executions.answer(number), media_type="application/json")

    def execution(request: Request) -> Response:
        return _json(answers.execution(_asked(request, "arn")))

    def story(request: Request) -> Response:
        version_id = request.query_params.get("version_id") or None
        return _json(answers.story(_asked(request, "key"), version_id))

    api = [
        Route("/stack", lambda _: _json(answers.stack())),
        Route("/definition", lambda _: _json(answers.definition())),
        Route("/executions", executions),
        Route("/execution", execution),
        Route("/story", story),
    ]
    return Starlette(
        routes=[
            Route("/", index),
            Mount("/page", StaticFiles(directory=page.FOLDER)),
            Mount("/api", routes=api),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=Guard(token))],
        exception_handlers={
            HTTPException: lambda _, error: _error(error.status_code, error.detail),
            Refused: lambda _, error: _error(error.status, str(error)),
            ClientError: _aws_error,
            BotoCoreError: _aws_error,
            Failure: lambda _, error: _error(502, str(error)),
        },
    )


def serve(answers: Answers, listening: socket, token: str) -> None:
    """Serve the application until the process is interrupted."""
    config = uvicorn.Config(
        application(answers, token),
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listening])


class Guard:
    """Refuses requests for data of those that do not know the token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def __call__(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Answer a request."""
        path = request.scope["path"]
        is_page = path == "/" or path.startswith("/page/")
        token = request.headers.get("x-inorder-token", "").encode()
        if not is_page and not secrets.compare_digest(token, self._token):
            response = _error(HTTPStatus.UNAUTHORIZED, NOT_KNOWN)
            response.headers["WWW-Authenticate"] = "X-Inorder-Token"
        else:
            response = await call_next(request)
        response.headers.update(HEADERS)
        is_data = path.startswith("/api/")
        response.headers["Cache-Control"] = "no-store" if is_data else "no-cache"
        response.headers.setdefault("Content-Security-Policy", "default-src 'none'")
        return response


def _json(value: Any) -> Response:
    return Response(to_json(value), media_type="application/json")


def _error(status: int, reason: str) -> Response:
    text = to_json({"error": in_one_line(reason)})
    return Response(text, status, media_type="application/json")


def _aws_error(_: Request, error: Exception) -> Response:
    return _error(HTTPStatus.BAD_GATEWAY, str(error))


def _asked(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if not value:
        raise Refused(HTTPStatus.BAD_REQUEST, f"Say the {name}.")
    return value
