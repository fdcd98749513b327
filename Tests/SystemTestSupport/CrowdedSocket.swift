import Foundation
import TestSupport

/// A unix socket whose owner accepts nothing, with as many clients as the kernel queues for it.
final class CrowdedSocket: Sendable {
    let path: String
    let listener: RawSocket
    private let clients: [RawSocket]

    init(at path: String) throws {
        self.path = path
        listener = try RawSocket.listen(at: .unix(path), backlog: 0)
        var clients: [RawSocket] = []
        // A socket of the tests never blocks: EAGAIN where another program would wait.
        while clients.count < 100, let client = try? RawSocket.connect(to: .unix(path)) { clients.append(client) }
        guard (1..<100).contains(clients.count) else { throw TestFailure("\(clients.count) clients were queued") }
        self.clients = clients
    }

    var clientCount: Int { clients.count }

    /// Takes the clients out of the queue, and says how many there were.
    func accepted() -> Int {
        var count = 0
        while count < clientCount, listener.accept() != nil { count += 1 }
        return count
    }
}
