"""A relay in front of a port that counts the frames of both directions, for rows whose two ends are real programs."""

import collections
import socket
import threading

from frames import ACK, PREFACE, TYPES


class Tap:
    """`counts`: how many frames of a kind went each way, such as `("up", "PING")` and `("down", "PING ACK")`."""

    def __init__(self, server, port):
        self.target, self.counts, self.connections, self.sockets = port, collections.Counter(), 0, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        server.programs.append(self)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.connections += 1
            self.sockets += [client, server]
            for source, target, way in ((client, server, "up"), (server, client, "down")):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.relay, args=(source, target, way), daemon=True).start()

    def relay(self, source, target, way):
        pending = bytearray()
        has_begun = way == "down"
        try:
            while received := source.recv(1 << 16):
                target.sendall(received)
                pending += received
                if not has_begun and len(pending) >= len(PREFACE):
                    del pending[:len(PREFACE)]
                    has_begun = True
                while has_begun and len(pending) >= 9 and len(pending) >= 9 + (size := int.from_bytes(pending[:3], "big")):
                    kind = TYPES[pending[3]] if pending[3] < len(TYPES) else "other"
                    self.counts[way, kind + " ACK" * (kind in ("PING", "SETTINGS") and bool(pending[4] & ACK))] += 1
                    del pending[:9 + size]
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        for each in (self.listener, *self.sockets):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()
