import CLanyard.OpenSSL
import Foundation

/// An incremental SHA-256, for bodies that are not kept.
final class RunningDigest {
    private let context = EVP_MD_CTX_new()

    init() { EVP_DigestInit_ex(context, EVP_sha256(), nil) }

    func update(_ data: Data) { data.withUnsafeBytes { _ = EVP_DigestUpdate(context, $0.baseAddress, $0.count) } }

    /// Finishes the digest. Returns it in lower-case hex.
    func hex() -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        EVP_DigestFinal_ex(context, &digest, nil)
        return Identifiers.hex(digest)
    }

    deinit { EVP_MD_CTX_free(context) }
}
