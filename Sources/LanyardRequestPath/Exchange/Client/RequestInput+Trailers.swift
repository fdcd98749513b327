/// The trailers of a request on a stream of HTTP/2. They stand behind the last chunk of an upstream's body.
extension RequestInput {
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
