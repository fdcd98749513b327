/// A secret in a file that Lanyard sends in a field as it is written: the token of a `static` identity, such as a key with `|`, `,` or `:`
/// (RFC 9110 §5.5). One rule for `run` and `check`.
///
/// Tokens that identity services issue are b64tokens, by a rule of their own (security.md T8).
package enum FieldValueSecret {
    /// Bytes of the longest one: the most that a request can carry upstream.
    package static let bytesMax = 32 << 10

    /// The value in the content of a file: one word of visible ASCII (0x21 to 0x7E), without what stands around it.
    ///
    /// - Throws: `.empty`, or what is wrong with the content.
    package static func value(of content: Secret) throws(SecretFile.ReadError) -> Secret {
        let value = SecretText.token(in: content)
        guard value.count > 0 else { throw .empty }
        guard value.isVisibleASCII else {
            let finding = SecretText.finding(in: value, as: .token).map { "\($0): it " } ?? ""
            throw .unfit(finding + "does not hold a token: one word of visible ASCII on one line")
        }
        guard value.count <= bytesMax else {
            throw .unfit("is larger than 32 KiB; a token has at most that many bytes")
        }
        return value
    }
}
