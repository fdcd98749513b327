import COpenSSL

/// A running SHA-256, for bodies that are too large to keep.
package final class SHA256Digest {
    private let context = EVP_MD_CTX_new()

    /// The digest of nothing yet.
    package init() { EVP_DigestInit_ex(context, EVP_sha256(), nil) }

    /// Takes in more bytes.
    package func update(_ bytes: UnsafeRawBufferPointer) { EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) }

    /// Ends the run: the digest in lower-case hex.
    package func hex() -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        EVP_DigestFinal_ex(context, &digest, nil)
        return digest.map { byte in
            let text = String(byte, radix: 16)
            return text.count == 1 ? "0" + text : text
        }.joined()
    }

    /// The digest of `bytes` in one go.
    package static func hex(of bytes: [UInt8]) -> String {
        let digest = SHA256Digest()
        bytes.withUnsafeBytes(digest.update)
        return digest.hex()
    }

    deinit { EVP_MD_CTX_free(context) }
}
