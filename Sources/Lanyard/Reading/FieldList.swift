/// The members of a comma-separated list of words (RFC 9110 §5.6.1), empty members skipped.
package struct FieldList: Sequence, IteratorProtocol {
    private let value: Bytes
    private var position = 0

    package init(_ value: Bytes) { self.value = value }

    package mutating func next() -> Bytes? {
        while position < value.count {
            let start = position
            while position < value.count, value[position] != UInt8(ascii: ",") { position += 1 }
            let member = value[run: start..<position].trimmed
            position += 1
            if member.count > 0 { return member }
        }
        return nil
    }
}
