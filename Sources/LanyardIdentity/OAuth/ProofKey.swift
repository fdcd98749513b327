import COpenSSL
import LanyardFoundations

/// A proof key for a code (PKCE, RFC 7636), always with S256.
struct ProofKey: Sendable {
    static let method = "S256"

    /// 43 characters, which only the token call sends.
    let verifier: Secret
    /// What the authorization request sends.
    let challenge: String

    init() { self.init(verifier: Self.randomText()) }

    init(verifier: Secret) {
        self.verifier = verifier
        challenge = verifier.withBytes { bytes in
            let digest = [UInt8](unsafeUninitializedCapacity: 32) { room, count in
                var written: CUnsignedInt = 0
                let isDone = EVP_Digest(bytes.baseAddress, bytes.count, room.baseAddress, &written, EVP_sha256(), nil)
                precondition(isDone == 1, "OpenSSL cannot compute SHA-256")
                count = 32
            }
            return digest.withUnsafeBytes { Base64.urlText($0) }
        }
    }

    /// 43 characters of 32 random bytes.
    static func randomText() -> Secret {
        var text = SecretBuffer(capacity: 44)
        KeyedHash.newKey().withBytes { Base64.encodeURL($0, into: &text) }
        return text.seal()
    }
}
