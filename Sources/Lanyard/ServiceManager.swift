import CLinux
import Glibc
import LanyardAdmin
import LanyardFoundations

/// Tells the service manager what the program does (sd_notify(3)): datagrams to the socket that `NOTIFY_SOCKET` names.
///
/// A manager that is gone or slow costs messages and nothing else: no call waits.
final class ServiceManager: Sendable {
    private let socket: OwnedDescriptor
    private let address: SocketAddress
    /// How often the manager expects a sign of life (`WatchdogSec=`); nil: it expects none.
    let watchdogInterval: Duration?

    /// nil: no manager listens, or its address is not usable.
    ///
    /// The variables are removed, so that no later child sends messages in this program's name. Call only while the process has one thread.
    init?() {
        let variables = ProcessEnvironment.all()
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] { unsetenv(name) }
        guard let place = variables["NOTIFY_SOCKET"], let address = SocketAddress(notifySocket: place) else {
            return nil
        }
        let kind = CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let raw = Glibc.socket(AF_UNIX, kind, 0)
        guard raw >= 0 else { return nil }
        socket = OwnedDescriptor(taking: raw)
        self.address = address
        watchdogInterval = Self.watchdogInterval(variables)
    }

    /// The variables may be meant for another process (sd_watchdog_enabled(3)).
    private static func watchdogInterval(_ variables: [String: String]) -> Duration? {
        if let pid = variables["WATCHDOG_PID"], pid != "\(getpid())" { return nil }
        guard let microseconds = variables["WATCHDOG_USEC"].flatMap({ Int64($0) }), microseconds > 0 else { return nil }
        return .microseconds(microseconds)
    }

    /// The listeners serve.
    func reportReady(_ status: String) { send("READY=1\nSTATUS=\(status)") }

    /// A reload begins; `reportReady` is its end. The time is that of `CLOCK_MONOTONIC`.
    func reportReload() { send("RELOADING=1\nMONOTONIC_USEC=\(lanyard_clock(CLOCK_MONOTONIC) / 1000)") }

    /// The drain begins.
    func reportStop() { send("STOPPING=1\nSTATUS=stopping") }

    /// One line for `systemctl status`.
    func report(_ status: String) { send("STATUS=\(status)") }

    /// A sign of life.
    func reportLife() { send("WATCHDOG=1") }

    /// From any thread.
    private func send(_ message: String) {
        var message = message
        message.withUTF8 { bytes in
            _ = address.withPointer {
                sendto(socket.raw, bytes.baseAddress, bytes.count, CInt(MSG_NOSIGNAL), $0, $1)
            }
        }
    }
}

extension SocketAddress {
    /// The address in `NOTIFY_SOCKET`: a path, or a name without a file that begins with `@` (unix(7)). Other kinds are for
    /// virtual machines.
    fileprivate init?(notifySocket place: String) {
        switch place.utf8.first {
        case UInt8(ascii: "/"): self.init(path: place)
        case UInt8(ascii: "@"): self.init(abstractName: String(place.dropFirst()))
        default: return nil
        }
    }
}

/// Reports the state of the program to the service manager, and gives the sign of life that its watchdog expects.
///
/// The sign of life is given as long as `/livez` would be 200: the sessions' queue has run work within 10 s. Belongs to the queue of its
/// loop.
final class ServiceManagerReports: Watcher, @unchecked Sendable {
    /// Without a watchdog the status line is looked at this often.
    private static let statusInterval = Duration.seconds(5)
    /// The shortest time between two signs of life: a time-out of a microsecond must not use up the CPU.
    private static let lifeIntervalMin = Duration.milliseconds(10)

    private let manager: ServiceManager
    private let loop: EventLoop
    private let snapshot: @Sendable () -> HealthSnapshot
    private let controlPlane: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let heartbeat = Heartbeat()
    private lazy var deadline = Deadline(of: self)
    /// Empty until the listeners serve.
    private var status = ""

    /// - Parameters:
    ///   - snapshot: never waits.
    ///   - controlPlane: posts a piece of work to the sessions' queue.
    init(
        to manager: ServiceManager, on loop: EventLoop, snapshot: @escaping @Sendable () -> HealthSnapshot,
        controlPlane: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
    ) {
        self.manager = manager
        self.loop = loop
        self.snapshot = snapshot
        self.controlPlane = controlPlane
        super.init()
    }

    /// The listeners serve. From any thread, once.
    func start() {
        loop.post { [self] in
            status = Self.status(snapshot())
            manager.reportReady(status)
            report()
        }
    }

    /// A reload begins. From any thread.
    func beginReload() {
        loop.post { [self] in if !status.isEmpty, !snapshot().isDraining { manager.reportReload() } }
    }

    /// The reload has ended, whatever its outcome. From any thread.
    func endReload() {
        loop.post { [self] in if !status.isEmpty, !snapshot().isDraining { manager.reportReady(status) } }
    }

    /// The drain begins. Signs of life continue until the program ends. From any thread.
    func beginDrain() { manager.reportStop() }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        report()
    }

    private func report() {
        var facts = snapshot()
        facts.heartbeatAge = heartbeat.age(at: .now)
        let heartbeat = heartbeat
        controlPlane { heartbeat.beat() }
        let line = Self.status(facts)
        if line != status, !facts.isDraining {
            status = line
            manager.report(line)
        }
        guard let interval = manager.watchdogInterval else {
            return loop.set(deadline, at: loop.now + Self.statusInterval)
        }
        if HealthReport(facts).isLive { manager.reportLife() }
        // Half of what is allowed, as sd_watchdog_enabled(3) recommends.
        loop.set(deadline, at: loop.now + max(min(interval / 2, Self.statusInterval), Self.lifeIntervalMin))
    }

    /// `serving; alice: token_valid, bob: login_required`. At most a few users are named.
    private static func status(_ facts: HealthSnapshot) -> String {
        let namedMax = 8
        let users = facts.users.prefix(namedMax).map { "\($0.name): \($0.reason)" }
        let more = facts.users.count > namedMax ? ["and \(facts.users.count - namedMax) more"] : []
        return users.isEmpty ? "serving" : "serving; " + (users + more).joined(separator: ", ")
    }
}
