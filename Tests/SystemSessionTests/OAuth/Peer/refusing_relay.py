"""Passes TCP connections to a port, and resets every second one before a byte is passed.

    refusing_relay.py PORT

The first line says its own port. Each reset connection is a line `refused`.
"""

import socket
import struct
import sys
import threading


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for side in (source, target):
            side.close()


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"port {listener.getsockname()[1]}", flush=True)
    count = 0
    while True:
        accepted, _ = listener.accept()
        count += 1
        if count % 2:
            print("refused", flush=True)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()
            continue
        onward = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        for pair in ((accepted, onward), (onward, accepted)):
            threading.Thread(target=pump, args=pair, daemon=True).start()


main()
