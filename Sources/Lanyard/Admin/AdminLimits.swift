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
