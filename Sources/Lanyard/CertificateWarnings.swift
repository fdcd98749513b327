import LanyardAdmin
import LanyardFoundations
import Logging

/// Which warnings before the end of certificates are due: 14, 7 and 1 days before it, and at it. Pure.
struct CertificateSteps {
    /// The times before the end, the longest first.
    private static let steps = [14, 7, 1, 0].map { Duration.seconds($0 * 86_400) }

    /// What is known of a certificate that has not been seen for so long is forgotten.
    private static let memory = Duration.seconds(30 * 86_400)

    /// One certificate. Several servers of one upstream have several, each of which is shown by turns.
    private struct Key: Hashable {
        let owner: String
        let expiresAt: WallTime
    }

    private struct Known {
        var stepCount: Int
        var seenAt: WallTime
    }

    private var known: [Key: Known] = [:]

    /// Certificates for which another step has passed. A renewed one begins anew.
    mutating func collect(
        _ certificates: [ProgramConditions.Certificate], at now: WallTime
    ) -> [ProgramConditions.Certificate] {
        var due: [ProgramConditions.Certificate] = []
        for certificate in certificates {
            let key = Key(owner: certificate.owner, expiresAt: certificate.expiresAt)
            let passed = Self.steps.prefix { certificate.expiresAt - now <= $0 }.count
            let before = known[key]?.stepCount ?? 0
            if passed > before { due.append(certificate) }
            known[key] = Known(stepCount: max(passed, before), seenAt: now)
        }
        known = known.filter { now - $0.value.seenAt < Self.memory }
        return due
    }
}

/// Logs the coming end of certificates: of listeners, of clients that Lanyard is, of upstreams and of identity services. Belongs to the
/// queue of its loop.
final class CertificateWarnings: Watcher, @unchecked Sendable {
    private static let interval = Duration.seconds(3600)
    /// By then a first request has often met the upstream.
    private static let firstInterval = Duration.seconds(60)

    private let loop: EventLoop
    private let certificates: @Sendable () -> [ProgramConditions.Certificate]
    private let log: Logger
    private var steps = CertificateSteps()
    private lazy var deadline = Deadline(of: self)

    init(on loop: EventLoop, log: Logger, _ certificates: @escaping @Sendable () -> [ProgramConditions.Certificate]) {
        self.loop = loop
        self.log = log
        self.certificates = certificates
    }

    func start() {
        loop.post { [self] in
            warn()
            loop.set(deadline, at: loop.now + Self.firstInterval)
        }
    }

    func stop() { loop.post { [self] in loop.drop(deadline) } }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        warn()
        loop.set(deadline, at: loop.now + Self.interval)
    }

    private func warn() {
        let now = WallTime.now
        for certificate in steps.collect(certificates(), at: now) {
            let seconds = Int(certificate.expiresAt.seconds - now.seconds)
            var metadata: Logger.Metadata = [
                "event": "certificate.ends", "certificate": .string(certificate.owner),
                "expires_at": .string(Timestamp.text(certificate.expiresAt)),
                "hours_left": .stringConvertible(max(seconds, 0) / 3600),
            ]
            if let file = certificate.file { metadata["file"] = .string(file) }
            let remedy =
                certificate.file.map { "renew \($0), which is read again by itself" } ?? "have its owner renew it"
            let text = seconds > 0 ? "a certificate ends soon" : "a certificate has ended"
            log.log(level: seconds > 86_400 ? .warning : .error, "\(text): \(remedy)", metadata: metadata)
        }
    }
}
