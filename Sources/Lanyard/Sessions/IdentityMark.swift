/// A hash of what an identity's name stands for: kept beside what belongs to that identity, so that tokens of one service are never sent to
/// another which has got its name (changed `base_url` or `app_id`).
package struct IdentityFingerprint: Equatable, Sendable {
    /// SHA-256 under a fixed key: 32 bytes. No secret is in it.
    package let bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }

    /// Of what tells one service from another, such as kind, app and place.
    package init(of parts: [String]) {
        var key = SecretBuffer()
        var text = SecretBuffer()
        key.append("lanyard identity mark")
        // The lengths keep the parts apart.
        for part in parts { text.append("\(part.utf8.count) \(part) ") }
        let seal = key.seal()
        bytes = text.withBytes { KeyedHash.sha256($0, key: seal) }
    }
}
