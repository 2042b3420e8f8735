"""A server on this machine that speaks S3's protocol over HTTP: moto's, a stand-in for S3."""

from __future__ import annotations

import logging
import os
from typing import Any


def start_server() -> Any:
    """Start the server, and set what every S3 client reads from the environment.

    Returns
    -------
    moto.server.ThreadedMotoServer
        `stop()` ends it.
    """
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel("ERROR")  # no line for each request
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "lesson",
        "AWS_SECRET_ACCESS_KEY": "lesson",
    }
    return server
