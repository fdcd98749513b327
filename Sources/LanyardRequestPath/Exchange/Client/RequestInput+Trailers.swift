import LanyardFoundations

/// The trailers of a request. They stand behind the last chunk of an upstream's body, or end an upstream's stream.
extension RequestInput {
    /// Keeps the bytes of a trailer section of chunks that the last `consume` found in `input`. Its reader has bounded them.
    mutating func keepTrailers(in input: UnsafeMutableRawBufferPointer) {
        let place = body.trailerBytes
        guard !place.isEmpty else { return }
        var text = trailers.map { Array($0.bytes) } ?? []
        text += UnsafeRawBufferPointer(input)[place]
        text.withUnsafeBytes { keepTrailers($0) }
    }

    /// Trailers follow the body.
    var hasTrailers: Bool { trailers != nil }

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
