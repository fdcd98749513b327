import LanyardFoundations

@testable import LanyardVault

/// A cheap replacement for the store's sealing, for runs with millions of writes. It does not encrypt. It distinguishes a wrong key from
/// damage, as the real one does.
final class StandInSealing: Sealing {
    private let key: UInt64
    /// For the salts of files, which are random elsewhere.
    private let files = Guarded(UInt64.random(in: 0 ..< .max / 2))

    init(key: UInt64) { self.key = key }

    func seal(_ text: UnsafeRawBufferPointer) throws(SealingError) -> [UInt8] {
        var sealed: [UInt8] = []
        sealed.reserveCapacity(text.count + 24)
        Self.append(key, to: &sealed)
        Self.append(UInt64(text.count), to: &sealed)
        Self.append(Self.sum(text, key), to: &sealed)
        sealed += text
        return sealed
    }

    func open(_ sealed: UnsafeRawBufferPointer) throws(SealingError) -> Secret {
        guard sealed.count >= 24 else { throw .damaged("it is truncated") }
        guard Self.number(sealed, at: 0) == key else { throw .wrongKey }
        let text = UnsafeRawBufferPointer(rebasing: sealed.dropFirst(24))
        guard Self.number(sealed, at: 8) == UInt64(text.count) else { throw .damaged("it is truncated") }
        guard Self.number(sealed, at: 16) == Self.sum(text, key) else { throw .damaged("it is not as it was written") }
        return Secret(copying: text)
    }

    func newFile() throws(SealingError) -> any FileSeal {
        StandInFileSeal(
            key: key,
            salt: files.withLock { files in
                files += 1
                return files
            })
    }

    func file(of header: UnsafeRawBufferPointer) throws(SealingError) -> any FileSeal {
        guard header.count >= LogHeader.byteCount else { throw .damaged("it is truncated") }
        guard Self.number(header, at: 16) == key else { throw .wrongKey }
        return StandInFileSeal(key: key, salt: Self.number(header, at: 24))
    }

    static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.littleEndian) { bytes += $0 }
    }

    static func number(_ bytes: UnsafeRawBufferPointer, at place: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
    }

    /// FNV-1a, eight bytes at a time.
    static func sum(_ bytes: UnsafeRawBufferPointer, _ seed: UInt64) -> UInt64 {
        var sum = 0xcbf2_9ce4_8422_2325 ^ seed
        var place = 0
        while place + 8 <= bytes.count {
            sum = (sum ^ number(bytes, at: place)) &* 0x100_0000_01b3
            sum ^= sum >> 29
            place += 8
        }
        while place < bytes.count {
            sum = (sum ^ UInt64(bytes[place])) &* 0x100_0000_01b3
            place += 1
        }
        return sum
    }
}

/// The same for a file of format 2.
final class StandInFileSeal: FileSeal {
    let header: [UInt8]
    private let seed: UInt64

    init(key: UInt64, salt: UInt64) {
        var header = Array("LANYSTOR".utf8) + [0, 2, 1, 0, 0, 0, 0, 0]
        StandInSealing.append(key, to: &header)
        StandInSealing.append(salt, to: &header)
        self.header = header + [UInt8](repeating: 0, count: LogHeader.byteCount - header.count)
        seed = key ^ (salt << 7)
    }

    func random() -> [UInt8] { (0..<RecordHeader.randomByteCount).map { _ in .random(in: 0...255) } }

    func check(_ start: [UInt8]) -> [UInt8] {
        let sum = start.withUnsafeBytes { StandInSealing.sum($0, seed) }
        var bytes: [UInt8] = []
        StandInSealing.append(sum, to: &bytes)
        StandInSealing.append(~sum, to: &bytes)
        return bytes
    }

    func seal(_ text: UnsafeRawBufferPointer, nonce: [UInt8], associated: [UInt8], into file: inout [UInt8]) {
        // No byte of a seal is zero for long, as it may be of a text.
        file += text.map { $0 ^ 0x5a }
        file += tag(text, nonce + associated)
    }

    func open(_ sealed: UnsafeRawBufferPointer, nonce: [UInt8], associated: [UInt8]) -> Secret? {
        let text = sealed.dropLast(16).map { $0 ^ 0x5a }
        return text.withUnsafeBytes { text in
            tag(text, nonce + associated).elementsEqual(sealed.suffix(16)) ? Secret(copying: text) : nil
        }
    }

    private func tag(_ text: UnsafeRawBufferPointer, _ rest: [UInt8]) -> [UInt8] {
        check(Array(text) + rest)
    }
}
