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
