/// One field line of a head: the offsets of its name and value in the head's buffer.
package struct FieldLine: Equatable, Sendable {
    package var nameStart: Int32
    package var nameLength: Int32
    package var valueStart: Int32
    package var valueLength: Int32
    package var name: FieldName
    /// The name has a byte other than letters, digits and `-`: it may look like another name (http-forwarding.md 10.4).
    package var isConfusable: Bool
    /// The line is name, colon, space, value and CRLF and nothing else: as Lanyard writes lines. So its bytes can be copied.
    package var hasWrittenForm: Bool

    /// The name in `head`, the head's buffer.
    @inline(__always)
    func name(in head: Bytes) -> Bytes {
        Bytes(start: head.baseAddress.unsafelyUnwrapped + Int(nameStart), count: Int(nameLength))
    }

    /// The value in `head`, the head's buffer, without outer whitespace.
    @inline(__always)
    func value(in head: Bytes) -> Bytes {
        Bytes(start: head.baseAddress.unsafelyUnwrapped + Int(valueStart), count: Int(valueLength))
    }

    /// Behind the line's CRLF, if it has the written form.
    @inline(__always)
    package var end: Int { Int(valueStart &+ valueLength) &+ 2 }

    /// No rule concerns the field: Lanyard does not know its name, and its length is that of no name in `special`.
    @inline(__always)
    func isOrdinary(besides special: NameLengths) -> Bool {
        name == .other && !isConfusable && !special.contains(Int(nameLength))
    }
}

/// The field lines of one head, in the order received. Offsets count from the first byte of the head's buffer.
///
/// Allocated once and reused for each head. It grows for a head of many fields. Belongs to the
/// connection that uses it, which checks the queue.
package final class FieldTable {
    /// Lines of nearly all heads.
    private static let firstRoom = 128

    /// The largest number of lines.
    package let capacity: Int
    private var lines: UnsafeMutablePointer<FieldLine>
    /// Lines that there is memory for.
    private var room: Int
    package private(set) var count = 0
    private let budget: BufferBudget?

    /// - Parameter budget: counts the memory beyond that of an ordinary head.
    package init(capacity: Int, budget: BufferBudget? = nil) {
        self.capacity = capacity
        self.budget = budget
        room = min(capacity, Self.firstRoom)
        lines = .allocate(capacity: room)
    }

    deinit {
        lines.deallocate()
        budget?.release(grownBytes)
    }

    /// False if the table is full. Few heads need this.
    @inline(never)
    private func grow() -> Bool {
        guard count < capacity else { return false }
        resize(to: min(room * 2, capacity))
        return true
    }

    private var grownBytes: Int { (room - min(capacity, Self.firstRoom)) * MemoryLayout<FieldLine>.stride }

    private func resize(to lineCount: Int) {
        let (former, block) = (grownBytes, UnsafeMutablePointer<FieldLine>.allocate(capacity: lineCount))
        block.update(from: lines, count: count)
        lines.deallocate()
        (lines, room) = (block, lineCount)
        budget?.add(grownBytes)
        budget?.release(former)
    }

    /// All lines. Valid until the table changes.
    @inline(__always)
    package var all: FieldLines { FieldLines(start: lines, count: count) }

    @inline(__always)
    package subscript(index: Int) -> FieldLine { all[index] }

    /// Removes the lines and the memory beyond that of an ordinary head.
    package func removeAll() {
        count = 0
        if room > Self.firstRoom { resize(to: min(capacity, Self.firstRoom)) }
    }

    /// False if the table is full.
    @inline(__always)
    func append(_ line: FieldLine) -> Bool {
        guard count < room || grow() else { return false }
        return appendInRoom(line)
    }

    /// False if there is no memory for the line yet. In a loop: a call of `grow` in it would store and load what the
    /// loop holds in registers.
    @inline(__always)
    func appendInRoom(_ line: FieldLine) -> Bool {
        guard count < room else { return false }
        (lines + count).initialize(to: line)
        count &+= 1
        return true
    }

    /// The name of line `index` in `head`, the head's buffer.
    @inline(__always)
    package func name(_ index: Int, in head: Bytes) -> Bytes { self[index].name(in: head) }

    /// The value of line `index`, without outer whitespace.
    @inline(__always)
    package func value(_ index: Int, in head: Bytes) -> Bytes { self[index].value(in: head) }
}

/// The lines of a `FieldTable`, as long as it does not change. Handed on without a count of references.
package struct FieldLines {
    fileprivate let start: UnsafePointer<FieldLine>
    package let count: Int

    @inline(__always)
    fileprivate init(start: UnsafePointer<FieldLine>, count: Int) {
        self.start = start
        self.count = count
    }

    @inline(__always)
    package subscript(index: Int) -> FieldLine {
        precondition(index >= 0 && index < count)
        return start[index]
    }

    /// The name of line `index` in `head`, the head's buffer.
    @inline(__always)
    package func name(_ index: Int, in head: Bytes) -> Bytes { self[index].name(in: head) }

    /// The value of line `index`, without outer whitespace.
    @inline(__always)
    package func value(_ index: Int, in head: Bytes) -> Bytes { self[index].value(in: head) }

    /// Whether the browser says that a page of another origin has sent the request (Fetch Metadata, `Sec-Fetch-Site`): http-requests.md
    /// 4.4.
    package func isFromOtherSite(in head: Bytes) -> Bool {
        (0..<count).contains { index in
            guard self[index].name == .secFetchSite else { return false }
            let value = value(index, in: head)
            return value.equals(lowered: "cross-site") || value.equals(lowered: "same-site")
        }
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
