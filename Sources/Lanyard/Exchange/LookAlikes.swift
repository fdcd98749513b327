/// Field names that an upstream which turns names into variables cannot tell from others (http-rules.md 10.4, threats.md T9).
enum LookAlikes {
    /// Equal when each byte that is no letter or digit is read as `-`.
    static func resembles(_ name: Bytes, _ other: Bytes) -> Bool {
        guard name.count == other.count else { return false }
        for index in 0..<name.count where canonical(name[index]) != canonical(other[index]) { return false }
        return true
    }

    /// Resembles, without being it, a field of framing, routing or one hop: the request is refused.
    static func isRefused(_ name: Bytes) -> Bool {
        let read = FieldName.of(canonical: name)
        return read.refusesLookAlikes
    }

    /// Resembles a field that the route injects or sets, `Lanyard-*`, or a forwarding field that the route does not let through.
    static func isDropped(_ name: Bytes, _ route: Route) -> Bool {
        if route.injectName.withUnsafeBufferPointer({ resembles(name, $0) }) { return true }
        let read = FieldName.of(canonical: name)
        if read == .lanyard { return true }
        switch route.settings.forwarded {
        case .drop, .reject: if read.isForwarding { return true }
        case .append: if read == .xRealIP { return true }
        case .pass: break
        }
        if let own = route.requestIDName, own.withUnsafeBufferPointer({ resembles(name, $0) }) { return true }
        return route.fixedFields.contains { $0.name.withUnsafeBufferPointer { resembles(name, $0) } }
    }

    private static func canonical(_ byte: UInt8) -> UInt8 {
        ByteClass.isAlphanumeric(byte) ? ByteClass.lower(byte) : UInt8(ascii: "-")
    }
}
