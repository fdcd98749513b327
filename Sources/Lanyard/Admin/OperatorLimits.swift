/// What an operator listener grants each connection, and how many there may be: apart from everything of the request path.
protocol OperatorLimits: Sendable {
    /// Beyond it the connection that has waited longest for a request, or for its client to read, makes room; one whose call is being
    /// carried out never does.
    var connectionsMax: Int { get }
    /// Connections beyond it that are told so (503), rather than cut off; those beyond these are merely closed.
    var rejectionsMax: Int { get }
    /// A whole head, from the first byte (the first from accept).
    var headTimeout: Duration { get }
    /// A kept connection without a byte.
    var idleTimeout: Duration { get }
    /// A client that takes no byte of an answer.
    var writeTimeout: Duration { get }
    /// After the last answer of a connection: what still comes is read and thrown away.
    var lingerTimeout: Duration { get }
    var head: HeadLimits { get }
}

extension OperatorLimits {
    var rejectionsMax: Int { 16 }
}
