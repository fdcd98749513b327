/// What a client gets that begins with HTTP/2's preface: it reads no response of HTTP/1 (RFC 9113 §3.4, http-rules.md 1.3).
enum HTTP2Refusal {
    /// The preface of a client. It is sent as one piece.
    static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    private enum Frame: UInt8 { case settings = 4, goAway = 7 }

    /// HTTP_1_1_REQUIRED (RFC 9113 §7).
    private static let errorCode: UInt8 = 0x0d

    /// Writes the server's preface, which is an empty SETTINGS frame, and GOAWAY: no stream was processed.
    ///
    /// - Parameter reason: the debug data, which clients show or log (RFC 9113 §6.8).
    static func write(_ reason: String, into out: inout HeadWriter) {
        writeHeader(.settings, length: 0, into: &out)
        writeHeader(.goAway, length: 8 + reason.utf8.count, into: &out)
        for byte in [0, 0, 0, 0, 0, 0, 0, errorCode] { out.write(byte) }
        out.write(reason)
    }

    /// The nine bytes before a frame's payload, without flags, on stream 0 (RFC 9113 §4.1).
    private static func writeHeader(_ frame: Frame, length: Int, into out: inout HeadWriter) {
        out.write(UInt8(truncatingIfNeeded: length >> 16))
        out.write(UInt8(truncatingIfNeeded: length >> 8))
        out.write(UInt8(truncatingIfNeeded: length))
        out.write(frame.rawValue)
        for _ in 0..<5 { out.write(UInt8(0)) }
    }
}
