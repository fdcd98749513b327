import LanyardFoundations

/// The trailers of a request. They stand behind the last chunk of an upstream's body, or end an upstream's stream.
extension RequestInput {
    /// Keeps the bytes of a trailer section of chunks that the last `consume` found in `input`. Its reader has bounded them.
    mutating func keepTrailers(in input: UnsafeMutableRawBufferPointer) {
        let place = body.trailerBytes
        guard !place.isEmpty else { return }
        var text = trailers.map { Array($0.bytes) } ?? nominations
        text += UnsafeRawBufferPointer(input)[place]
        text.withUnsafeBytes { keepTrailers($0) }
    }

    /// Trailers follow the body, on a stream.
    var hasStreamTrailers: Bool { trailers != nil }
    /// Trailers follow the last chunk. Those of HTTP/1.1 are dropped there (http-requests.md 6.4).
    var hasTrailers: Bool { hasStreamTrailers && head.isHTTP2 }

    /// The head's `Connection` lines: a field that they name is not forwarded as a trailer either (http-forwarding.md 10.1).
    private var nominations: [UInt8] {
        guard head.connection.nominatesFields, let (bytes, lines) = headBytes, bytes.count >= head.length else {
            return []
        }
        var text: [UInt8] = []
        for index in 0..<lines.count where lines[index].name == .connection {
            text += Array("Connection: ".utf8) + Array(lines.value(index, in: bytes)) + [0x0d, 0x0a]
        }
        return text
    }

    /// Writes the trailers that may be forwarded.
    func writeTrailers(into out: inout some HeadSink & ~Copyable, on route: Route, _ limits: HeadLimits) {
        guard let bytes = trailers?.bytes else { return }
        let table = FieldTable(capacity: limits.fieldsMax)
        var reader = FieldSectionReader()
        var position = 0
        guard (try? reader.read(bytes, from: &position, into: table, limits: limits)) == true else { return }
        TrailerFilter.write(table, in: bytes, into: &out, on: route)
    }
}
