import LanyardRequestPath

/// Limits of an operator listener: for each connection, and for their number. They are independent of the request path's limits.
package struct OperatorLimits: Equatable, Sendable {
    /// Open connections. Beyond it the connection that has waited longest for its client is closed.
    /// A connection with a running call is never closed for another.
    package var connectionsMax: Int
    /// Connections beyond `connectionsMax` that get a 503. Further ones are closed without a response.
    package var rejectionsMax = 16
    /// A whole head, from its first byte. The first head of a connection: from accept.
    package var headTimeout = Duration.seconds(5)
    /// A kept connection without a byte. Longer than the usual intervals of scrapes and probes (60 s, 120 s): if this side closed at
    /// that moment, a scrape would be lost.
    package var idleTimeout = Duration.seconds(130)
    /// A client that reads no byte of a response.
    package var writeTimeout = Duration.seconds(10)
    /// After the last response of a connection. Input in this time is read and discarded.
    package var lingerTimeout = Duration.seconds(2)
    /// Bytes of discarded input; the connection closes beyond.
    package var lingerBytesMax = 256 << 10
    /// Bytes and fields of a head.
    package var head = HeadLimits(
        startLineBytesMax: 2 << 10, fieldLineBytesMax: 4 << 10, sectionBytesMax: 8 << 10, fieldsMax: 64)

    /// For the health listener: probes and scrapers.
    package static let health = OperatorLimits(connectionsMax: 64)
    /// For the admin listener.
    package static let admin = OperatorLimits(connectionsMax: 32)
}

/// Limits of the admin listener: those of its connections, and those of its calls.
package struct AdminLimits: Equatable, Sendable {
    /// Of its connections.
    package var connections = OperatorLimits.admin
    /// Calls at once that wait for an identity service, of them two thirds of one identity; 503 `overloaded` beyond. The other
    /// connections stay free for calls that do not wait, such as status and logout.
    package var waitingCallsMax = 24
    /// From the end of the head to the end of the body.
    package var bodyTimeout = Duration.seconds(10)
    /// Bytes of a body; 413 beyond. A JWT or the payload of a custom function may have 1 MiB.
    package var bodyBytesMax = (1 << 20) + (64 << 10)
    /// The same for the arguments of a function.
    package var functionBodyBytesMax = 1 << 20

    package init() {}
}
