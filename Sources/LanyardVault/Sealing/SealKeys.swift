import COpenSSL
import Glibc
import LanyardFoundations

/// Key derivation: HKDF-SHA256 (RFC 5869) and scrypt (RFC 7914), in wiped memory.
enum SealKeys {
    /// Bytes of an AES-256 key, and of a key that is derived from a passphrase.
    static let keyByteCount = 32
    /// In bytes. OpenSSL refuses N = 2^15, r = 8 under its default limit.
    private static let scryptBytesMax: UInt64 = 64 << 20
    private static let keyIDSalt = Array("lanyard store key id".utf8)
    private static let keyIDLabel = Array("lanyard key id".utf8)
    private static let fileKeyLabel = Array("lanyard store file key".utf8)
    private static let recordKeyLabel = Array("lanyard store record key".utf8)
    private static let checkKeyLabel = Array("lanyard store check key".utf8)

    /// Identifies a key and reveals nothing else about it. GCM alone could not distinguish a wrong key from a damaged file.
    static func keyID(of secret: Secret) throws(SealingError) -> [UInt8] {
        try derive(from: secret, salt: keyIDSalt, label: keyIDLabel).withBytes { key in
            Array(key.prefix(SealHeader.keyIDByteCount))
        }
    }

    /// The key of one file. `salt` is new on each write, so no nonce is used twice under one key.
    static func fileKey(of secret: Secret, salt: [UInt8]) throws(SealingError) -> Secret {
        try derive(from: secret, salt: salt, label: fileKeyLabel)
    }

    /// The keys of one file of format 2: of its records, and of the checks of their headers.
    static func recordKeys(
        of secret: Secret, salt: [UInt8]
    ) throws(SealingError) -> (records: Secret, checks: Secret) {
        (
            try derive(from: secret, salt: salt, label: recordKeyLabel),
            try derive(from: secret, salt: salt, label: checkKeyLabel)
        )
    }

    /// HKDF for an output of one block: T(1) = HMAC(HMAC(salt, secret), label | 0x01).
    static func derive(from secret: Secret, salt: [UInt8], label: [UInt8]) throws(SealingError) -> Secret {
        let extracted = try secret.withBytes { bytes throws(SealingError) in
            try salt.withUnsafeBytes { key in Result { () throws(SealingError) in try hmac(key: key, bytes) } }.get()
        }
        return try extracted.withBytes { key throws(SealingError) in
            try (label + [1]).withUnsafeBytes { text in
                Result { () throws(SealingError) in try hmac(key: key, text) }
            }.get()
        }
    }

    private static func hmac(
        key: UnsafeRawBufferPointer, _ text: UnsafeRawBufferPointer
    ) throws(SealingError) -> Secret {
        ERR_clear_error()
        return try Secret(capacity: KeyedHash.byteCount) { room throws(SealingError) in
            guard KeyedHash.write(text, key: key, into: room) else { throw .failed("HMAC") }
            return KeyedHash.byteCount
        }
    }

    /// About 100 ms and 32 MiB.
    static func stretch(_ passphrase: Secret, _ scrypt: SealHeader.Scrypt) throws(SealingError) -> Secret {
        ERR_clear_error()
        return try Secret(capacity: keyByteCount) { room throws(SealingError) in
            let made = passphrase.withBytes { bytes in
                EVP_PBE_scrypt(
                    bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count, scrypt.salt,
                    scrypt.salt.count, 1 << UInt64(scrypt.costLog2), UInt64(scrypt.blockSize),
                    UInt64(scrypt.parallelism), scryptBytesMax,
                    room.baseAddress?.assumingMemoryBound(to: UInt8.self), room.count)
            }
            guard made == 1 else { throw .failed("scrypt") }
            return keyByteCount
        }
    }
}
