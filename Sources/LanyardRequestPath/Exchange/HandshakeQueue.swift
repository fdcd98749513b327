import LanyardFoundations

/// The clients of one shard whose TLS handshake can go on, in the order in which something has come from them.
///
/// A step of a handshake may sign with the listener's key, which costs as much as ten requests or more. So few steps are made in one turn
/// of the loop: thousands of handshakes delay the requests of other clients by a few steps, and one another by their number
/// (http-rules.md 20.5). Belongs to the shard's queue.
final class HandshakeQueue: Watcher, @unchecked Sendable {
    /// Steps in one turn of the loop.
    private static let stepsMax = 2

    private let loop: EventLoop
    private var clients: [ClientConnection] = []
    /// The place of the first client in `clients`.
    private var first = 0
    private var isDeferred = false

    init(loop: EventLoop) {
        self.loop = loop
        super.init()
    }

    /// The client's handshake gets its turn, once. A client that closes before loses it.
    func add(_ client: ClientConnection) {
        guard !client.isQueuedForHandshake else { return }
        client.isQueuedForHandshake = true
        clients.append(client)
        deferSteps()
    }

    override func resume() {
        isDeferred = false
        var steps = 0
        while first < clients.count, steps < Self.stepsMax {
            let client = clients[first]
            first += 1
            client.isQueuedForHandshake = false
            guard client.phase == .handshake else { continue }
            steps += 1
            client.continueHandshake()
        }
        if first == clients.count {
            clients.removeAll(keepingCapacity: clients.count <= 256)
            first = 0
        } else {
            if first >= 256, first * 2 >= clients.count {
                clients.removeFirst(first)
                first = 0
            }
            deferSteps()
        }
    }

    private func deferSteps() {
        guard !isDeferred else { return }
        isDeferred = true
        loop.resumeLater(self)
    }
}
