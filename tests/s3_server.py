"""A server that speaks S3's protocol, and a relay in front of it that kills a client on the way.

The server is moto's, over HTTP. It is a stand-in: unlike S3, it keeps the half of an object whose
upload broke off, so what is proven here does not rest on the server refusing it.
"""

import contextlib
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

BUCKET = "runs"


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """Run the server inside the block, with one bucket, and give its address."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        boto3.client("s3", **credentials(f"http://{host}:{port}")).create_bucket(Bucket=BUCKET)
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def credentials(endpoint: str) -> dict[str, str]:
    return {
        "endpoint_url": endpoint,
        "region_name": "us-east-1",
        "aws_access_key_id": "testing",
        "aws_secret_access_key": "testing",
    }


def environment(endpoint: str) -> dict[str, str]:
    """What a user sets in the shell."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@dataclass
class Moment:
    """When to kill: at a byte of all that is sent, or at a request.

    `request` is searched in the request's line. `at` is "before" (the server never sees it), "half"
    (it sees half of the body), or "after" (it answers, and nobody hears it).
    """

    byte: int = -1
    request: str = ""
    at: str = ""

    def __str__(self) -> str:
        return f"byte {self.byte}" if self.byte >= 0 else f"{self.at} {self.request}"


class Relay:
    """Hands requests on to the server, counts their bytes, and kills the client at a moment."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("http://").partition(":")
        self._server = (host, int(port))
        self._listens = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listens.getsockname()[1]}"
        self.sent, self.requests = 0, []
        self.moment, self.pid = Moment(), 0
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, moment: Moment, pid: int = 0) -> None:
        self.sent, self.requests, self.moment, self.pid = 0, [], moment, pid

    def close(self) -> None:
        self._listens.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                client, _ = self._listens.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError), client.makefile("rb") as source:
            head = b""
            while (line := source.readline()) not in (b"\r\n", b""):
                head += line
            if not head:
                return
            name = head.partition(b" HTTP/")[0].decode()
            self.requests.append(name)
            if b"100-continue" in head:
                client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = re.sub(rb"(?im)^(expect|connection):.*\r\n", b"", head)
            length = re.search(rb"(?im)^content-length: (\d+)", head)
            self._hand_on(client, name, head, source, int(length[1]) if length else 0)

    def _hand_on(self, client, name: str, head: bytes, source, length: int) -> None:
        at = self.moment.at if self.moment.request and self._is_due(name) else ""
        if at == "before":
            return self._kill()
        with socket.create_connection(self._server) as server:
            server.sendall(head + b"Connection: close\r\n\r\n")
            self.sent += len(head)
            left = length // 2 if at == "half" else length
            while left:
                data = source.read1(min(left, 1 << 16))
                if not data:
                    return None
                over = self.sent + len(data) - self.moment.byte
                if self.moment.byte >= 0 and over >= 0:
                    server.sendall(data[: len(data) - over])
                    return self._kill()
                server.sendall(data)
                self.sent, left = self.sent + len(data), left - len(data)
            if at == "half":
                return self._kill()
            answer = b""
            while data := server.recv(1 << 16):
                answer += data
        if at == "after":
            return self._kill()
        client.sendall(answer)
        return None

    def _is_due(self, name: str) -> bool:
        return re.search(self.moment.request, name) is not None

    def _kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
