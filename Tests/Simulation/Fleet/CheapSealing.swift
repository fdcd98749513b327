import LanyardFoundations
import LanyardVault

/// Stands in for the store's seal where a million files are written: plain text behind the key's number and a checksum, so that a wrong
/// key, a torn file and a foreign one are still told apart.
package final class CheapSealing: Sealing {
    private static let magic: UInt64 = 0x4c414e_59434845
    private static let headerByteCount = 32
    private let key: UInt64

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

    /// Eight bytes at a time.
    private static func sum(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
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
