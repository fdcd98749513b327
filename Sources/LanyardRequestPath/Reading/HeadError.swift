/// Why a message cannot be read. For a request each kind has a status and a problem type. For a response all mean 502,
/// and the upstream connection is closed.
///
/// A type of its own, because the reader does not know whose message it reads: `ErrorProblems` has the problems of both.
package struct HeadError: Error, Equatable, Sendable {
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
    package let message: StaticString

    package init(_ kind: Kind, _ message: StaticString) {
        self.kind = kind
        self.message = message
    }

    package static func malformed(_ message: StaticString) -> HeadError { HeadError(.malformed, message) }

    package static func == (left: HeadError, right: HeadError) -> Bool {
        left.kind == right.kind && left.message.description == right.message.description
    }
}
