/// What the health listener grants each connection, and how many there may be: apart from everything of the request path.
package struct HealthLimits: Equatable, Sendable {
    /// Beyond it the connection that has waited longest for a request, or for its client to read, makes room.
    package var connectionsMax = 64
    /// A whole head, from the first byte (the first from accept).
    package var headTimeout = Duration.seconds(5)
    /// A kept connection without a byte.
    package var idleTimeout = Duration.seconds(60)
    /// A client that takes no byte of an answer.
    package var writeTimeout = Duration.seconds(10)
    /// After the last answer of a connection: what still comes is read and thrown away.
    package var lingerTimeout = Duration.seconds(2)
    package var head = HeadLimits(
        startLineBytesMax: 2 << 10, fieldLineBytesMax: 4 << 10, sectionBytesMax: 8 << 10, fieldsMax: 64)

    package init() {}
}
