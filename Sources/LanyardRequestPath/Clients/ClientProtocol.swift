/// The protocol of a client's connection, with what it has read.
enum ClientProtocol {
    case http1(HTTP1Receiver)
    case http2(HTTP2Receiver)
}

/// What an HTTP/1.1 connection knows of its requests. Their bytes are in the exchange's `RequestInput`.
struct HTTP1Receiver {
    /// The parse loop is running in a caller. A response that is sent in that time returns to it.
    fileprivate(set) var isParsing = false
    /// Requests of the connection so far.
    fileprivate(set) var requests: UInt32 = 0
}

extension ClientProtocol {
    /// The connection's parse loop is running in a caller.
    var isParsing: Bool {
        switch self {
        case .http1(let receiver): receiver.isParsing
        case .http2: false
        }
    }

    /// Requests of the connection so far.
    var requests: Int {
        switch self {
        case .http1(let receiver): Int(receiver.requests)
        case .http2(let receiver): receiver.requests
        }
    }

    /// nil: the client speaks HTTP/1.1.
    var http2: HTTP2Receiver? {
        switch self {
        case .http1: nil
        case .http2(let receiver): receiver
        }
    }

    /// Begins a parse loop. False if one is running in a caller.
    mutating func beginParsing() -> Bool {
        guard case .http1(var receiver) = self, !receiver.isParsing else { return false }
        receiver.isParsing = true
        self = .http1(receiver)
        return true
    }

    mutating func endParsing() {
        guard case .http1(var receiver) = self else { return }
        receiver.isParsing = false
        self = .http1(receiver)
    }

    /// Another request has come.
    mutating func countRequest() {
        guard case .http1(var receiver) = self else { return }
        receiver.requests &+= 1
        self = .http1(receiver)
    }
}
