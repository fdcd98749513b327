import CCurl
import LanyardFoundations

/// The HTTP client of one identity: libcurl's multi interface on an `EventLoop`, bounded, never blocking.
///
/// Each identity has one of its own. So a name server or a service that never responds delays no other identity: a call waits only behind
/// calls of the same identity. All state belongs to the loop's queue.
package final class CurlMulti: Watcher, @unchecked Sendable {
    /// Transfers that wait for a free slot, in order.
    private struct Queue {
        var calls: [CurlTransfer] = []
        var logins: [CurlTransfer] = []
    }

    /// A slot that a thread in `getaddrinfo` occupies.
    private struct LostSlot {
        let isLogin: Bool
        let freeAt: Instant
    }

    /// Transfers at once. Further ones wait in order, logins behind all others.
    static let inFlightMax = 8
    /// Logins at once. The other slots are reserved for refreshes, logouts and location requests. So slow logins never delay the refresh of
    /// a live session.
    static let loginsMax = 5
    /// How long a transfer that timed out in name resolution keeps its slot. libcurl has left its thread in `getaddrinfo`, which ends by
    /// itself (10 s with one silent name server). So a silent name server occupies a bounded number of threads.
    static let lostSlotTimeout = Duration.seconds(10)

    private static let initialised = lanyard_curl_global_init()

    private let loop: EventLoop
    private var trust: CurlTrust
    private let limits: CurlLimits
    /// nil: libcurl is not used yet, or no longer.
    private var handle: CurlMultiHandle?
    private var multi: UnsafeMutableRawPointer? {
        switch handle {
        case .some(let handle): handle.raw
        case nil: nil
        }
    }
    private var sockets: [CInt: CurlSocket] = [:]
    private var running: [UnsafeMutableRawPointer: CurlTransfer] = [:]
    private var waiting = Queue()
    /// In the order in which they become free.
    private var lostSlots: [LostSlot] = []
    private var isStopped = false

    /// libcurl's own timer.
    private lazy var timer = Deadline(of: self)
    /// The first instant at which `waiting` or `lostSlots` must be checked.
    private lazy var housekeeping = Deadline(of: self)

    /// Does nothing yet: the first transfer makes the first call of libcurl.
    init(on loop: EventLoop, trust: CurlTrust, limits: CurlLimits) {
        self.loop = loop
        self.trust = trust
        self.limits = limits
    }

    deinit { precondition(multi == nil, "a CurlMulti is stopped before it goes") }

    /// Begins a transfer, or queues it. `reply` is called once, on the loop's queue, never before this returns.
    func send(_ request: CurlRequest, reply: @escaping CurlTransfer.Reply) {
        loop.assertIsCurrent()
        guard !isStopped, open(), let transfer = CurlTransfer(request, reply: reply) else {
            let failure =
                isStopped
                ? CurlError.stopping(wasRequestSent: false)
                : CurlError(kind: .local, wasRequestSent: false, message: "libcurl could not be started")
            nonisolated(unsafe) let reply = reply
            return loop.post { reply(.failure(failure)) }
        }
        if request.isLogin { waiting.logins.append(transfer) } else { waiting.calls.append(transfer) }
        // Deferred, because a transfer that cannot start fails at once.
        loop.set(housekeeping, at: .past)
    }

    /// Transfers that start from now on use these contents.
    func replaceTLS(_ tls: IdentityTLSContents) {
        loop.assertIsCurrent()
        trust.tls = tls
    }

    /// Ends every transfer as `stopped` and frees libcurl's objects. Permanent.
    func stop() {
        loop.assertIsCurrent()
        isStopped = true
        loop.drop(timer)
        loop.drop(housekeeping)
        let ended =
            running.values.map { ($0, $0.wasRequestSent) } + (waiting.calls + waiting.logins).map { ($0, false) }
        if let multi {
            for transfer in running.values { curl_multi_remove_handle(multi, transfer.easy) }
        }
        // The callbacks of the cleanup find no handle.
        let former = handle.take()
        _ = consume former
        (running, waiting, lostSlots) = ([:], Queue(), [])
        for socket in sockets.values { socket.unwatch(on: loop) }
        sockets = [:]
        for (transfer, wasRequestSent) in ended {
            transfer.finish(.failure(.stopping(wasRequestSent: wasRequestSent)))
        }
    }

    // MARK: Starting and ending transfers

    package override func due(_ deadline: Deadline) {
        guard !isStopped else { return }
        if deadline === timer {
            act(CURL_SOCKET_TIMEOUT, 0)
        } else {
            advance()
        }
    }

    /// Starts transfers that may start, fails those that have waited too long, and sets the time of the next check.
    private func advance() {
        lostSlots.removeAll { $0.freeAt <= loop.now }
        advance(\.calls) { true }
        advance(\.logins) { [self] in
            let logins = running.values.count { $0.request.isLogin } + lostSlots.count { $0.isLogin }
            return logins < Self.loginsMax
        }
        let latest = [waiting.calls.first, waiting.logins.first].compactMap { first in
            first.map { $0.request.deadline + (.zero - limits.totalLeftMin) }
        }.min()
        if !isStopped { loop.set(housekeeping, at: min(lostSlots.first?.freeAt ?? .never, latest ?? .never)) }
    }

    /// - Parameter mayStart: called while there is a free slot.
    private func advance(_ queue: WritableKeyPath<Queue, [CurlTransfer]>, mayStart: () -> Bool) {
        while let first = waiting[keyPath: queue].first {
            let timeLeft = first.request.deadline - loop.now
            if timeLeft <= limits.totalLeftMin {
                waiting[keyPath: queue].removeFirst()
                let count = first.request.isLogin ? Self.loginsMax : Self.inFlightMax
                let message =
                    "no slot became free: \(count) \(first.request.isLogin ? "logins" : "calls") of this identity were in flight"
                first.finish(.failure(CurlError(kind: .timedOut, wasRequestSent: false, message: message)))
            } else if running.count + lostSlots.count < Self.inFlightMax, mayStart() {
                waiting[keyPath: queue].removeFirst()
                start(first, timeLeft)
            } else {
                break
            }
        }
    }

    private func start(_ transfer: CurlTransfer, _ timeLeft: Duration) {
        guard let multi, transfer.prepare(trust, limits, timeLeft: timeLeft) else {
            let message = "libcurl refused the settings of this identity"
            return transfer.finish(.failure(CurlError(kind: .local, wasRequestSent: false, message: message)))
        }
        running[transfer.easy] = transfer
        let code = curl_multi_add_handle(multi, transfer.easy)
        guard code == CURLM_OK else {
            running[transfer.easy] = nil
            let message = String(cString: curl_multi_strerror(code))
            return transfer.finish(.failure(CurlError(kind: .local, wasRequestSent: false, message: message)))
        }
    }

    /// A socket is ready, or libcurl's timer is due.
    func act(on descriptor: CInt, _ readiness: IOReadiness) {
        var flags: CInt = 0
        if !readiness.isDisjoint(with: [.read, .readHangUp, .hangUp]) { flags |= CURL_CSELECT_IN }
        if readiness.contains(.write) { flags |= CURL_CSELECT_OUT }
        if readiness.contains(.error) { flags |= CURL_CSELECT_ERR }
        act(descriptor, flags)
    }

    private func act(_ descriptor: curl_socket_t, _ flags: CInt) {
        guard let multi else { return }
        var left: CInt = 0
        curl_multi_socket_action(multi, descriptor, flags, &left)
        collect()
    }

    /// Removes the ended transfers, then replies: a reply may begin the next transfer, or stop everything.
    private func collect() {
        var ended: [(CurlTransfer, CURLcode)] = []
        var left: CInt = 0
        while let multi, let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
            let code = message.pointee.data.result
            curl_multi_remove_handle(multi, easy)
            guard let transfer = running.removeValue(forKey: easy) else { continue }
            if transfer.timedOutResolving(code) {
                lostSlots.append(
                    LostSlot(isLogin: transfer.request.isLogin, freeAt: loop.now + Self.lostSlotTimeout))
            }
            if let next = transfer.retry(after: code) {
                retryAfterRelease(next)
            } else {
                ended.append((transfer, code))
            }
        }
        for transfer in running.values where transfer.isFlooded {
            curl_multi_remove_handle(multi, transfer.easy)
            running[transfer.easy] = nil
            ended.append((transfer, CURLE_ABORTED_BY_CALLBACK))
        }
        guard !ended.isEmpty else { return }
        loop.set(housekeeping, at: .past)
        for (transfer, code) in ended { transfer.finish(transfer.outcome(code)) }
    }

    /// No descriptor was left. Idle upstream connections are closed for this call, which then goes first.
    private func retryAfterRelease(_ transfer: CurlTransfer) {
        nonisolated(unsafe) let transfer = transfer
        DescriptorShortage.shared.release { [self] _ in
            loop.post { [self] in
                guard !isStopped else { return transfer.finish(.failure(.stopping(wasRequestSent: false))) }
                if transfer.request.isLogin {
                    waiting.logins.insert(transfer, at: 0)
                } else {
                    waiting.calls.insert(transfer, at: 0)
                }
                loop.set(housekeeping, at: .past)
            }
        }
    }

    // MARK: libcurl's callbacks

    private func open() -> Bool {
        guard multi == nil else { return true }
        guard Self.initialised == CURLE_OK, let handle = CurlMultiHandle() else { return false }
        let multi = handle.raw
        let own = Unmanaged.passUnretained(self).toOpaque()
        lanyard_curl_multi_set_pointer(multi, CURLMOPT_SOCKETDATA, own)
        lanyard_curl_multi_set_pointer(multi, CURLMOPT_TIMERDATA, own)
        lanyard_curl_multi_set_socket_callback(multi, Self.onSocket)
        lanyard_curl_multi_set_timer_callback(multi, Self.onTimer)
        self.handle = consume handle
        return true
    }

    private static let onSocket: lanyard_curl_socket_callback = { easy, descriptor, what, context, _ in
        Unmanaged<CurlMulti>.fromOpaque(context!).takeUnretainedValue().watch(descriptor, of: easy, what)
        return 0
    }

    private static let onTimer: lanyard_curl_timer_callback = { _, milliseconds, context in
        Unmanaged<CurlMulti>.fromOpaque(context!).takeUnretainedValue().setTimer(milliseconds)
        return 0
    }

    private func watch(_ descriptor: CInt, of easy: UnsafeMutableRawPointer?, _ what: CInt) {
        guard what != CURL_POLL_REMOVE else {
            sockets.removeValue(forKey: descriptor)?.unwatch(on: loop)
            return
        }
        var readiness: IOReadiness = []
        if what & CURL_POLL_IN != 0 { readiness.insert(.read) }
        if what & CURL_POLL_OUT != 0 { readiness.insert(.write) }
        let socket = sockets[descriptor] ?? CurlSocket(descriptor, of: self, for: easy.flatMap { running[$0] })
        sockets[descriptor] = socket
        // A socket that cannot be watched (no memory for epoll) gets no events: its transfer ends by its time limit.
        do { try socket.watch(for: readiness, on: loop) } catch {}
    }

    private func setTimer(_ milliseconds: Int) {
        guard !isStopped else { return }
        loop.set(timer, at: milliseconds < 0 ? .never : loop.now + .milliseconds(milliseconds))
    }
}

/// One of libcurl's sockets in the loop's epoll, from the socket callback that adds it to the one that removes it.
package final class CurlSocket: Watcher, @unchecked Sendable {
    private unowned let multi: CurlMulti
    private let descriptor: CInt
    private let transfer: CurlTransfer?
    private var watch: EventLoop.Watch?

    init(_ descriptor: CInt, of multi: CurlMulti, for transfer: CurlTransfer?) {
        self.descriptor = descriptor
        self.multi = multi
        self.transfer = transfer
        transfer?.descriptors.insert(descriptor)
    }

    /// Begins to watch, or changes what is watched.
    func watch(for readiness: IOReadiness, on loop: EventLoop) throws(SystemError) {
        if let watch {
            try loop.change(watch, to: readiness)
        } else {
            watch = try loop.watch(descriptor, for: readiness, by: self)
        }
    }

    /// Stops watching at once. libcurl closes the socket before the reporting call returns, and another socket may get its number.
    func unwatch(on loop: EventLoop) {
        if let watch { loop.unwatch(watch) }
        watch = nil
        transfer?.descriptors.remove(descriptor)
    }

    package override func ready(_ readiness: IOReadiness, on watch: EventLoop.Watch) {
        multi.act(on: descriptor, readiness)
    }
}
