import LanyardFoundations

/// The unencrypted start of a record: its length and its place among the file's records, checked under the file's key. So bytes that were
/// damaged are told from a record that was never written whole.
struct RecordHeader: Equatable {
    /// Records begin at multiples of this, so that no header crosses a sector.
    static let byteCount = 32
    static let randomByteCount = 8
    static let checkByteCount = 16
    private static let startByteCount = 16

    /// Bytes of the text.
    var textByteCount: Int
    /// From 0.
    var number: UInt32
    /// For the nonce: a file that a backup has replaced may have had another record of this number.
    var random: [UInt8]

    /// Bytes of the whole record.
    var recordByteCount: Int { Self.byteCount + textByteCount + SealHeader.tagByteCount }

    /// 12 bytes that no other record of the file has.
    var nonce: [UInt8] { Self.bytes(number) + random }

    private var start: [UInt8] { Self.bytes(UInt32(textByteCount)) + Self.bytes(number) + random }

    init(textByteCount: Int, number: UInt32, random: [UInt8]) {
        self.textByteCount = textByteCount
        self.number = number
        self.random = random
    }

    /// nil: these are not the first bytes of a record.
    init?(_ bytes: UnsafeRawBufferPointer, _ seal: any FileSeal) throws(SealingError) {
        guard bytes.count >= Self.byteCount else { return nil }
        textByteCount = Int(Self.number(bytes, at: 0))
        number = Self.number(bytes, at: 4)
        random = Array(bytes[8..<Self.startByteCount])
        let isOurs = try seal.check(start).elementsEqual(bytes[Self.startByteCount..<Self.byteCount])
        guard isOurs, textByteCount % Self.byteCount == SealHeader.tagByteCount else { return nil }
    }

    func bytes(_ seal: any FileSeal) throws(SealingError) -> [UInt8] { start + (try seal.check(start)) }

    /// The length of a text whose record ends where the next one may begin.
    static func padded(_ textByteCount: Int) -> Int {
        let whole = textByteCount + SealHeader.tagByteCount + byteCount - 1
        return whole / byteCount * byteCount - SealHeader.tagByteCount
    }

    private static func bytes(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }

    private static func number(_ bytes: UnsafeRawBufferPointer, at place: Int) -> UInt32 {
        UInt32(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self))
    }
}

/// Where a file of format 2 ends, as far as it was read or written: what the next record is chained to. Each record is sealed with the tag
/// of the one before it, so none can be removed, moved or repeated.
package struct StoreLog: Sendable {
    /// What stands behind the records that were read.
    enum Next {
        /// Nothing.
        case end
        case record(Secret)
        /// A write did not end. Nothing of it was reported as stored.
        case torn
        case damaged
    }

    /// Bytes of a sector, which a loss of power leaves as it was or as it is.
    private static let sectorByteCount = 512

    let seal: any FileSeal
    /// Offset behind the latest record.
    private(set) var end: Int
    /// Of the next record.
    private(set) var number: UInt32 = 0
    /// What the next record is sealed with: the latest record's tag, or the header of a file without one.
    private(set) var chain: [UInt8]

    /// A file that has no record yet.
    init(_ seal: any FileSeal) {
        self.seal = seal
        end = LogHeader.byteCount
        chain = seal.header
    }

    /// The next record with this text, whose length is padded.
    ///
    /// - Throws: `failed`: the machine lacks memory or random bytes.
    mutating func append(_ text: Secret) throws(SealingError) -> [UInt8] {
        let header = RecordHeader(textByteCount: text.count, number: number, random: try seal.random())
        var record = try header.bytes(seal)
        let associated = record + chain
        let seal = seal
        record = try text.withBytes { bytes throws(SealingError) in
            var record = record
            record.reserveCapacity(header.recordByteCount)
            try seal.seal(bytes, nonce: header.nonce, associated: associated, into: &record)
            return record
        }
        accept(record.count, tag: Array(record.suffix(SealHeader.tagByteCount)))
        return record
    }

    /// Reads the record at `end`.
    ///
    /// - Parameter rest: the file's bytes from `end` on.
    /// - Throws: `failed`: the machine lacks memory.
    mutating func next(_ rest: UnsafeRawBufferPointer) throws(SealingError) -> Next {
        guard !rest.isEmpty else { return .end }
        guard rest.count >= RecordHeader.byteCount else { return .torn }
        guard let header = try RecordHeader(rest, seal) else {
            guard isLost(rest.prefix(Self.sectorByteCount - end % Self.sectorByteCount)) else { return .damaged }
            return try hasLaterRecord(rest) ? .damaged : .torn
        }
        guard header.number == number else { return .damaged }
        guard header.recordByteCount <= rest.count else { return .torn }
        let record = UnsafeRawBufferPointer(rebasing: rest[..<header.recordByteCount])
        let text = try seal.open(
            UnsafeRawBufferPointer(rebasing: record[RecordHeader.byteCount...]), nonce: header.nonce,
            associated: Array(record[..<RecordHeader.byteCount]) + chain)
        guard let text else {
            return record.count == rest.count && hasLostSector(record) ? .torn : .damaged
        }
        accept(record.count, tag: Array(record.suffix(SealHeader.tagByteCount)))
        return .record(text)
    }

    private mutating func accept(_ byteCount: Int, tag: [UInt8]) {
        end += byteCount
        number += 1
        chain = tag
    }

    private func isLost(_ bytes: Slice<UnsafeRawBufferPointer>) -> Bool { bytes.allSatisfy { $0 == 0 } }

    /// Some sector was not written, although the length of the file was. The bytes of a seal are never zero for so long.
    private func hasLostSector(_ record: UnsafeRawBufferPointer) -> Bool {
        var place = 0
        while place < record.count {
            let next = min(record.count, place + Self.sectorByteCount - (end + place) % Self.sectorByteCount)
            if isLost(record[place..<next]) { return true }
            place = next
        }
        return false
    }

    /// A later record is there: what is lost was once stored.
    private func hasLaterRecord(_ rest: UnsafeRawBufferPointer) throws(SealingError) -> Bool {
        for place in stride(from: 0, to: rest.count, by: RecordHeader.byteCount) {
            let bytes = UnsafeRawBufferPointer(rebasing: rest[place...])
            guard !isLost(bytes.prefix(RecordHeader.byteCount)) else { continue }
            if let header = try RecordHeader(bytes, seal), header.number > number { return true }
        }
        return false
    }
}
