/// How a message's body ends (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// No body.
    case none
    /// This many bytes; 0 is a `Content-Length: 0`.
    case length(Int)
    /// The chunked coding.
    case chunked
    /// The body is delimited by the close of the connection; responses only.
    case untilClose
}
