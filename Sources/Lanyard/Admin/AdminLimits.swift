/// What the admin listener grants.
package struct AdminLimits: OperatorLimits, Equatable {
    package var connectionsMax = 32
    /// Calls at once that wait for an identity service; 503 `overloaded` beyond. The other places are kept for those that do not wait, so
    /// that whoever looks or logs somebody out gets in.
    package var waitingCallsMax = 24
    package var headTimeout = Duration.seconds(5)
    /// A whole body, from the end of its head.
    package var bodyTimeout = Duration.seconds(10)
    package var idleTimeout = Duration.seconds(60)
    package var writeTimeout = Duration.seconds(10)
    package var lingerTimeout = Duration.seconds(2)
    /// 413 beyond.
    package var bodyBytesMax = 64 << 10
    package var head = HeadLimits(
        startLineBytesMax: 2 << 10, fieldLineBytesMax: 4 << 10, sectionBytesMax: 8 << 10, fieldsMax: 64)

    package init() {}
}
