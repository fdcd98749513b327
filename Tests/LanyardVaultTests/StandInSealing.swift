import LanyardFoundations
import LanyardVault

/// A cheap replacement for the store's sealing, for runs with millions of writes. It does not encrypt. It distinguishes a wrong key from
/// damage, as the real one does.
final class StandInSealing: Sealing {
    private let key: UInt64

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

    private static func append(_ number: UInt64, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.littleEndian) { bytes += $0 }
    }

    private static func number(_ bytes: UnsafeRawBufferPointer, at place: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
    }

    /// FNV-1a, eight bytes at a time.
    private static func sum(_ bytes: UnsafeRawBufferPointer, _ seed: UInt64) -> UInt64 {
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
