import LanyardRequestPath

/// Holds a reader of heads to its promises: what it says depends neither on where the bytes were cut, nor on what stands behind the
/// head, nor on how large the limits are, as long as they are not met; what it accepts means the same when it is written anew.
final class HeadFuzz<Run: HeadRun>: FuzzTarget {
    /// So small that short inputs meet every one of them.
    private static var tightLimits: HeadLimits {
        HeadLimits(startLineBytesMax: 64, fieldLineBytesMax: 48, sectionBytesMax: 160, fieldsMax: 6)
    }
    private static var bytesMax: Int { 64 << 10 }

    private let room = GuardedRoom(capacity: bytesMax)
    private let pieceRoom = GuardedRoom(capacity: bytesMax)
    private let table = FieldTable(capacity: 256)
    private let otherTable = FieldTable(capacity: 256)
    private let text = HeadText(capacity: 4 * bytesMax)

    func check(_ input: Bytes) throws(BrokenPromise) {
        let bytes = room.atStart(input[run: 0..<min(input.count, Self.bytesMax)])
        let whole = read(bytes, table, Run.limits)
        try compare(whole, readPieces(bytes, otherTable, Run.limits), "cut otherwise, the result is another")
        try compare(whole, try readByteByByte(bytes), "byte by byte, the result is another")
        try checkTight(bytes, whole)
        if case .head(let head) = whole { try checkHead(head, bytes) }
    }

    private func compare(
        _ whole: HeadOutcome<Run.Head>, _ other: HeadOutcome<Run.Head>, _ words: StaticString
    ) throws(BrokenPromise) {
        try BrokenPromise.unless(whole.same(as: other), words)
        guard case .head = whole else { return }
        try BrokenPromise.unless(isSameTable, words)
    }

    private var isSameTable: Bool {
        guard table.count == otherTable.count else { return false }
        for index in 0..<table.count where table[index] != otherTable[index] { return false }
        return true
    }

    // MARK: - Ways to read

    private func read(_ bytes: Bytes, _ table: FieldTable, _ limits: HeadLimits) -> HeadOutcome<Run.Head> {
        var run = Run()
        do throws(HeadError) {
            guard let head = try run.read(bytes, table, limits) else { return .more }
            return .head(head)
        } catch {
            return .error(error)
        }
    }

    /// In pieces, each time with all bytes so far at another place, as when a buffer grows.
    private func readPieces(_ bytes: Bytes, _ table: FieldTable, _ limits: HeadLimits) -> HeadOutcome<Run.Head> {
        var run = Run()
        var cuts = FuzzCuts(bytes)
        var end = 0
        do throws(HeadError) {
            repeat {
                end = cuts.end(from: end, of: bytes.count)
                if let head = try run.read(pieceRoom.atEnd(bytes[run: 0..<end]), table, limits) { return .head(head) }
            } while end < bytes.count
        } catch {
            return .error(error)
        }
        return .more
    }

    private func readByteByByte(_ bytes: Bytes) throws(BrokenPromise) -> HeadOutcome<Run.Head> {
        var run = Run()
        for end in 0..<bytes.count {
            let head: Run.Head?
            do throws(HeadError) {
                head = try run.read(bytes[run: 0..<(end + 1)], otherTable, Run.limits)
            } catch {
                return .error(error)
            }
            guard let head else { continue }
            try BrokenPromise.unless(
                head.length == end + 1, "the head was whole before its last byte, or long after it")
            return .head(head)
        }
        return .more
    }

    // MARK: - Promises

    /// Small limits refuse more, and change nothing else.
    private func checkTight(_ bytes: Bytes, _ whole: HeadOutcome<Run.Head>) throws(BrokenPromise) {
        let tight = read(bytes, otherTable, Self.tightLimits)
        switch (tight, whole) {
        case (.error(let error), _) where error.kind == .lineTooLong || error.kind == .fieldsTooLarge: break
        default: try compare(whole, tight, "small limits change what they do not refuse")
        }
        let pieces = readPieces(bytes, otherTable, Self.tightLimits)
        try BrokenPromise.unless(tight.same(as: pieces), "cut otherwise, a limit is met elsewhere")
    }

    private func checkHead(_ head: Run.Head, _ bytes: Bytes) throws(BrokenPromise) {
        let used = bytes[run: 0..<head.length]
        try checkFields(used)
        try Run.check(head, table, used)
        text.clear()
        Run.writeStartLine(head, used, text)
        for index in 0..<table.count {
            text.add(table.name(index, in: used))
            text.add(": ")
            text.add(table.value(index, in: used))
            text.add("\r\n")
        }
        text.add("\r\n")
        guard case .head(let again) = read(text.bytes, otherTable, Run.limits) else {
            throw BrokenPromise("what was accepted is refused when it is written anew")
        }
        try BrokenPromise.unless(again.length == text.bytes.count, "written anew, the head ends elsewhere")
        try BrokenPromise.unless(
            again.withoutPlaces == head.withoutPlaces, "written anew, the head means something else")
        try checkSameFields(used)
    }

    /// Each line lies in the head behind the one before it, and has a sound name and a trimmed, sound value.
    private func checkFields(_ bytes: Bytes) throws(BrokenPromise) {
        var place = 0
        for index in 0..<table.count {
            let line = table[index]
            let valueEnd = Int(line.valueStart) + Int(line.valueLength)
            try BrokenPromise.unless(
                Int(line.nameStart) >= place && line.nameLength > 0
                    && line.valueStart > line.nameStart + line.nameLength
                    && valueEnd <= bytes.count, "a field line outside of its place")
            place = valueEnd
            let name = table.name(index, in: bytes)
            let value = table.value(index, in: bytes)
            try BrokenPromise.unless(name.allSatisfy(ByteClass.isToken), "a field name that is no token")
            try BrokenPromise.unless(value.allSatisfy(ByteClass.isValue), "a field value with a control byte")
            try BrokenPromise.unless(value.trimmed.count == value.count, "a field value with outer white space")
            try BrokenPromise.unless(line.name == FieldName.of(name), "a field that is called another")
        }
    }

    private func checkSameFields(_ bytes: Bytes) throws(BrokenPromise) {
        let written = text.bytes
        try BrokenPromise.unless(table.count == otherTable.count, "written anew, there are other fields")
        for index in 0..<table.count {
            try BrokenPromise.unless(
                table.name(index, in: bytes).elementsEqual(otherTable.name(index, in: written))
                    && table.value(index, in: bytes).elementsEqual(otherTable.value(index, in: written))
                    && table[index].name == otherTable[index].name
                    && table[index].isConfusable == otherTable[index].isConfusable,
                "written anew, there are other fields")
        }
    }
}
