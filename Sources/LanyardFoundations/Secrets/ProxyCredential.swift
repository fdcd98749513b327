/// The credential for a proxy in a file: `user:password` on one line (RFC 7617 §2). One rule for `run` and `check`.
package enum ProxyCredential {
    /// Bytes of the longest one. A head has room for it in Base64.
    package static let bytesMax = 4 << 10

    /// The value of `Proxy-Authorization` for the content of a file.
    ///
    /// - Throws: `.empty`, or `.unfit` with what is wrong with the content, by the operator's fault.
    package static func value(of content: Secret) throws(SecretFile.ReadError) -> Secret {
        let pair = SecretText.text(of: content)
        guard pair.count > 0 else { throw .empty }
        guard pair.count <= bytesMax else { throw .unfit("is larger than 4 KiB; write user:password alone into it") }
        if let finding = pair.withBytes({ finding(in: $0) }) { throw .unfit(finding) }
        var value = SecretBuffer(capacity: pair.count * 2 + 16)
        value.append("Basic ")
        pair.withBytes { Base64.encode($0, into: &value) }
        return value.seal()
    }

    /// It names a kind of byte and its place, never a byte of the secret.
    private static func finding(in bytes: UnsafeRawBufferPointer) -> String? {
        if let place = bytes.firstIndex(where: { $0 < 0x20 || $0 == 0x7f }) {
            return
                "has a line end or another control character at byte \(place): write user:password on one line into it"
        }
        // The first colon ends the user.
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), colon > 0 else {
            return "does not hold user:password: write the user, a colon and the password on one line into it"
        }
        return nil
    }
}
