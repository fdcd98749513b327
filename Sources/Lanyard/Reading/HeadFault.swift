/// Why a message was not understood. For a request each is a status and a problem type, for a response "502 drop".
package struct HeadFault: Error, Equatable, Sendable {
    package enum Kind: Sendable, CaseIterable {
        /// 400 `malformed-request`, close.
        case malformed
        /// 414 `uri-too-long`, close.
        case lineTooLong
        /// 431 `fields-too-large`, close.
        case fieldsTooLarge
        /// 501 `not-implemented`, close.
        case notImplemented
        /// 505 `version-not-supported`, close.
        case versionNotSupported
    }

    package let kind: Kind
    /// What is wrong and, where it helps, the rule: fixed text, never a byte of the message.
    package let words: StaticString

    package init(_ kind: Kind, _ words: StaticString) {
        self.kind = kind
        self.words = words
    }

    package static func malformed(_ words: StaticString) -> HeadFault { HeadFault(.malformed, words) }

    package static func == (left: HeadFault, right: HeadFault) -> Bool {
        left.kind == right.kind && left.words.description == right.words.description
    }
}
