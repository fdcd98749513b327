import LanyardFoundations
import LanyardVault

/// Stands in for the store's seal where a million files are written: plain text behind the key's number and a checksum, so that a wrong
/// key, a torn file and a foreign one are still told apart.
package final class CheapSealing: Sealing {
    private static let magic: UInt64 = 0x4c414e_59434845
    private static let headerByteCount = 32
    private let key: UInt64
    /// Files made so far, for their salts. The simulation has one thread.
    private nonisolated(unsafe) var files: UInt64 = 0

    package init(key: UInt64) { self.key = key }

    package func seal(_ text: UnsafeRawBufferPointer) throws(SealingError) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Self.headerByteCount + text.count) { room, filled in
            let bytes = UnsafeMutableRawBufferPointer(room)
            bytes.storeBytes(of: Self.magic, toByteOffset: 0, as: UInt64.self)
            bytes.storeBytes(of: key, toByteOffset: 8, as: UInt64.self)
            bytes.storeBytes(of: UInt64(text.count), toByteOffset: 16, as: UInt64.self)
            bytes.storeBytes(of: Self.sum(text), toByteOffset: 24, as: UInt64.self)
            UnsafeMutableRawBufferPointer(rebasing: bytes[Self.headerByteCount...]).copyMemory(from: text)
            filled = Self.headerByteCount + text.count
        }
    }

    package func open(_ sealed: UnsafeRawBufferPointer) throws(SealingError) -> Secret {
        guard sealed.count >= Self.headerByteCount else { throw .damaged("it is truncated") }
        guard sealed.loadUnaligned(as: UInt64.self) == Self.magic else { throw .damaged("it is no store") }
        guard sealed.loadUnaligned(fromByteOffset: 8, as: UInt64.self) == key else { throw .wrongKey }
        let text = UnsafeRawBufferPointer(rebasing: sealed[Self.headerByteCount...])
        guard sealed.loadUnaligned(fromByteOffset: 16, as: UInt64.self) == UInt64(text.count),
            sealed.loadUnaligned(fromByteOffset: 24, as: UInt64.self) == Self.sum(text)
        else { throw .damaged("it is not as it was written") }
        return Secret(copying: text)
    }

    package func newFile() throws(SealingError) -> any FileSeal {
        files += 1
        return CheapFileSeal(key: key, salt: files)
    }

    package func file(of header: UnsafeRawBufferPointer) throws(SealingError) -> any FileSeal {
        guard header.count >= CheapFileSeal.headerByteCount else { throw .damaged("it is truncated") }
        guard header.loadUnaligned(fromByteOffset: 16, as: UInt64.self) == key else { throw .wrongKey }
        return CheapFileSeal(key: key, salt: header.loadUnaligned(fromByteOffset: 24, as: UInt64.self))
    }

    /// Eight bytes at a time.
    fileprivate static func sum(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var sum: UInt64 = 0x9e37_79b9_7f4a_7c15
        var place = 0
        while place + 8 <= bytes.count {
            let word = bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self)
            sum = (sum ^ word) &* 0xbf58_476d_1ce4_e5b9
            sum ^= sum >> 29
            place += 8
        }
        while place < bytes.count {
            sum = (sum ^ UInt64(bytes[place])) &* 0x94d0_49bb_1331_11eb
            place += 1
        }
        return sum ^ sum >> 32
    }
}

/// The same for a file of format 2.
final class CheapFileSeal: FileSeal {
    static let headerByteCount = 96
    let header: [UInt8]
    private let seed: [UInt8]
    /// Records sealed so far, for their nonces. The simulation has one thread.
    private nonisolated(unsafe) var records: UInt64 = 0

    init(key: UInt64, salt: UInt64) {
        seed = Self.bytes(key) + Self.bytes(salt)
        let start = Array("LANYSTOR".utf8) + [0, 2, 1, 0, 0, 0, 0, 0] + seed
        header = start + [UInt8](repeating: 0, count: Self.headerByteCount - start.count)
    }

    func random() -> [UInt8] {
        records += 1
        return Self.bytes(records)
    }

    func check(_ start: [UInt8]) -> [UInt8] {
        let sum = (seed + start).withUnsafeBytes { CheapSealing.sum($0) }
        return Self.bytes(sum) + Self.bytes(~sum)
    }

    func seal(_ text: UnsafeRawBufferPointer, nonce: [UInt8], associated: [UInt8], into file: inout [UInt8]) {
        // No byte of a seal is zero for long, as it may be of a text.
        file += text.map { $0 ^ 0x5a }
        file += check(Array(text) + nonce + associated)
    }

    func open(_ sealed: UnsafeRawBufferPointer, nonce: [UInt8], associated: [UInt8]) -> Secret? {
        let text = sealed.dropLast(16).map { $0 ^ 0x5a }
        guard check(text + nonce + associated).elementsEqual(sealed.suffix(16)) else { return nil }
        return text.withUnsafeBytes { Secret(copying: $0) }
    }

    private static func bytes(_ number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.littleEndian) { Array($0) } }
}
