import COpenSSL

/// HMAC-SHA256 (RFC 2104): shows whether two secrets are equal without keeping either of them.
package enum KeyedHash {
    /// 32 random bytes.
    package static func newKey() -> Secret {
        Secret(capacity: 32) { room in
            precondition(
                RAND_bytes(room.baseAddress?.assumingMemoryBound(to: UInt8.self), 32) == 1, "no random bytes available")
            return 32
        }
    }

    /// 32 bytes. Without the key they reveal nothing about `bytes`.
    package static func sha256(_ bytes: UnsafeRawBufferPointer, key: Secret) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: 32) { digest, count in
            key.withBytes { key in
                _ = HMAC(
                    EVP_sha256(), key.baseAddress, CInt(key.count),
                    bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count, digest.baseAddress, nil)
            }
            count = 32
        }
    }
}
