import LanyardRequestPath

/// Limits of an operator listener: for each connection, and for their number. They are independent of the request path's limits.
protocol OperatorLimits: Sendable {
    /// Open connections. Beyond it the connection that has waited longest for its client is closed.
    /// A connection with a running call is never closed for another.
    var connectionsMax: Int { get }
    /// Connections beyond `connectionsMax` that get a 503. Further ones are closed without a response.
    var rejectionsMax: Int { get }
    /// A whole head, from its first byte. The first head of a connection: from accept.
    var headTimeout: Duration { get }
    /// A kept connection without a byte.
    var idleTimeout: Duration { get }
    /// A client that reads no byte of a response.
    var writeTimeout: Duration { get }
    /// After the last response of a connection. Input in this time is read and discarded.
    var lingerTimeout: Duration { get }
    var head: HeadLimits { get }
}

extension OperatorLimits {
    var rejectionsMax: Int { 16 }
}

/// Limits of the health listener.
package struct HealthLimits: OperatorLimits, Equatable {
    package var connectionsMax = 64
    package var headTimeout = Duration.seconds(5)
    package var idleTimeout = Duration.seconds(60)
    package var writeTimeout = Duration.seconds(10)
    package var lingerTimeout = Duration.seconds(2)
    package var head = HeadLimits(
        startLineBytesMax: 2 << 10, fieldLineBytesMax: 4 << 10, sectionBytesMax: 8 << 10, fieldsMax: 64)

    package init() {}
}

/// Limits of the admin listener.
package struct AdminLimits: OperatorLimits, Equatable {
    package var connectionsMax = 32
    /// Calls at once that wait for an identity service; 503 `overloaded` beyond. The other connections stay free for calls that do not
    /// wait, such as status and logout.
    package var waitingCallsMax = 24
    package var headTimeout = Duration.seconds(5)
    /// From the end of the head to the end of the body.
    package var bodyTimeout = Duration.seconds(10)
    package var idleTimeout = Duration.seconds(60)
    package var writeTimeout = Duration.seconds(10)
    package var lingerTimeout = Duration.seconds(2)
    /// Bytes of a body; 413 beyond.
    package var bodyBytesMax = 64 << 10
    package var head = HeadLimits(
        startLineBytesMax: 2 << 10, fieldLineBytesMax: 4 << 10, sectionBytesMax: 8 << 10, fieldsMax: 64)

    package init() {}
}
