#!/usr/bin/env python3
"""Reads HTTP/1.1 messages with h11 and says what they mean, for the differential tests.

    h11_peer.py INPUT OUTPUT

INPUT is a row of records: one byte for the kind (0 a request, 1 a response, 2 a response to HEAD), four bytes of length
(big-endian), the message; a response's connection ends behind it. OUTPUT has one record for each, four bytes of length and the
meaning, which `MessageReading` in Tests/FuzzHeadsTests writes in the same way.
"""

import struct
import sys

import h11
from h11._connection import _body_framing

BYTES_MAX = 1 << 20
REQUEST, RESPONSE, RESPONSE_TO_HEAD = range(3)


def connection(kind):
    if kind == REQUEST:
        return h11.Connection(h11.SERVER, max_incomplete_event_size=BYTES_MAX)
    client = h11.Connection(h11.CLIENT, max_incomplete_event_size=BYTES_MAX)
    # The upgrade is offered so that a 101 is an answer to something.
    client.send(h11.Request(
        method="HEAD" if kind == RESPONSE_TO_HEAD else "GET", target="/",
        headers=[("Host", "a"), ("Connection", "upgrade"), ("Upgrade", "x")]))
    client.send(h11.EndOfMessage())
    return client


def version(text):
    """1.2 to 1.9 are 1.1 (rule 1.4)."""
    major, minor = text.split(b".")
    return major + b"." + (b"0" if minor == b"0" else b"1")


def fields(headers):
    """In their order, names in the writing that came; a coding's word has no case (rule 5.3)."""
    return b"".join(
        name + b": " + (value.lower() if name.lower() == b"transfer-encoding" else value) + b"\n"
        for name, value in headers.raw_items())


def framing(event, kind):
    words, details = _body_framing(b"HEAD" if kind == RESPONSE_TO_HEAD else b"GET", event)
    if words == "content-length":
        return b"length %d\n" % details
    return b"chunked\n" if words == "chunked" else b"until close\n"


def read(kind, message):
    meaning, body, trailers, state = [], [], b"", b"part\n"
    peer = connection(kind)
    if message:  # No bytes would be the end of the connection.
        peer.receive_data(message)
    ended = False
    while True:
        event = peer.next_event()
        if isinstance(event, h11.Request):
            meaning.append(event.method + b" " + event.target + b" " + version(event.http_version) + b"\n")
            meaning.append(fields(event.headers) + framing(event, kind))
        elif isinstance(event, h11.InformationalResponse):
            meaning.append(b"%s %d %s\n" % (version(event.http_version), event.status_code, event.reason))
            meaning.append(fields(event.headers) + b"interim\n")
            if event.status_code == 101:
                state = b"whole\n"
                break
        elif isinstance(event, h11.Response):
            meaning.append(b"%s %d %s\n" % (version(event.http_version), event.status_code, event.reason))
            meaning.append(fields(event.headers) + framing(event, kind))
        elif isinstance(event, h11.Data):
            body.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage):
            trailers = fields(event.headers)
            state = b"whole\n"
            break
        elif event is h11.NEED_DATA and kind != REQUEST and not ended and waits_for_end(peer):
            peer.receive_data(b"")
            ended = True
        else:
            break
    left = len(peer.trailing_data[0]) if state == b"whole\n" else 0
    return b"".join(meaning) + b"".join(body) + b"\n" + trailers + state + (b"left %d\n" % left)


def waits_for_end(peer):
    """A body that ends with the connection: only then the end is told, since it is a fault elsewhere."""
    return type(peer._reader).__name__ == "Http10Reader"


def main():
    with open(sys.argv[1], "rb") as source, open(sys.argv[2], "wb") as sink:
        while head := source.read(5):
            kind, length = struct.unpack(">BI", head)
            message = source.read(length)
            try:
                meaning = read(kind, message)
            except h11.RemoteProtocolError as fault:
                meaning = b"refused: " + str(fault).encode("utf-8", "replace")
            sink.write(struct.pack(">I", len(meaning)) + meaning)


main()
