"""Frames of RFC 9113 as bytes. Nothing is checked here, so that a row can send what is forbidden."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
TYPES = "DATA HEADERS PRIORITY RST_STREAM SETTINGS PUSH_PROMISE PING GOAWAY WINDOW_UPDATE CONTINUATION".split()
ACK = END_STREAM = 0x1
END_HEADERS, PADDED, PRIORITISED = 0x4, 0x8, 0x20
(NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL,
 COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY, HTTP_1_1_REQUIRED) = range(14)
ERRORS = ("NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR REFUSED_STREAM CANCEL "
          "COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED").split()
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(1, 7)
ENABLE_CONNECT_PROTOCOL = 8
WINDOW, FRAME_SIZE, WINDOW_MAX = 65_535, 16_384, 2**31 - 1


def error_name(code):
    return ERRORS[code] if code < len(ERRORS) else f"error {code}"


def frame(kind, stream=0, payload=b"", flags=0, length=None):
    """`length`: a false one."""
    length = len(payload) if length is None else length
    return struct.pack(">BHBBI", length >> 16, length & 0xFFFF, kind, flags, stream) + payload


def settings(values=(), stream=0):
    """`values`: (identifier, value) pairs."""
    return frame(SETTINGS, stream, b"".join(struct.pack(">HI", *pair) for pair in values))


def window_update(stream, increment):
    return frame(WINDOW_UPDATE, stream, struct.pack(">I", increment))


def reset(stream, code=CANCEL):
    return frame(RST_STREAM, stream, struct.pack(">I", code))


def goaway(last, code=NO_ERROR, debug=b""):
    return frame(GOAWAY, 0, struct.pack(">II", last, code) + debug)


def ping(data=b"12345678", flags=0, stream=0):
    return frame(PING, stream, data, flags)


def priority(stream, depends=0, weight=15, exclusive=False):
    return frame(PRIORITY, stream, struct.pack(">IB", depends | exclusive << 31, weight))


def data(stream, payload=b"", end=False, padding=None):
    if padding is None:
        return frame(DATA, stream, payload, END_STREAM * end)
    return frame(DATA, stream, bytes([padding]) + payload + bytes(padding), END_STREAM * end | PADDED)


def headers(stream, block, end=True, pieces=1, flags=0):
    """A header block in a HEADERS frame, and CONTINUATION frames where `pieces` is more than one or the block is too long for one."""
    size = min(FRAME_SIZE, max(1, -(-len(block) // pieces)))
    parts = [block[at:at + size] for at in range(0, len(block), size)] or [b""]
    out = bytearray()
    for number, part in enumerate(parts):
        kind = CONTINUATION if number else HEADERS
        marks = (END_HEADERS if number + 1 == len(parts) else 0) | ((END_STREAM * end | flags) if not number else 0)
        out += frame(kind, stream, part, marks)
    return bytes(out)
