/// One field line of a head: the offsets of its name and value in the head's buffer.
package struct FieldLine: Equatable, Sendable {
    package var nameStart: Int32
    package var nameLength: Int32
    package var valueStart: Int32
    package var valueLength: Int32
    package var name: FieldName
    /// The name has a byte other than letters, digits and `-`: it may look like another name (http-rules.md 10.4).
    package var isOdd: Bool
}

/// The field lines of one head, in the order received. Offsets count from the first byte of the head's buffer.
///
/// Allocated once and reused for each head. Belongs to the queue of the connection that uses it.
package final class FieldTable {
    package let capacity: Int
    private let lines: UnsafeMutablePointer<FieldLine>
    package private(set) var count = 0

    package init(capacity: Int) {
        self.capacity = capacity
        lines = .allocate(capacity: capacity)
    }

    deinit { lines.deallocate() }

    @inline(__always)
    package subscript(index: Int) -> FieldLine {
        precondition(index >= 0 && index < count)
        return lines[index]
    }

    package func removeAll() { count = 0 }

    /// False if the table is full.
    func append(_ line: FieldLine) -> Bool {
        guard count < capacity else { return false }
        (lines + count).initialize(to: line)
        count += 1
        return true
    }

    /// The name of line `index` in `head`, the head's buffer.
    @inline(__always)
    package func name(_ index: Int, in head: Bytes) -> Bytes {
        let line = self[index]
        return head[run: Int(line.nameStart)..<Int(line.nameStart + line.nameLength)]
    }

    /// The value of line `index`, without outer whitespace.
    @inline(__always)
    package func value(_ index: Int, in head: Bytes) -> Bytes {
        let line = self[index]
        return head[run: Int(line.valueStart)..<Int(line.valueStart + line.valueLength)]
    }
}

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
