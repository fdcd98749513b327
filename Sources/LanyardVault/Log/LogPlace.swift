import LanyardFoundations
import LanyardSessionInterface

/// How far a file of format 2 was read or written.
struct LogPlace: Sendable {
    /// A file of fewer bytes is never too long.
    private static let bytesMin = 64 << 10

    private(set) var log: StoreLog
    /// Records of the contents that the file was made with and that are not read yet.
    private var contentsLeft: UInt32
    /// Offset behind the records of the contents that the file was made with.
    private var contentsEnd: Int
    /// A write did not end: what it has left is cut off before the next record.
    private(set) var isTorn = false

    /// A new file was due, and there was no room for it.
    var isDue = false

    /// Records were added to the file since it was made.
    var hasWrites: Bool { log.end > contentsEnd }

    /// What was added is more than the contents were: the next write makes a new file.
    var isLong: Bool { isDue || log.end > max(2 * contentsEnd, Self.bytesMin) }

    /// Whether this is the file that begins so.
    func isOf(_ head: [UInt8]) -> Bool { head == log.seal.header }

    // MARK: Reading

    /// A whole file.
    ///
    /// - Throws: as `StoreFile.inspect` does.
    static func read(
        _ file: [UInt8], _ sealing: any Sealing, _ path: String
    ) throws(StoreError) -> (StoreContents, LogPlace) {
        try withBytes(of: file) { bytes throws(StoreError) in
            let seal: any FileSeal
            do throws(SealingError) {
                seal = try sealing.file(of: bytes)
            } catch {
                throw StoreError(path, error)
            }
            var log = StoreLog(seal)
            let records = UnsafeRawBufferPointer(rebasing: bytes[log.end...])
            let beginning = try beginning(&log, records, path)
            var contents = StoreContents(fingerprintKey: beginning.fingerprintKey)
            contents.writes = beginning.writes
            var place = LogPlace(log: log, contentsLeft: beginning.recordCount - 1, contentsEnd: log.end)
            try place.readOn(records, from: log.end - LogHeader.byteCount, &contents, path)
            guard place.contentsLeft == 0 else { throw .damaged(path, SealHeader.truncated) }
            return (contents, place)
        }
    }

    /// Reads what was added since.
    ///
    /// - Parameter tail: the file's bytes from the latest record's tag on.
    /// - Returns: false: this is another file that begins in the same way, such as a copy from before. It must be read as a whole.
    mutating func readOn(
        _ tail: [UInt8], _ contents: inout StoreContents, _ path: String
    ) throws(StoreError) -> Bool {
        guard tail.prefix(SealHeader.tagByteCount).elementsEqual(log.chain) else { return false }
        var (place, read) = (self, contents)
        // The only reference to these contents: they are changed in place.
        contents = StoreContents(fingerprintKey: contents.fingerprintKey)
        try Self.withBytes(of: tail) { bytes throws(StoreError) in
            try place.readOn(bytes, from: SealHeader.tagByteCount, &read, path)
        }
        (self, contents) = (place, read)
        return true
    }

    private mutating func readOn(
        _ bytes: UnsafeRawBufferPointer, from offset: Int, _ contents: inout StoreContents, _ path: String
    ) throws(StoreError) {
        isTorn = false
        let start = log.end - offset
        while true {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[(log.end - start)...])
            switch try Self.next(&log, rest, path) {
            case .end: return
            case .torn:
                guard contentsLeft == 0 else { throw .damaged(path, SealHeader.truncated) }
                return isTorn = true
            case .damaged: throw .damaged(path, SealHeader.notAsWritten)
            case .record(let text): try take(text, &contents, path)
            }
        }
    }

    private mutating func take(_ text: Secret, _ contents: inout StoreContents, _ path: String) throws(StoreError) {
        do throws(StoreText.FormatError) {
            try StoreRecordText.read(text) { item throws(StoreText.FormatError) in
                guard case .edit(let edit) = item, contents.make(edit) != nil else { throw .malformed(at: 0) }
            }
        } catch {
            throw StoreError(path, error)
        }
        if contentsLeft > 0 {
            (contentsLeft, contentsEnd) = (contentsLeft - 1, log.end)
        } else {
            contents.writes = contents.writes.clampedSum(1)
        }
    }

    private static func beginning(
        _ log: inout StoreLog, _ records: UnsafeRawBufferPointer, _ path: String
    ) throws(StoreError) -> StoreRecordText.Beginning {
        let text: Secret
        switch try next(&log, records, path) {
        case .record(let first): text = first
        case .end, .torn: throw .damaged(path, SealHeader.truncated)
        case .damaged: throw .damaged(path, SealHeader.notAsWritten)
        }
        var beginning: StoreRecordText.Beginning?
        do throws(StoreText.FormatError) {
            try StoreRecordText.read(text) { item throws(StoreText.FormatError) in
                guard case .beginning(let found) = item else { throw .malformed(at: 0) }
                beginning = found
            }
        } catch {
            throw StoreError(path, error)
        }
        guard let beginning else { throw .damaged(path, SealHeader.notAsWritten) }
        return beginning
    }

    private static func next(
        _ log: inout StoreLog, _ rest: UnsafeRawBufferPointer, _ path: String
    ) throws(StoreError) -> StoreLog.Next {
        do throws(SealingError) {
            return try log.next(rest)
        } catch {
            throw StoreError(path, error)
        }
    }

    private static func withBytes<Value>(
        of file: [UInt8], _ body: (UnsafeRawBufferPointer) throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        try file.withUnsafeBytes { bytes in Result { () throws(StoreError) in try body(bytes) } }.get()
    }

    // MARK: Writing

    /// The bytes of a new file.
    ///
    /// - Throws: `unfit`: a value is beyond the format, or the machine lacks memory or random bytes.
    static func file(
        of contents: StoreContents, _ sealing: any Sealing, _ path: String
    ) throws(StoreError) -> (bytes: [UInt8], place: LogPlace) {
        let texts: [Secret]
        do throws(StoreText.FormatError) {
            texts = try StoreRecordText.texts(of: contents)
        } catch {
            throw StoreError(path, error)
        }
        do throws(SealingError) {
            var log = StoreLog(try sealing.newFile())
            var bytes = log.seal.header
            for text in texts { bytes += try log.append(text) }
            return (bytes, LogPlace(log: log, contentsLeft: 0, contentsEnd: log.end))
        } catch {
            throw StoreError(path, error)
        }
    }

    /// The bytes of the record that one more write adds.
    ///
    /// - Throws: `unfit`: a value is beyond the format, or the machine lacks memory or random bytes.
    mutating func append(_ delta: StoreDelta, _ path: String) throws(StoreError) -> [UInt8] {
        isTorn = false
        let text: Secret
        do throws(StoreText.FormatError) {
            text = try StoreRecordText.text(of: delta.steps.map(\.edit))
        } catch {
            throw StoreError(path, error)
        }
        do throws(SealingError) {
            return try log.append(text)
        } catch {
            throw StoreError(path, error)
        }
    }
}
