import Glibc
import Synchronization

/// One shard's connections to one upstream: last used, first reused; who finds none at the limit waits in order.
///
/// Belongs to the shard's queue.
package final class UpstreamPool: Watcher, @unchecked Sendable {
    package typealias Answer = (Result<UpstreamConnection, UpstreamFailure>) -> Void

    /// An acquisition that is under way, to be cancelled if its client goes.
    package final class Request {
        fileprivate let user: UserIndex
        fileprivate var dial: Dial?
        fileprivate var answer: Answer?
        fileprivate var end = Instant.never
        fileprivate var isParked = false

        fileprivate init(_ user: UserIndex, _ answer: @escaping Answer) {
            self.user = user
            self.answer = answer
        }
    }

    /// An idle connection is kept so long (http-requirements §8).
    private static let idleMost = Duration.seconds(30)

    let loop: EventLoop
    package let target: UpstreamTarget
    private let parked: SharedLimit
    let buffers: BufferBudget
    private var idle: [UpstreamConnection] = []
    private var waiters: [Request] = []
    private var naming: [Request] = []
    private lazy var deadline = Deadline(of: self)
    /// When the name is to be looked up again, as long as connections are open.
    private lazy var nameDeadline = Deadline(of: self)
    /// Connections of this shard, used or idle.
    package let open = Counter()
    package let resting = Counter()

    /// - Parameters:
    ///   - parked: the process's bound of waiting requests.
    ///   - buffers: the process's bound of memory.
    package init(target: UpstreamTarget, loop: EventLoop, parked: SharedLimit, buffers: BufferBudget) {
        self.target = target
        self.loop = loop
        self.parked = parked
        self.buffers = buffers
        super.init()
        target.add(self)
    }

    /// An idle connection of `user` that is still good, or nil.
    package func takeIdle(for user: UserIndex) -> UpstreamConnection? {
        while let place = idle.lastIndex(where: { $0.user == user }) {
            let connection = idle.remove(at: place)
            resting.add(-1)
            connection.wake()
            if connection.isQuiet, isStillNamed(connection) { return connection }
            end(connection)
        }
        return nil
    }

    /// A fresh connection, when there is one; `answer` may come before this returns. nil means it has.
    ///
    /// - Parameter old: a connection in use, which ends: its slot goes to the fresh one, whoever else waits.
    package func connect(
        for user: UserIndex, inPlaceOf old: UpstreamConnection? = nil, answer: @escaping Answer
    ) -> Request? {
        let request = Request(user, answer)
        if let old {
            old.close()
            open.add(-1)
            dial(request)
        } else if waiters.isEmpty, target.connections.take() || shedOne() {
            dial(request)
        } else {
            wait(request)
        }
        return request.answer == nil ? nil : request
    }

    /// The client has gone: nothing will be answered.
    package func cancel(_ request: Request) {
        guard request.answer != nil else { return }
        request.answer = nil
        if request.isParked {
            waiters.removeAll { $0 === request }
            unpark(request)
        } else {
            request.dial?.cancel()
            naming.removeAll { $0 === request }
            freeSlot()
        }
    }

    /// The exchange has ended soundly: the connection waits for the next one.
    package func giveBack(_ connection: UpstreamConnection) {
        connection.owner = nil
        guard isStillNamed(connection) else { return discard(connection, wasIdle: false) }
        if let first = waiters.first, first.user == connection.user, connection.isQuiet {
            waiters.removeFirst()
            unpark(first)
            connection.rest(until: .never)
            return reply(first, .success(connection))
        }
        // Somebody waits, here or on another shard, who cannot use this one: its slot is what helps.
        if connection.hasEnded || target.waiting.load(ordering: .relaxed) > 0 {
            return discard(connection, wasIdle: false)
        }
        var most = Self.idleMost
        if connection.keepAliveSeconds >= 0 { most = min(most, .seconds(max(connection.keepAliveSeconds - 1, 0))) }
        connection.rest(until: loop.now + most)
        idle.append(connection)
        resting.add()
    }

    /// Closes a connection that is not to be used again.
    package func discard(_ connection: UpstreamConnection) {
        let place = idle.lastIndex { $0 === connection }
        if let place { idle.remove(at: place) }
        discard(connection, wasIdle: place != nil)
    }

    /// Closes all idle connections, for a drain.
    package func closeIdle() {
        while let connection = idle.popLast() { discard(connection, wasIdle: true) }
    }

    /// The name has other addresses now: closes idle connections to those that it had.
    func closeMoved() {
        for connection in idle where !isStillNamed(connection) { discard(connection) }
    }

    /// A connection to an address that the name no longer has carries no further request (design §2).
    private func isStillNamed(_ connection: UpstreamConnection) -> Bool {
        let epoch = target.epoch.load(ordering: .relaxed)
        if connection.epoch == epoch { return true }
        let raw = connection.raw
        guard let peer = SocketAddress(filledBy: { getpeername(raw, $0, $1) == 0 }), target.has(peer) else {
            return false
        }
        connection.epoch = epoch
        return true
    }

    private func discard(_ connection: UpstreamConnection, wasIdle: Bool) {
        if wasIdle { resting.add(-1) }
        end(connection)
    }

    private func end(_ connection: UpstreamConnection) {
        connection.close()
        open.add(-1)
        freeSlot()
    }

    // MARK: Waiting at the limit

    private func wait(_ request: Request) {
        guard parked.take() else { return reply(request, .failure(.connectionLimit)) }
        request.isParked = true
        request.end = loop.now + target.settings.timeouts.connect
        target.waiting.add(1, ordering: .relaxed)
        waiters.append(request)
        armDeadline()
        target.tellOthers(than: self) { $0.shed() }
    }

    /// At the limit an idle connection of another user makes room. True if its slot was taken.
    private func shedOne() -> Bool {
        guard !idle.isEmpty else { return false }
        resting.add(-1)
        end(idle.removeFirst())
        return target.connections.take()
    }

    /// Another shard wants a slot: give up one idle connection.
    private func shed() {
        guard target.waiting.load(ordering: .relaxed) > 0, !idle.isEmpty else { return }
        resting.add(-1)
        end(idle.removeFirst())
    }

    /// A slot is free: whoever waits here takes it, else the other shards hear of it.
    private func freeSlot() {
        target.connections.giveBack()
        serveWaiters()
        if target.waiting.load(ordering: .relaxed) > 0 { target.tellOthers(than: self) { $0.serveWaiters() } }
    }

    private func serveWaiters() {
        while !waiters.isEmpty, target.connections.take() {
            let first = waiters.removeFirst()
            unpark(first)
            dial(first)
        }
    }

    private func unpark(_ request: Request) {
        guard request.isParked else { return }
        request.isParked = false
        parked.giveBack()
        target.waiting.subtract(1, ordering: .relaxed)
    }

    package override func due(_ deadline: Deadline) {
        guard deadline !== nameDeadline else { return keepNameFresh() }
        while let first = waiters.first, first.end <= loop.now {
            waiters.removeFirst()
            unpark(first)
            reply(first, .failure(.connectionLimit))
        }
        while let first = naming.first, first.end <= loop.now {
            let old = target.oldAddresses(at: loop.now)
            guard old.isEmpty else { return named(.success(old)) }
            naming.removeFirst()
            fail(first, .nameTimedOut)
        }
        armDeadline()
    }

    private func armDeadline() {
        loop.set(deadline, at: min(waiters.first?.end ?? .never, naming.first?.end ?? .never))
    }

    // MARK: Connecting

    /// A slot is taken; from here on each way out either keeps it for a connection or gives it back.
    private func dial(_ request: Request) {
        let whereabouts = target.whereabouts(at: loop.now) { [self] answer in
            // Whoever waited may have gone meanwhile.
            loop.post { [self] in named(answer) }
        }
        switch whereabouts {
        case .known(let addresses): dial(request, addresses)
        case .asked(let most):
            request.end = loop.now + most
            naming.append(request)
            armDeadline()
        }
    }

    private func keepNameFresh() {
        guard open.value > 0 else { return }
        loop.set(nameDeadline, at: target.keepFresh(at: loop.now))
    }

    /// The name is resolved: all who wait for it go on.
    private func named(_ answer: Result<[SocketAddress], UpstreamFailure>) {
        let waiting = naming
        naming = []
        armDeadline()
        for request in waiting {
            switch answer {
            case .success(let addresses): dial(request, addresses)
            case .failure(let failure): fail(request, failure)
            }
        }
    }

    private func dial(_ request: Request, _ addresses: [SocketAddress]) {
        let dial = Dial(addresses, target.settings, loop: loop) { [self] result in
            request.dial = nil
            switch result {
            case .failure(let failure): fail(request, failure)
            case .success(let socket): adopt(socket.take(), for: request)
            }
        }
        request.dial = dial
        dial.start()
    }

    private func adopt(_ socket: consuming OwnedDescriptor, for request: Request) {
        do {
            let connection = try UpstreamConnection(taking: socket, for: request.user, loop: loop, pool: self)
            open.add()
            if target.hasName, nameDeadline.instant == .never { keepNameFresh() }
            reply(request, .success(connection))
        } catch {
            fail(request, .local(ENOMEM))
        }
    }

    private func fail(_ request: Request, _ failure: UpstreamFailure) {
        freeSlot()
        reply(request, .failure(failure))
    }

    private func reply(_ request: Request, _ result: Result<UpstreamConnection, UpstreamFailure>) {
        let answer = request.answer
        request.answer = nil
        answer?(result)
    }
}
