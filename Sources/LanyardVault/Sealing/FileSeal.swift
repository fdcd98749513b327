import COpenSSL
import LanyardFoundations

/// The seal of one file of format 2, with keys that no other file has. `StoreLog` says which bytes it seals.
package protocol FileSeal: AnyObject, Sendable {
    /// The file's first `LogHeader.byteCount` bytes.
    var header: [UInt8] { get }

    /// `RecordHeader.randomByteCount` random bytes.
    ///
    /// - Throws: `failed`: the machine has none.
    func random() throws(SealingError) -> [UInt8]

    /// `RecordHeader.checkByteCount` bytes that only a holder of the key can make of the start of a record's header.
    ///
    /// - Throws: `failed`: the machine lacks memory.
    func check(_ start: [UInt8]) throws(SealingError) -> [UInt8]

    /// Appends the text, sealed, and `SealHeader.tagByteCount` bytes of its tag to `file`. No nonce is used twice.
    ///
    /// - Throws: `failed`: the machine lacks memory.
    func seal(
        _ text: UnsafeRawBufferPointer, nonce: [UInt8], associated: [UInt8], into file: inout [UInt8]
    ) throws(SealingError)

    /// The original text; nil: the bytes are not those that were sealed with this nonce and these associated data.
    ///
    /// - Throws: `failed`: the machine lacks memory.
    func open(
        _ sealed: UnsafeRawBufferPointer, nonce: [UInt8], associated: [UInt8]
    ) throws(SealingError) -> Secret?
}

/// AES-256-GCM and HMAC-SHA256 under the file's own keys.
final class AESFileSeal: FileSeal {
    let header: [UInt8]
    private let key: Secret
    private let checkKey: Secret
    private let entropy: AESSealing.Entropy

    init(_ header: [UInt8], of key: Secret, salt: [UInt8], entropy: @escaping AESSealing.Entropy) throws(SealingError) {
        self.header = header
        (self.key, checkKey) = try SealKeys.recordKeys(of: key, salt: salt)
        self.entropy = entropy
    }

    func random() throws(SealingError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: RecordHeader.randomByteCount)
        guard bytes.withUnsafeMutableBytes({ entropy($0) }) else { throw .failed("the random generator") }
        return bytes
    }

    func check(_ start: [UInt8]) throws(SealingError) -> [UInt8] {
        ERR_clear_error()
        var hash = [UInt8](repeating: 0, count: KeyedHash.byteCount)
        let isDone = start.withUnsafeBytes { text in
            hash.withUnsafeMutableBytes { room in
                checkKey.withBytes { KeyedHash.write(text, key: $0, into: room) }
            }
        }
        guard isDone else { throw .failed("HMAC") }
        return Array(hash.prefix(RecordHeader.checkByteCount))
    }

    func seal(
        _ text: UnsafeRawBufferPointer, nonce: [UInt8], associated: [UInt8], into file: inout [UInt8]
    ) throws(SealingError) {
        try SealCipher().encrypt(text, key: key, nonce: nonce, associated: associated, into: &file)
    }

    func open(
        _ sealed: UnsafeRawBufferPointer, nonce: [UInt8], associated: [UInt8]
    ) throws(SealingError) -> Secret? {
        try SealCipher().decrypt(sealed, key: key, nonce: nonce, associated: associated)
    }
}
