import LanyardFoundations

/// The TLS handshakes of one shard's clients: how many are in progress, and whose turn it is.
///
/// A step of a handshake may sign with the listener's key, which costs as much as ten requests or more. So few steps are made in one turn
/// of the loop: thousands of handshakes delay the requests of other clients by a few steps, and one another by their number. A session
/// has about 50 KiB while its handshake is in progress, so their number has a limit (http-connections.md 20.5). Belongs to the shard's
/// queue.
final class HandshakeQueue: Watcher, @unchecked Sendable {
    /// Steps in one turn of the loop.
    private static let stepsMax = 2
    /// Sessions whose handshake is in progress, of one shard: `limits.handshakes_max`.
    var sessionsMax: Int

    private let loop: EventLoop
    /// Clients from which something has come and that have no session yet, in that order.
    private var beginning = Turns()
    /// Clients with a session from which something more has come, in that order.
    private var continuing = Turns()
    /// Clients with a session, in the order in which their handshakes have begun.
    private var inProgress: [ClientConnection] = []
    private var isDeferred = false

    init(loop: EventLoop, sessionsMax: Int) {
        self.loop = loop
        self.sessionsMax = sessionsMax
        super.init()
    }

    /// The client's handshake gets its turn, once. A client that closes before loses it.
    func add(_ client: ClientConnection) {
        loop.assertIsCurrent()
        guard !client.membership.isQueuedForHandshake else { return }
        client.membership.isQueuedForHandshake = true
        if client.stream.isSecured { continuing.append(client) } else { beginning.append(client) }
        deferSteps()
    }

    /// Only a permit calls this, when it goes.
    fileprivate func end(_ client: ObjectIdentifier) {
        loop.assertIsCurrent()
        if let place = inProgress.firstIndex(where: { ObjectIdentifier($0) == client }) { inProgress.remove(at: place) }
    }

    /// Handshakes that continue and handshakes that begin have their turns alternately. In one queue, each of thousands of clients would
    /// begin before the first one is complete.
    override func resume() {
        loop.assertIsCurrent()
        isDeferred = false
        var steps = 0
        while steps < Self.stepsMax {
            let begins = (steps > 0 && !beginning.isEmpty || continuing.isEmpty) && hasRoom
            guard let client = begins ? nextBeginning() : continuing.next() else { break }
            client.membership.isQueuedForHandshake = false
            guard client.state == .handshake else { continue }
            steps += 1
            client.continueHandshake()
        }
        if !beginning.isEmpty || !continuing.isEmpty { deferSteps() }
    }

    /// Another handshake may begin. At the limit this needs a client that Lanyard waits for. A client that waits for Lanyard is not closed.
    private var hasRoom: Bool { inProgress.count < sessionsMax || oldestWithoutPendingInput != nil }

    /// The client whose handshake has begun first, of those without pending input.
    private var oldestWithoutPendingInput: ClientConnection? {
        inProgress.first { !$0.membership.isQueuedForHandshake }
    }

    /// The next client that begins. At the limit another one is closed for it.
    private func nextBeginning() -> ClientConnection? {
        guard let client = beginning.next() else { return nil }
        guard client.state == .handshake else { return client }
        if inProgress.count >= sessionsMax { oldestWithoutPendingInput?.handleHandshakeFailure(.tooManyHandshakes) }
        inProgress.append(client)
        client.membership.handshakePermit = HandshakePermit(of: client, in: self)
        return client
    }

    private func deferSteps() {
        guard !isDeferred else { return }
        isDeferred = true
        loop.resumeLater(self)
    }
}

/// One of a shard's handshakes in progress, held by its client until the handshake or the connection has ended.
struct HandshakePermit: ~Copyable {
    private let client: ObjectIdentifier
    private let queue: HandshakeQueue

    /// The queue has listed the client.
    fileprivate init(of client: ClientConnection, in queue: HandshakeQueue) {
        (self.client, self.queue) = (ObjectIdentifier(client), queue)
    }

    deinit { queue.end(client) }
}

/// Clients in the order in which they have their turn.
private struct Turns {
    private var clients: [ClientConnection] = []
    /// The place of the first client in `clients`.
    private var first = 0

    var isEmpty: Bool { first == clients.count }

    mutating func append(_ client: ClientConnection) { clients.append(client) }

    mutating func next() -> ClientConnection? {
        guard !isEmpty else { return nil }
        let client = clients[first]
        first += 1
        if isEmpty {
            clients.removeAll(keepingCapacity: clients.count <= 256)
            first = 0
        } else if first >= 256, first * 2 >= clients.count {
            clients.removeFirst(first)
            first = 0
        }
        return client
    }
}
