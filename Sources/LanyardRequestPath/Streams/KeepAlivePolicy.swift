import LanyardFoundations
import LanyardSettings
import Synchronization

/// How the kernel probes the connections of all shards (`limits.keepalive_…`). A peer whose machine or network has gone
/// sends no end: without probes a stream to it that carries no bytes never ends.
///
/// From any thread, without a lock. A reload applies to connections that begin then.
package final class KeepAlivePolicy: Sendable {
    /// Seconds before the first probe (0: none), seconds between probes, and probes, in 16 bits each.
    private let packed: Atomic<UInt64>

    package init(_ settings: KeepAliveSettings = KeepAliveSettings()) { packed = Atomic(Self.pack(settings)) }

    package func set(_ settings: KeepAliveSettings) { packed.store(Self.pack(settings), ordering: .relaxed) }

    private static func pack(_ settings: KeepAliveSettings) -> UInt64 {
        func seconds(_ duration: Duration) -> UInt64 { UInt64((duration / .seconds(1)).rounded(.up)) & 0x7fff }
        let idle = settings.idle.map { max(seconds($0), 1) } ?? 0
        return idle << 32 | max(seconds(settings.interval), 1) << 16 | UInt64(settings.probesMax)
    }

    /// The times as they are now; nil: no probes.
    private var current: (idle: CInt, interval: CInt, probesMax: CInt)? {
        let value = packed.load(ordering: .relaxed)
        let idle = CInt(value >> 32)
        return idle == 0 ? nil : (idle, CInt(value >> 16 & 0xffff), CInt(value & 0xffff))
    }

    /// For a TCP socket. The connections of a listening one inherit it.
    package func apply(to descriptor: CInt) {
        guard let (idle, interval, probesMax) = current else { return Socket.endKeepAlive(descriptor) }
        Socket.setKeepAlive(descriptor, idle: idle, interval: interval, probesMax: probesMax)
    }

    /// For a TCP socket whose peer has ended its direction: it is probed each interval. The kernel of a peer that has
    /// closed its socket replies for a minute (`tcp_fin_timeout`), then with a reset.
    func probeOften(_ descriptor: CInt) {
        guard let (_, interval, probesMax) = current else { return }
        Socket.setKeepAlive(descriptor, idle: interval, interval: interval, probesMax: probesMax)
    }

    /// When a socket whose peer has ended its direction is examined again; nil: never.
    var examinationInterval: (first: Duration, next: Duration)? {
        current.map { (.seconds(Int($0.idle)), .seconds(Int($0.interval))) }
    }
}
