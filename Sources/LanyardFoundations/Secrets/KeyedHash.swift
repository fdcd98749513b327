import COpenSSL

/// HMAC-SHA256 (RFC 2104). It shows whether two secrets are equal without keeping either of them, and derives keys.
package enum KeyedHash {
    /// Bytes of a hash.
    package static let byteCount = 32

    /// 32 random bytes.
    package static func newKey() -> Secret {
        Secret(capacity: 32) { room in
            precondition(
                RAND_bytes(room.baseAddress?.assumingMemoryBound(to: UInt8.self), 32) == 1, "no random bytes available")
            return 32
        }
    }

    /// The hash. Without the key it reveals nothing about `bytes`.
    package static func sha256(_ bytes: UnsafeRawBufferPointer, key: Secret) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: byteCount) { digest, count in
            let isDone = key.withBytes { write(bytes, key: $0, into: UnsafeMutableRawBufferPointer(digest)) }
            precondition(isDone, "OpenSSL cannot compute HMAC-SHA256")
            count = byteCount
        }
    }

    /// Writes the hash to the start of `room`.
    ///
    /// - Returns: false if OpenSSL failed: memory is short, or the library is damaged.
    package static func write(
        _ bytes: UnsafeRawBufferPointer, key: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer
    ) -> Bool {
        HMAC(
            EVP_sha256(), key.baseAddress, CInt(key.count), bytes.baseAddress?.assumingMemoryBound(to: UInt8.self),
            bytes.count, room.baseAddress?.assumingMemoryBound(to: UInt8.self), nil) != nil
    }
}
