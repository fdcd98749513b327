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
