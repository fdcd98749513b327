import COpenSSL
import Glibc
import LanyardFoundations

/// Turns the store's text into files that can be read or changed only with the key.
package protocol Sealing: AnyObject, Sendable {
    /// The sealed form of a whole text (format 1), which differs with every call. It is not secret.
    ///
    /// - Throws: `failed`: the machine lacks memory or random bytes.
    func seal(_ text: UnsafeRawBufferPointer) throws(SealingError) -> [UInt8]

    /// The original text, bit for bit.
    ///
    /// - Throws: `wrongKey` or `otherKind` if the configured key is at fault; `damaged`, `newerVersion` or `unfit` if the bytes are;
    ///   `failed` if the machine is.
    func open(_ sealed: UnsafeRawBufferPointer) throws(SealingError) -> Secret

    /// The seal of a new file of format 2, with a key of its own.
    ///
    /// - Throws: `failed`: the machine lacks memory or random bytes.
    func newFile() throws(SealingError) -> any FileSeal

    /// The seal of the file of format 2 that begins with these `LogHeader.byteCount` bytes.
    ///
    /// - Throws: as `open` does.
    func file(of header: UnsafeRawBufferPointer) throws(SealingError) -> any FileSeal
}

/// Why bytes cannot be sealed or opened. A type of its own, because bytes have no path: `StoreError` adds it with the
/// remedy.
package enum SealingError: Error, Equatable, Sendable {
    /// Sealed with another key or passphrase.
    case wrongKey
    /// Sealed with a passphrase while a key is configured, or the reverse.
    case otherKind(isPassphrase: Bool)
    /// The bytes differ from what was written; the text says how.
    case damaged(String)
    /// Written by a later release; the value is its format version.
    case newerVersion(Int)
    /// Parameters that Lanyard never writes; the text names them.
    case unfit(String)
    /// A primitive failed; the value is its name. Memory is short, or the library is damaged.
    case failed(String)
}

/// The seal of architecture-control.md 4.7: AES-256-GCM under a key of the file's own. It authenticates the header, and a key id names the
/// key.
package final class AESSealing: Sealing {
    /// Fills the buffer with random bytes; false if none are available.
    package typealias Entropy = @Sendable (UnsafeMutableRawBufferPointer) -> Bool

    /// The key material, and the latest key that scrypt derived from a passphrase.
    private struct Stretched {
        var scrypt: SealHeader.Scrypt
        var secret: Secret
    }

    private let secret: StoreSecret
    private let entropy: Entropy
    /// scrypt takes 100 ms. It runs once per process, and again only if the file has another salt.
    private let stretched = Guarded<Stretched?>(nil)

    /// - Parameter entropy: for salts and nonces; a test may fix it.
    package init(_ secret: StoreSecret, entropy: @escaping Entropy = AESSealing.random) {
        self.secret = secret
        self.entropy = entropy
    }

    /// OpenSSL's generator, which the kernel seeds.
    package static let random: Entropy = { room in
        RAND_bytes(room.baseAddress?.assumingMemoryBound(to: UInt8.self), CInt(room.count)) == 1
    }

    package func seal(_ text: UnsafeRawBufferPointer) throws(SealingError) -> [UInt8] {
        let (key, scrypt) = try keyForWriting()
        let header = SealHeader(
            scrypt: scrypt, keyID: try SealKeys.keyID(of: key), salt: try fresh(SealHeader.saltByteCount),
            nonce: try fresh(SealHeader.nonceByteCount), textByteCount: text.count)
        var file = header.bytes
        try SealCipher().encrypt(
            text, key: try SealKeys.fileKey(of: key, salt: header.salt), nonce: header.nonce, associated: header.bytes,
            into: &file)
        return file
    }

    package func open(_ sealed: UnsafeRawBufferPointer) throws(SealingError) -> Secret {
        let header = try SealHeader(of: sealed)
        let key = try key(for: header.scrypt)
        guard try SealKeys.keyID(of: key) == header.keyID else { throw .wrongKey }
        let text = try SealCipher().decrypt(
            UnsafeRawBufferPointer(rebasing: sealed[SealHeader.byteCount...]),
            key: try SealKeys.fileKey(of: key, salt: header.salt), nonce: header.nonce,
            associated: Array(sealed[..<SealHeader.byteCount]))
        guard let text else { throw .damaged(SealHeader.notAsWritten) }
        return text
    }

    package func newFile() throws(SealingError) -> any FileSeal {
        let (key, scrypt) = try keyForWriting()
        let header = LogHeader(
            scrypt: scrypt, keyID: try SealKeys.keyID(of: key), salt: try fresh(SealHeader.saltByteCount))
        return try AESFileSeal(header.bytes, of: key, salt: header.salt, entropy: entropy)
    }

    package func file(of bytes: UnsafeRawBufferPointer) throws(SealingError) -> any FileSeal {
        let header = try LogHeader(of: bytes)
        let key = try key(for: header.scrypt)
        guard try SealKeys.keyID(of: key) == header.keyID else { throw .wrongKey }
        return try AESFileSeal(header.bytes, of: key, salt: header.salt, entropy: entropy)
    }

    // MARK: Keys

    private func key(for scrypt: SealHeader.Scrypt?) throws(SealingError) -> Secret {
        switch (secret.kind, scrypt) {
        case (.key, nil): return secret.secret
        case (.passphrase, let scrypt?): return try stretch(scrypt)
        case (.key, _?): throw .otherKind(isPassphrase: true)
        case (.passphrase, nil): throw .otherKind(isPassphrase: false)
        }
    }

    /// A passphrase keeps the salt of the existing file, so that neither this process nor others derive the key again.
    private func keyForWriting() throws(SealingError) -> (Secret, SealHeader.Scrypt?) {
        guard secret.kind == .passphrase else { return (secret.secret, nil) }
        if let known = stretched.withLock({ $0 }) { return (known.secret, known.scrypt) }
        let scrypt = SealHeader.Scrypt(salt: try fresh(SealHeader.scryptSaltByteCount))
        return (try stretch(scrypt), scrypt)
    }

    private func stretch(_ scrypt: SealHeader.Scrypt) throws(SealingError) -> Secret {
        if let known = stretched.withLock({ $0 }), known.scrypt == scrypt { return known.secret }
        let made = try SealKeys.stretch(secret.secret, scrypt)
        stretched.withLock { $0 = Stretched(scrypt: scrypt, secret: made) }
        return made
    }

    private func fresh(_ count: Int) throws(SealingError) -> [UInt8] {
        var isFilled = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { room, filled in
            isFilled = entropy(UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(room)[0..<count]))
            filled = isFilled ? count : 0
        }
        guard isFilled else { throw .failed("the random generator") }
        return bytes
    }
}

/// AES-256-GCM over one text with associated data, by OpenSSL's context of that name.
struct SealCipher: ~Copyable {
    private let context: OpaquePointer

    init() throws(SealingError) {
        guard let context = EVP_CIPHER_CTX_new() else { throw .failed("AES-256-GCM") }
        self.context = context
    }

    deinit { EVP_CIPHER_CTX_free(context) }

    /// Appends the ciphertext of `text` and the tag to `file`.
    func encrypt(
        _ text: UnsafeRawBufferPointer, key: Secret, nonce: [UInt8], associated: [UInt8], into file: inout [UInt8]
    ) throws(SealingError) {
        ERR_clear_error()
        let header = file.count
        file += [UInt8](repeating: 0, count: text.count + SealHeader.tagByteCount)
        let isDone = file.withUnsafeMutableBytes { room in
            let out = room.baseAddress!.assumingMemoryBound(to: UInt8.self)
            var count: CInt = 0
            return key.withBytes { EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, Self.bytes($0), nonce) } == 1
                && EVP_EncryptUpdate(context, nil, &count, associated, CInt(associated.count)) == 1
                && EVP_EncryptUpdate(context, out + header, &count, Self.bytes(text), CInt(text.count)) == 1
                && Int(count) == text.count && EVP_EncryptFinal_ex(context, out + header + text.count, &count) == 1
                && EVP_CIPHER_CTX_ctrl(
                    context, EVP_CTRL_AEAD_GET_TAG, CInt(SealHeader.tagByteCount), out + header + text.count) == 1
        }
        guard isDone else { throw .failed("AES-256-GCM") }
    }

    /// The text of a ciphertext with its tag; nil if the tag does not match. The text is not used before that check.
    func decrypt(
        _ sealed: UnsafeRawBufferPointer, key: Secret, nonce: [UInt8], associated: [UInt8]
    ) throws(SealingError) -> Secret? {
        ERR_clear_error()
        let count = sealed.count - SealHeader.tagByteCount
        let bytes = Self.bytes(sealed)
        // GCM takes the tag through a mutable pointer.
        var tag = Array(sealed[count...])
        var isWhole = false
        let text = try Secret(capacity: count) { room throws(SealingError) in
            var written: CInt = 0
            let out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
            let isReady =
                key.withBytes { EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, Self.bytes($0), nonce) } == 1
                && EVP_DecryptUpdate(context, nil, &written, associated, CInt(associated.count)) == 1
                && EVP_DecryptUpdate(context, out, &written, bytes, CInt(count)) == 1
                && Int(written) == count
                && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, CInt(tag.count), &tag) == 1
            guard isReady else { throw .failed("AES-256-GCM") }
            isWhole = EVP_DecryptFinal_ex(context, out.map { $0 + count }, &written) == 1
            return count
        }
        // A wrong tag leaves an entry in OpenSSL's error queue. This thread's next call would report it.
        ERR_clear_error()
        return isWhole ? text : nil
    }

    /// An empty buffer has no address, and OpenSSL gives a null pointer another meaning.
    private static func bytes(_ buffer: UnsafeRawBufferPointer) -> UnsafePointer<UInt8> {
        (buffer.baseAddress ?? UnsafeRawPointer(bitPattern: 1)!).assumingMemoryBound(to: UInt8.self)
    }
}
