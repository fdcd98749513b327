import LanyardRequestPath
import Testing

/// What `ChunkedReader` makes of some bytes.
enum ChunkedReading: Equatable {
    /// The body, and how many bytes of input were used for it.
    case whole(String, used: Int)
    case part(String)
    case error(HeadError.Kind)

    /// Reads in many cuts, by `next` and by `gather`; differing results are an issue of their own.
    static func of(
        _ text: String, takesTrailingBlanks: Bool = false, at location: SourceLocation = #_sourceLocation
    ) -> ChunkedReading {
        let bytes = text.unicodeScalars.map { UInt8($0.value) }
        let ways = Cuts.of(bytes.count)
        let results =
            ways.map { pieces(bytes, $0, takesTrailingBlanks) }
            + ways.map { gathered(bytes, $0, takesTrailingBlanks) }
        for result in results where result != results[0] {
            Issue.record("cut whole: \(results[0]), cut otherwise: \(result)", sourceLocation: location)
        }
        return results[0]
    }

    private static func pieces(_ bytes: [UInt8], _ cuts: [Int], _ takesTrailingBlanks: Bool) -> ChunkedReading {
        var reader = ChunkedReader(takesTrailingBlanks: takesTrailingBlanks)
        var body: [UInt8] = []
        var start = 0
        do throws(HeadError) {
            for end in cuts {
                let run = Array(bytes[start..<end])
                var position = 0
                read: while true {
                    let piece = try next(&reader, run, &position)
                    switch piece {
                    case .data(let range): body += run[range]
                    case .needsMore: break read
                    case .end: return .whole(String(decoding: body, as: UTF8.self), used: start + position)
                    }
                }
                start = end
            }
        } catch {
            return .error(error.kind)
        }
        return .part(String(decoding: body, as: UTF8.self))
    }

    private static func next(
        _ reader: inout ChunkedReader, _ run: [UInt8], _ position: inout Int
    ) throws(HeadError) -> ChunkedReader.Piece {
        try Result<ChunkedReader.Piece, HeadError> { () throws(HeadError) in
            try withBytes(run) { (bytes) throws(HeadError) in try reader.next(bytes, from: &position) }
        }.get()
    }

    private static func withBytes<R>(_ run: [UInt8], _ body: (Bytes) throws(HeadError) -> R) throws(HeadError) -> R {
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: run.count + 1)
        defer { copy.deallocate() }
        _ = copy.initialize(from: run)
        return try body(Bytes(start: copy.baseAddress, count: run.count))
    }

    private static func gathered(_ bytes: [UInt8], _ cuts: [Int], _ takesTrailingBlanks: Bool) -> ChunkedReading {
        var reader = ChunkedReader(takesTrailingBlanks: takesTrailingBlanks)
        var body: [UInt8] = []
        var start = 0
        do throws(HeadError) {
            for end in cuts {
                let room = UnsafeMutableRawBufferPointer.allocate(byteCount: end - start + 1, alignment: 1)
                defer { room.deallocate() }
                room.copyBytes(from: bytes[start..<end])
                let run = UnsafeMutableRawBufferPointer(rebasing: room[0..<(end - start)])
                var position = 0
                let count = try reader.gather(run, from: &position)
                body += run[0..<count]
                if reader.isDone { return .whole(String(decoding: body, as: UTF8.self), used: start + position) }
                start = end
            }
        } catch {
            return .error(error.kind)
        }
        return .part(String(decoding: body, as: UTF8.self))
    }
}
