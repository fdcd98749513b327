import LanyardRequestPath

/// Holds the chunked reader to its promises: cuts change nothing, `next` and `gather` read the same, a body means what the
/// grammar of RFC 9112 §7.1 says when it is read line by line, and data written in other chunks is the same body.
final class ChunkedFuzz: FuzzTarget {
    private static let bytesMax = 64 << 10

    /// What came of reading some bytes; the data stand in a `HeadText`.
    private struct Outcome {
        var used = 0
        var isDone = false
        var error: HeadError?

        func isSame(as other: Outcome) -> Bool {
            switch (error, other.error) {
            case (nil, nil): used == other.used && isDone == other.isDone
            case (let left?, let right?): left.isSame(as: right)
            default: false
            }
        }
    }

    private let room = GuardedRoom(capacity: bytesMax)
    private let pieceRoom = GuardedRoom(capacity: bytesMax)
    private let data = HeadText(capacity: bytesMax)
    private let otherData = HeadText(capacity: bytesMax)
    /// The trailer section, put together from where `gather` says that it lies.
    private let trailers = HeadText(capacity: bytesMax)
    private let otherTrailers = HeadText(capacity: bytesMax)
    private let table = FieldTable(capacity: HeadLimits.trailers.fieldsMax)
    private let text = HeadText(capacity: 8 * bytesMax)

    /// As the reader of responses.
    private var takesTrailingBlanks = false

    func check(_ input: Bytes) throws(BrokenPromise) {
        takesTrailingBlanks = false
        let request = try checkBody(input)
        takesTrailingBlanks = true
        let response = try checkBody(input)
        guard request.error == nil else { return }
        try BrokenPromise.unless(request.isSame(as: response), "a response reads a body without padding otherwise")
    }

    private func checkBody(_ input: Bytes) throws(BrokenPromise) -> Outcome {
        let bytes = room.atStart(input[run: 0..<min(input.count, Self.bytesMax)])
        let whole = read(bytes, into: data, .whole)
        try compare(whole, read(bytes, into: otherData, .pieces), "cut otherwise, the body is another")
        try compare(whole, read(bytes, into: otherData, .single), "byte by byte, the body is another")
        let gathered = gather(bytes, into: otherData, trailers, .whole)
        try compare(whole, gathered, "gathered, the body is another")
        let pieces = gather(bytes, into: otherData, otherTrailers, .pieces)
        try compare(whole, pieces, "cut and gathered, the body is another")
        guard whole.isDone else {
            if whole.error == nil {
                try BrokenPromise.unless(whole.used == bytes.count, "bytes were left although more are wanted")
            }
            return whole
        }
        try BrokenPromise.unless(
            trailers.bytes.elementsEqual(otherTrailers.bytes), "cut and gathered, there are other trailers")
        try checkTrailers()
        try checkGrammar(bytes[run: 0..<whole.used])
        try checkWrittenAnew(bytes)
        return whole
    }

    private func compare(_ whole: Outcome, _ other: Outcome, _ words: StaticString) throws(BrokenPromise) {
        try BrokenPromise.unless(whole.isSame(as: other), words)
        // A fault takes the data in front of it along, as far as `gather` had them.
        if whole.error == nil { try BrokenPromise.unless(data.bytes.elementsEqual(otherData.bytes), words) }
    }

    // MARK: - Ways to read

    private enum Pieces { case whole, pieces, single }

    private func end(of piece: Pieces, from start: Int, _ count: Int, _ cuts: inout FuzzCuts) -> Int {
        switch piece {
        case .whole: count
        case .pieces: cuts.end(from: start, of: count)
        case .single: min(start + 1, count)
        }
    }

    private func read(_ bytes: Bytes, into data: HeadText, _ pieces: Pieces) -> Outcome {
        data.clear()
        var outcome = Outcome()
        var cuts = FuzzCuts(bytes)
        var reader = ChunkedReader(takesTrailingBlanks: takesTrailingBlanks)
        do throws(HeadError) {
            repeat {
                let start = outcome.used
                let end = self.end(of: pieces, from: start, bytes.count, &cuts)
                let run = pieces == .pieces ? pieceRoom.atEnd(bytes[run: start..<end]) : bytes[run: start..<end]
                var position = 0
                reading: while true {
                    switch try reader.next(run, from: &position) {
                    case .data(let range): data.add(run[run: range])
                    case .needsMore: break reading
                    case .end:
                        outcome.isDone = true
                        break reading
                    }
                }
                outcome.used += position
            } while outcome.used < bytes.count && !outcome.isDone
        } catch {
            outcome.error = error
        }
        return outcome
    }

    private func gather(
        _ bytes: Bytes, into data: HeadText, _ trailers: HeadText, _ pieces: Pieces
    ) -> Outcome {
        data.clear()
        trailers.clear()
        var outcome = Outcome()
        var cuts = FuzzCuts(bytes)
        var reader = ChunkedReader(takesTrailingBlanks: takesTrailingBlanks)
        do throws(HeadError) {
            repeat {
                let start = outcome.used
                let run = pieceRoom.mutable(bytes[run: start..<end(of: pieces, from: start, bytes.count, &cuts)])
                var position = 0
                let count = try reader.gather(run, from: &position)
                trailers.add(
                    UnsafeRawBufferPointer(rebasing: run[reader.trailerBytes]).assumingMemoryBound(to: UInt8.self))
                data.add(UnsafeRawBufferPointer(rebasing: run[0..<count]).assumingMemoryBound(to: UInt8.self))
                outcome.used += position
                outcome.isDone = reader.isDone
            } while outcome.used < bytes.count && !outcome.isDone
        } catch {
            outcome.error = error
        }
        return outcome
    }

    // MARK: - Promises

    /// What is said to be the trailer section is one, from its first byte to its last.
    private func checkTrailers() throws(BrokenPromise) {
        table.removeAll()
        var reader = FieldSectionReader()
        var place = 0
        let isWhole = (try? reader.read(trailers.bytes, from: &place, into: table, limits: .trailers)) ?? false
        try BrokenPromise.unless(isWhole && place == trailers.bytes.count, "trailers that are no field section")
    }

    /// Reads an accepted body again, line by line: sizes, data, and an empty line at the end, exactly where the reader saw it.
    private func checkGrammar(_ bytes: Bytes) throws(BrokenPromise) {
        var place = 0
        var matched = 0
        while true {
            let line = try self.line(bytes, &place)
            let size = line.prefix { ByteClass.hexValue($0) != nil }.reduce(0) {
                $0 << 4 | Int(ByteClass.hexValue($1)!)
            }
            if size == 0 { break }
            try BrokenPromise.unless(size <= bytes.count - place - 2, "a chunk was accepted that is not whole")
            try BrokenPromise.unless(size <= data.bytes.count - matched, "data of a chunk are missing")
            let chunk = bytes[run: place..<(place + size)]
            try BrokenPromise.unless(
                chunk.elementsEqual(data.bytes[run: matched..<(matched + size)]), "data that are not the chunk's")
            matched += size
            place += size
            try BrokenPromise.unless(
                try self.line(bytes, &place).isEmpty, "chunk data not followed by CRLF were accepted")
        }
        try BrokenPromise.unless(matched == data.bytes.count, "more data than the chunks hold")
        while try !line(bytes, &place).isEmpty {}
        try BrokenPromise.unless(place == bytes.count, "the body ends elsewhere")
    }

    /// The line from `place` on, which moves behind its CRLF.
    private func line(_ bytes: Bytes, _ place: inout Int) throws(BrokenPromise) -> Bytes {
        let start = place
        while place + 1 < bytes.count {
            if bytes[place] == 0x0d, bytes[place + 1] == 0x0a {
                place += 2
                return bytes[run: start..<(place - 2)]
            }
            place += 1
        }
        throw BrokenPromise("a line without its end was accepted")
    }

    private func checkWrittenAnew(_ bytes: Bytes) throws(BrokenPromise) {
        var cuts = FuzzCuts(bytes)
        text.clear()
        var place = 0
        while place < data.bytes.count {
            let end = cuts.end(from: place, of: data.bytes.count)
            text.add(hex: end - place)
            text.add("\r\n")
            text.add(data.bytes[run: place..<end])
            text.add("\r\n")
            place = end
        }
        text.add("0\r\n\r\n")
        let again = read(text.bytes, into: otherData, .whole)
        try BrokenPromise.unless(
            again.isDone && again.used == text.bytes.count, "written anew, the body ends elsewhere")
        try BrokenPromise.unless(data.bytes.elementsEqual(otherData.bytes), "written anew, the body is another")
    }
}
