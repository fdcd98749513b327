/// What a client's connection is doing. What is known of a request is the exchange's.
enum ConnectionState {
    /// The TLS handshake is not complete. Next: `waiting`, or `lingering` behind an alert.
    case handshake
    /// No byte of a request has arrived. Next: `head` or `exchange`.
    case waiting
    /// Part of a head has arrived. Next: `exchange`; if the head cannot be read `flushing`.
    case head
    /// The exchange has a request. Next: `waiting`, or `flushing` if the connection ends behind its response.
    case exchange
    /// The client speaks HTTP/2: its streams have the requests, if there are any. Next: `flushing` behind a GOAWAY, or `closed`.
    case multiplexed
    /// The last response is queued for the client. Next: `lingering`.
    case flushing
    /// Writing is shut down; further input is discarded (http-connections.md 9.8). Next: `closed`.
    case lingering
    case closed
}

extension ConnectionState {
    /// No request is being processed, and one may come.
    var isWaitingForRequest: Bool {
        switch self {
        case .handshake, .waiting, .head: true
        case .exchange, .multiplexed, .flushing, .lingering, .closed: false
        }
    }

    /// How the connection of a client ends that would not be admitted any more.
    enum AdmissionEnd {
        case atOnce
        /// Behind the response to the request in progress; a tunnel at once.
        case byExchange
        /// Behind the bytes that are queued for the client: they belong to a response that counts as sent.
        case behindQueue
        /// It was never admitted, or is about to end.
        case none
    }

    /// - Parameters:
    ///   - isSecured: a TLS handshake has begun.
    ///   - isFlushed: nothing is queued for the client.
    func admissionEnd(isSecured: Bool, isFlushed: Bool) -> AdmissionEnd {
        switch self {
        case .handshake: isSecured ? .atOnce : .none
        case .waiting: isFlushed ? .atOnce : .behindQueue
        case .head: .atOnce
        case .exchange, .multiplexed: .byExchange
        case .flushing: .behindQueue
        case .lingering, .closed: .none
        }
    }
}
