/// Why no complete answer came.
struct CurlError: Error, Equatable, Sendable {
    enum Kind: Equatable, Sendable {
        case timedOut
        /// The name was not found, or nobody accepts connections.
        case unreachable
        /// The other side's certificate is not to be trusted: somebody may stand in between.
        case untrusted
        /// TLS was not agreed on: no TLS at that port, no version or cipher in common, a client certificate that is missing, a handshake that broke.
        case handshake
        /// Plain http would have left this machine, and the identity is configured on loopback. Nothing was dialled.
        case prohibited
        /// The answer passed our size limit.
        case tooLarge
        /// The connection ended or broke in the middle, or what came is not HTTP.
        case broken
        /// We are stopping.
        case stopped
        /// Our own doing: out of memory, a certificate file that cannot be read.
        case local
    }

    /// Ended by `CurlMulti.stop`.
    static func stopping(requestSent: Bool) -> CurlError {
        CurlError(kind: .stopped, requestSent: requestSent, message: "Lanyard is stopping")
    }

    var kind: Kind
    /// Some of the request has left, so the service may have carried it out.
    var requestSent: Bool
    /// The status, if a head came before the end.
    var status: Int?
    /// Plain words; no secret and no byte of an answer.
    var message: String
}
