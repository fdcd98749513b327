/// A hash of the service that an identity's name stands for. It is stored beside the tokens of that identity. If
/// `base_url` or `app_id` changes, tokens of the old service are never sent to the new one.
package struct IdentityFingerprint: Equatable, Sendable {
    /// SHA-256 under a fixed key: 32 bytes. It holds no secret.
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }

    /// Hashes the parts that distinguish one service from another, such as kind, app and address.
    package init(of parts: [String]) {
        var key = SecretBuffer()
        var text = SecretBuffer()
        key.append("lanyard identity mark")
        // The lengths separate the parts.
        for part in parts { text.append("\(part.utf8.count) \(part) ") }
        let seal = key.seal()
        bytes = text.withBytes { KeyedHash.sha256($0, key: seal) }
    }
}
