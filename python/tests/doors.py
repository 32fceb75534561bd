"""A Unix socket that answers as a test tells it to."""

from __future__ import annotations

import http.server
import json
import os
import socketserver
import tempfile
import threading


class Door:
    """Serves ``answer(method, path, body)``, which returns a status and a body;
    a function as body writes to the connection by itself."""

    def __init__(self, answer, path=None):
        self.folder = None if path else tempfile.TemporaryDirectory(prefix="berth-")
        self.path = path or os.path.join(self.folder.name, "berth.sock")
        self.calls = []
        self._answer = answer

    def __enter__(self):
        door = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def serve(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                door.calls.append((self.command, self.path, body, dict(self.headers)))
                status, answer = door._answer(self.command, self.path, body)
                self.close_connection = True
                self.send_response(status)
                if callable(answer):
                    self.send_header("Content-Type", "text/event-stream")
                    self.end_headers()
                    answer(self.wfile)
                    return
                kind = "application/problem+json" if status >= 400 else "application/json"
                text = json.dumps(answer).encode() if answer is not None else b""
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = serve

            def address_string(self):
                return "unix"

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that goes away is part of the test

        self._server = Server(self.path, Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        os.unlink(self.path)
        if self.folder:
            self.folder.cleanup()


def problem(status, code, detail="", **more):
    return status, dict(more, status=status, code=code, detail=detail)
