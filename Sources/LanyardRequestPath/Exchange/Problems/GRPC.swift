import LanyardFoundations

/// What Lanyard knows of gRPC over HTTP/2: which requests are calls, and how its own responses to them look (H43 to H45).
enum GRPC {
    /// The media type of calls.
    static let contentType: StaticString = "application/grpc"

    /// The status of a call that refuses its token.
    static let unauthenticated = 16
    /// The status of a call that may be repeated.
    static let unavailable = 14

    /// The head is one of a call: its `Content-Type` is `application/grpc`, or that with a suffix or parameters.
    static func isCall(_ lines: FieldLines, in bytes: Bytes) -> Bool {
        for index in 0..<lines.count where lines.name(index, in: bytes).equals(lowered: "content-type") {
            let value = lines.value(index, in: bytes)
            let length = contentType.utf8CodeUnitCount
            guard value.count >= length, value[run: 0..<length].equals(lowered: contentType) else { return false }
            return value.count == length || value[length] == UInt8(ascii: "+") || value[length] == UInt8(ascii: ";")
                || value[length] == UInt8(ascii: " ")
        }
        return false
    }

    /// `grpc-status` of a head without a body; nil: it has none. A call that has ended so has no trailers.
    static func status(_ lines: FieldLines, in bytes: Bytes) -> Int? {
        for index in 0..<lines.count where lines.name(index, in: bytes).equals(lowered: "grpc-status") {
            return lines.value(index, in: bytes).decimal
        }
        return nil
    }

    /// `grpc-timeout`, a day at most; nil: the call has none, or none that can be read.
    static func timeout(_ lines: FieldLines, in bytes: Bytes) -> Duration? {
        for index in 0..<lines.count where lines.name(index, in: bytes).equals(lowered: "grpc-timeout") {
            let value = lines.value(index, in: bytes)
            guard 2...9 ~= value.count, let amount = value[run: 0..<(value.count - 1)].decimal else { return nil }
            guard let unit = unit(value[value.count - 1]) else { return nil }
            return min(unit * amount, .seconds(86_400))
        }
        return nil
    }

    private static func unit(_ letter: UInt8) -> Duration? {
        switch letter {
        case UInt8(ascii: "H"): .seconds(3600)
        case UInt8(ascii: "M"): .seconds(60)
        case UInt8(ascii: "S"): .seconds(1)
        case UInt8(ascii: "m"): .milliseconds(1)
        case UInt8(ascii: "u"): .microseconds(1)
        case UInt8(ascii: "n"): .nanoseconds(1)
        default: nil
        }
    }

    /// `grpc-message` is ASCII, and what is not is percent-encoded.
    static func writeMessage(_ text: String, into out: inout some HeadSink & ~Copyable) {
        out.beginField("grpc-message")
        for byte in text.utf8 {
            if 0x20...0x7e ~= byte, byte != UInt8(ascii: "%") {
                out.write(byte)
            } else {
                out.write(UInt8(ascii: "%"))
                out.write(hexDigit(byte >> 4))
                out.write(hexDigit(byte & 15))
            }
        }
        out.endField()
    }

    private static func hexDigit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "A") + value - 10
    }
}

extension Problem {
    /// The status of a call of gRPC that the problem ends (H44).
    var grpcStatus: Int {
        switch name {
        case "malformed-request", "ambiguous-path", "expectation-failed", "loop": 3
        case "request-timeout", "upstream-timeout": 4
        case "authorization-not-allowed", "caller-not-allowed", "denied-by-route", "forwarded-not-allowed",
            "host-not-allowed", "origin-not-allowed":
            7
        case "content-too-large", "fields-too-large", "overloaded", "uri-too-long": 8
        case "method-not-allowed", "no-route", "not-implemented", "version-not-supported": 12
        case "internal-error": 13
        case "credential-refused", "login-required", "no-active-user", "token-refused": GRPC.unauthenticated
        // Of the identity service and the upstream.
        default: GRPC.unavailable
        }
    }
}

extension Problem {
    static let callTimeout = timeout(
        "grpc-timeout of the call has passed while it waited for a token.", error: "http_response_timeout")

    /// gRPC needs trailers, which its servers send over HTTP/2 alone (H13).
    static let grpcNeedsHTTP2 = unreachable(
        "gRPC needs HTTP/2, and the upstream speaks HTTP/1.1: set protocol: http2 of the route if its server speaks HTTP/2.",
        error: "http_protocol_error", needsOperator: true)
}
