/// Why bytes are not JSON that `JSONReader` accepts (RFC 8259, read strictly). Carries a position, never a byte of the text.
package struct JSONError: Error, Equatable, Sendable {
    package enum Kind: Equatable, Sendable {
        /// The bytes break the grammar, or something follows the value.
        case grammar
        /// The text ends inside the value.
        case endsEarly
        /// A string holds bytes that are not UTF-8, a bare control character, or half of a surrogate pair.
        case characters
        /// Objects and arrays nested deeper than the limit.
        case tooDeep
        /// An object names a member twice.
        case duplicateKey
    }

    package let kind: Kind
    /// Bytes before the position.
    package let offset: Int

    package init(_ kind: Kind, at offset: Int) {
        self.kind = kind
        self.offset = offset
    }
}
