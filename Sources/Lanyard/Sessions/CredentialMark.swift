/// A keyed hash of a credential. It tells only whether a credential is the one that was refused.
package struct CredentialFingerprint: Equatable, Sendable {
    /// HMAC-SHA256 under the store's own random key: 32 bytes. It reveals no secret without that key.
    package let bytes: [UInt8]
    /// The service's `error_code` that came with the refusal.
    package var code: String?

    package init(bytes: [UInt8], code: String? = nil) {
        self.bytes = bytes
        self.code = code
    }

    /// Whether both belong to one credential.
    package func isSame(as other: CredentialFingerprint?) -> Bool { bytes == other?.bytes }
}
