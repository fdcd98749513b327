/// Why a response that had begun was not relayed to its end. The client sees that it was cut off (http-forwarding.md 13.5).
package enum ResponseCut: Equatable, Sendable {
    /// The upstream's connection has ended, or its bytes are malformed.
    case upstream
    /// No byte came for `timeouts.response_idle`.
    case idle
    /// No memory was left to buffer a part of it.
    case memory
    /// The rest of the request's body is malformed.
    case request
    /// `close_streams_on: [logout]`.
    case logout
    /// `close_streams_on: [switch]`.
    case switched

    /// The key of the configuration that has cut it; nil: none has.
    var key: String? {
        switch self {
        case .upstream, .request: nil
        case .idle: "routes[].timeouts.response_idle"
        case .memory: "limits.buffer_bytes_max"
        case .logout, .switched: "routes[].close_streams_on"
        }
    }
}
