/// How a message's body ends (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// There is none.
    case none
    /// This many bytes; 0 is a stated `Content-Length: 0`.
    case length(Int)
    /// The chunked coding.
    case chunked
    /// The end of the connection; responses only.
    case untilClose
}
