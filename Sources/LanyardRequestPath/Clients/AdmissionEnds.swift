import LanyardFoundations

/// Clients whose listener would not admit them any more, and whose exchange still runs: it ends at an instant at the latest.
///
/// Otherwise a response of hours would outlast the authority that admitted its client. The deadline is set only while there are such
/// clients. Belongs to the shard's queue.
final class AdmissionEnds: Watcher, @unchecked Sendable {
    private let loop: EventLoop
    private var clients: [ObjectIdentifier: (client: ClientConnection, end: Instant)] = [:]
    private lazy var deadline = Deadline(of: self)

    init(loop: EventLoop) {
        self.loop = loop
        super.init()
    }

    /// An instant that a client already has is not put off.
    func add(_ added: [ClientConnection], until end: Instant) {
        loop.assertIsCurrent()
        for client in added where clients[ObjectIdentifier(client)] == nil {
            clients[ObjectIdentifier(client)] = (client, end)
        }
        setDeadline()
    }

    /// The client's connection has ended.
    func remove(_ client: ClientConnection) {
        loop.assertIsCurrent()
        clients[ObjectIdentifier(client)] = nil
    }

    override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        let now = loop.now
        for (client, end) in Array(clients.values) where end <= now { client.abandonDistrusted() }
        setDeadline()
    }

    /// Before the loop ends.
    func stop() {
        loop.assertIsCurrent()
        loop.drop(deadline)
        clients = [:]
    }

    private func setDeadline() { loop.set(deadline, at: clients.values.map(\.end).min() ?? .never) }
}
