import CLanyard.OpenSSL

/// The seal of architecture.md 4.7: AES-256-GCM under a key of the file's own. It authenticates the header, and a key id names the key.
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
            text, key: try SealKeys.fileKey(of: key, salt: header.salt), nonce: header.nonce, into: &file)
        return file
    }

    package func open(_ sealed: UnsafeRawBufferPointer) throws(SealingError) -> Secret {
        let header = try SealHeader(of: sealed)
        let key = try key(for: header)
        guard try SealKeys.keyID(of: key) == header.keyID else { throw .wrongKey }
        let text = try SealCipher().decrypt(
            sealed, header: SealHeader.byteCount, key: try SealKeys.fileKey(of: key, salt: header.salt),
            nonce: header.nonce)
        guard let text else { throw .damaged(SealHeader.notAsWritten) }
        return text
    }

    // MARK: Keys

    private func key(for header: SealHeader) throws(SealingError) -> Secret {
        switch (secret.kind, header.scrypt) {
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
