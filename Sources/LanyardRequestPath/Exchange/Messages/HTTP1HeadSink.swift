import LanyardFoundations

/// The text of HTTP/1.1 (RFC 9112 §2.1): heads, and the framing of chunks.
extension HeadWriter: HeadSink {
    static var copiesLines: Bool { true }

    mutating func beginRequest(_ method: Bytes) {
        write(method)
        write(UInt8(ascii: " "))
    }

    @inline(__always)
    mutating func beginAuthority() { write(" HTTP/1.1\r\nHost: " as StaticString) }

    mutating func beginResponse(_ status: Int, reason: Bytes) {
        write("HTTP/1.1 " as StaticString)
        write(decimal: status)
        write(UInt8(ascii: " "))
        write(reason)
        write("\r\n" as StaticString)
    }

    @inline(__always)
    mutating func beginField(_ name: Bytes) {
        write(name)
        write(": " as StaticString)
    }

    @inline(__always)
    mutating func beginField(_ name: StaticString) {
        write(name)
        write(": " as StaticString)
    }

    @inline(__always)
    mutating func beginField(_ start: FieldStart) { write(start.bytes) }

    @inline(__always)
    mutating func endField() { write("\r\n" as StaticString) }

    @inline(__always)
    mutating func writeUnknownLength() { write("Transfer-Encoding: chunked\r\n" as StaticString) }

    /// What the client asked for and this hop takes over (http-requests.md 6.5, http-forwarding.md 15.3).
    mutating func writeOptions(wantsTrailers: Bool, upgrade: [UInt8]?) {
        guard wantsTrailers || upgrade != nil else { return }
        if wantsTrailers { write("TE: trailers\r\n" as StaticString) }
        guard let upgrade else { return write("Connection: TE\r\n" as StaticString) }
        write("Upgrade: " as StaticString)
        write(upgrade)
        write("\r\nConnection: Upgrade" as StaticString)
        if wantsTrailers { write(", TE" as StaticString) }
        write("\r\n" as StaticString)
    }

    mutating func writeSwitch(to upgrade: [UInt8]) {
        write("Upgrade: " as StaticString)
        write(upgrade)
        write("\r\nConnection: Upgrade\r\n" as StaticString)
    }

    /// A sender of `Upgrade` names it in `Connection` (RFC 9110 §7.8).
    mutating func writeUpgradeOption() { write("Connection: Upgrade\r\n" as StaticString) }

    @inline(__always)
    mutating func writePersistence(closes: Bool, clientMinorVersion: Int) {
        write(ConnectionOptions.responseLine(closes: closes, clientMinorVersion: clientMinorVersion))
    }

    @inline(__always)
    mutating func endHead() { write("\r\n" as StaticString) }

    // MARK: Chunks

    /// Starts a chunk of `size` body bytes, which the caller sends next (RFC 9112 §7.1). Without bytes there is no chunk.
    ///
    /// - Parameters:
    ///   - ends: the body ends with these bytes.
    ///   - hasTrailers: at the end a trailer section and an empty line follow, which the caller sends.
    /// - Returns: what follows the bytes: the end of their chunk, and the last chunk if the body ends.
    mutating func writeChunkStart(of size: Int, ends: Bool, hasTrailers: Bool = false) -> StaticString {
        if size > 0 { write(chunkSize: size) }
        switch (size > 0, ends) {
        case (true, false): return "\r\n"
        case (false, false): return ""
        case (true, true): return hasTrailers ? "\r\n0\r\n" : "\r\n0\r\n\r\n"
        case (false, true): return hasTrailers ? "0\r\n" : "0\r\n\r\n"
        }
    }

    /// A chunk's size line.
    private mutating func write(chunkSize size: Int) {
        var shift = 60
        while shift > 0, size >> shift == 0 { shift -= 4 }
        while shift >= 0 {
            let digit = UInt8(size >> shift & 15)
            write(digit < 10 ? digit + 0x30 : digit + 0x57)
            shift -= 4
        }
        write("\r\n" as StaticString)
    }
}
