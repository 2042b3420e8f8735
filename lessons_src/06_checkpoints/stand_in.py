"""A server on this machine that speaks S3's protocol over HTTP: moto's, a stand-in for S3."""

from __future__ import annotations

import functools
import logging
import os
import urllib.request


def start_server() -> None:
    """Start an empty server, and set what every S3 client reads from the environment.

    It ends with the process. Another call empties it: its address must stay the same, because
    s3fs remembers the address with which it was first used.
    """
    address = _address()
    reset = urllib.request.Request(f"{address}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset, timeout=30).close()


@functools.cache
def _address() -> str:
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
    return f"http://{host}:{port}"
