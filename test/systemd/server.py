"""A server of a service for check.sh: server.py PORT. It needs python3-minimal alone.

Every answer has its process id. /stream sends a piece ten times a second until its caller
leaves.
"""

import os
import socket
import sys
import threading
import time


def answer(caller):
    with caller:
        request = b""
        while b"\r\n\r\n" not in request:
            piece = caller.recv(65536)
            if not piece:
                return
            request += piece
        begin = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/"
        pid = b"%d\n" % os.getpid()
        if request.split(b" ")[1] != b"/stream":
            caller.sendall(begin + b"plain\r\nContent-Length: %d\r\n\r\n" % len(pid) + pid)
            return
        caller.sendall(begin + b"event-stream\r\n\r\n")
        while True:
            caller.sendall(b"data: " + pid + b"\n")
            time.sleep(0.1)


def quietly(caller):
    try:
        answer(caller)
    except OSError:
        pass  # its caller has left


door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    threading.Thread(target=quietly, args=(door.accept()[0],), daemon=True).start()
