/// The field of `request_id_header` as a client may send it (architecture.md 4.3).
///
/// A client's own id is sent upstream in place of Lanyard's, so that one id runs through all services. It must be
/// harmless in any log: one line of 1 to 64 letters, digits, `.`, `_` and `-`. Any other id is dropped, and Lanyard's
/// is sent.
enum RequestIDField {
    private static let lengthMax = 64

    /// The client's id in `table`; nil if there is none, more than one, or none that is harmless.
    static func safe(on route: Route, _ head: RequestHead, _ table: FieldTable, in bytes: Bytes) -> Bytes? {
        guard let own = route.requestIDName else { return nil }
        var found: Bytes?
        for index in 0..<table.count {
            let name = table.name(index, in: bytes)
            guard own.withUnsafeBufferPointer({ $0.equalsIgnoringCase(name) }) else { continue }
            guard found == nil else { return nil }
            found = table.value(index, in: bytes)
        }
        guard let found, isSafe(found) else { return nil }
        // A field that `Connection` names was meant for this hop (http-rules.md 10.1).
        if head.connection.nominatesFields,
            own.withUnsafeBufferPointer({ ConnectionOptions.nominates($0, table, in: bytes) })
        {
            return nil
        }
        return found
    }

    private static func isSafe(_ value: Bytes) -> Bool {
        (1...lengthMax).contains(value.count)
            && value.allSatisfy {
                ByteClass.isAlphanumeric($0) || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_")
                    || $0 == UInt8(ascii: "-")
            }
    }
}
