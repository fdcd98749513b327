/// A point on the boot clock together with its boot: the form of an `Instant` that may be stored.
package struct BootInstant: Equatable, Sendable {
    /// `/proc/sys/kernel/random/boot_id`; empty if it cannot be read. An empty one equals no boot.
    package var boot: String
    package var instant: Instant

    package init(boot: String, instant: Instant) {
        self.boot = boot
        self.instant = instant
    }
}
