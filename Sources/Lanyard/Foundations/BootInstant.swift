/// A point on the boot clock that can be told from one of another boot: what may be stored of an `Instant`.
package struct BootInstant: Equatable, Sendable {
    /// `/proc/sys/kernel/random/boot_id`; empty if it cannot be read, which equals no boot.
    package var boot: String
    package var instant: Instant

    package init(boot: String, instant: Instant) {
        self.boot = boot
        self.instant = instant
    }
}
