/// A secret in a file that Lanyard sends in a field as it is written: the token of a `static` identity, such as a key with `|`, `,` or `:`
/// (RFC 9110 §5.5), and the value of a field of token calls or of a route's `set_headers`. One rule for `run` and `check`.
///
/// Tokens that identity services issue are b64tokens, by a rule of their own (security.md T8).
package enum FieldValueSecret {
    /// What the field holds.
    package enum Form: Sendable {
        /// One word of visible ASCII (0x21 to 0x7E).
        case token
        /// One line of visible ASCII and blanks.
        case line
    }

    /// Bytes of the longest value: the most that a request can carry upstream.
    package static let bytesMax = 32 << 10

    /// The value in the content of a file, without what stands around it.
    ///
    /// - Throws: `.empty`, or what is wrong with the content.
    package static func value(of content: Secret, as form: Form = .token) throws(SecretFile.ReadError) -> Secret {
        let value = SecretText.token(in: content)
        guard value.count > 0 else { throw .empty }
        switch form {
        case .token:
            guard value.isVisibleASCII else {
                let finding = SecretText.finding(in: value, as: .token).map { "\($0): it " } ?? ""
                throw .unfit(finding + "does not hold a token: one word of visible ASCII on one line")
            }
            guard value.count <= bytesMax else {
                throw .unfit("is larger than 32 KiB; a token has at most that many bytes")
            }
        case .line:
            if let finding = value.withBytes({ lineFinding(in: $0) }) {
                throw .unfit("\(finding): it does not hold the value of a field: one line of visible ASCII")
            }
            guard value.count <= bytesMax else {
                throw .unfit("is larger than 32 KiB; the value of a field has at most that many bytes")
            }
        }
        return value
    }

    /// The first byte that no field value has. It names a kind of byte and its place, never a byte of the secret.
    private static func lineFinding(in bytes: UnsafeRawBufferPointer) -> String? {
        guard let place = bytes.firstIndex(where: { !(0x20..<0x7f ~= $0) }) else { return nil }
        return switch bytes[place] {
        case UInt8(ascii: "\n"), UInt8(ascii: "\r"): "has more than one line"
        case 0: "has a NUL byte at byte \(place)"
        case 0x80...: "has a character at byte \(place) that is not ASCII"
        default: "has a control character at byte \(place)"
        }
    }
}
