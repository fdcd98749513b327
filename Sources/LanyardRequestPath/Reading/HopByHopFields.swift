/// The options of all `Connection` fields of a head together (RFC 9110 §7.6.1, http-rules.md 9.1, 10.1).
package struct ConnectionOptions: Equatable, Sendable {
    package var close = false
    package var keepAlive = false
    package var upgrade = false
    /// `Connection` names `TE`, so `TE: trailers` is valid.
    package var te = false
    /// A member is another word: the name of a field that must not be forwarded.
    package var nominatesFields = false

    package init() {}

    mutating func add(_ value: Bytes) throws(HeadError) {
        for member in FieldList(value) {
            guard member.allSatisfy(ByteClass.isToken) else {
                throw .malformed("a Connection option that is not a token")
            }
            if member.equals(lowered: "close") {
                // It also names a field `Close`.
                (close, nominatesFields) = (true, true)
            } else if member.equals(lowered: "keep-alive") {
                keepAlive = true
            } else if member.equals(lowered: "upgrade") {
                upgrade = true
            } else if member.equals(lowered: "te") {
                te = true
            } else {
                nominatesFields = true
            }
        }
    }

    /// Whether a `Connection` field of the head names this field.
    package static func nominates(_ name: Bytes, _ table: FieldTable, in head: Bytes) -> Bool {
        for index in 0..<table.count where table[index].name == .connection {
            for member in FieldList(table.value(index, in: head)) where member.equalsIgnoringCase(name) { return true }
        }
        return false
    }
}
