import CCurl
import LanyardFoundations
import LanyardSessionInterface

/// The HTTP client of one identity: libcurl's multi interface on an `EventLoop`, never blocking. `IdentityCallQueue` bounds it.
///
/// Each identity has one of its own. So a name server or a service that never responds delays no other identity: a call waits only behind
/// calls of the same identity. All state belongs to the loop's queue.
package final class CurlMulti: Watcher, @unchecked Sendable {
    private enum Purpose: UInt8, DeadlinePurpose {
        /// libcurl's own timer.
        case timer
        /// Transfers may start, or have waited too long.
        case housekeeping
    }

    fileprivate let loop: EventLoop
    private var trust: CurlTrust
    /// A reload may change the time of attempts.
    var limits: CurlLimits { didSet { queue.timeLeftMin = limits.totalLeftMin } }
    /// Learns what each call has come to.
    let contact = ServiceContact()
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
    private var queue: IdentityCallQueue<CurlTransfer>
    private var isStopped = false

    /// libcurl's own timer.
    private lazy var timer = Deadline(of: self, for: Purpose.timer.rawValue)
    /// The first instant at which `queue` must be asked again.
    private lazy var housekeeping = Deadline(of: self, for: Purpose.housekeeping.rawValue)

    /// Does nothing yet: the first transfer makes the first call of libcurl.
    init(on loop: EventLoop, trust: CurlTrust, limits: CurlLimits) {
        self.loop = loop
        self.trust = trust
        self.limits = limits
        queue = IdentityCallQueue(timeLeftMin: limits.totalLeftMin)
    }

    deinit { precondition(multi == nil, "a CurlMulti is stopped before it goes") }

    /// Begins a transfer, or queues it. `reply` is called once, on the loop's queue, never before this returns.
    func send(_ request: CurlRequest, reply: @escaping CurlTransfer.Reply) {
        loop.assertIsCurrent()
        let recorded: CurlTransfer.Reply = { [contact] outcome in
            contact.record(outcome, of: request)
            reply(outcome)
        }
        let obstacle = isStopped ? nil : open()
        guard !isStopped, obstacle == nil, let transfer = CurlTransfer(request, reply: recorded) else {
            let failure =
                isStopped
                ? CurlError.stopping(wasRequestSent: false)
                : CurlError(kind: .local, wasRequestSent: false, message: obstacle ?? "libcurl could not be started")
            nonisolated(unsafe) let reply = reply
            return loop.post { reply(.failure(failure)) }
        }
        queue.append(transfer, transfer.kind, deadline: request.deadline, at: loop.now)
        // Deferred, because a transfer that cannot start fails at once.
        loop.set(housekeeping, at: .past)
    }

    /// Transfers that start from now on use these contents.
    func replaceTLS(_ tls: IdentityTLSContents) {
        loop.assertIsCurrent()
        trust.tls = tls
    }

    /// The client's certificate, as PEM, that transfers show which start now; nil: none.
    var certificate: Secret? { trust.tls.certificate }

    /// Ends every transfer as `stopped` and frees libcurl's objects. Permanent.
    func stop() {
        loop.assertIsCurrent()
        isStopped = true
        loop.drop(timer)
        loop.drop(housekeeping)
        let ended = running.values.map { ($0, $0.wasRequestSent) } + queue.removeAll().map { ($0, false) }
        if let multi {
            for transfer in running.values { curl_multi_remove_handle(multi, transfer.easy) }
        }
        // The callbacks of the cleanup find no handle.
        let former = handle.take()
        _ = consume former
        running = [:]
        for socket in sockets.values { socket.unwatch(on: loop) }
        sockets = [:]
        for (transfer, wasRequestSent) in ended {
            transfer.finish(.failure(.stopping(wasRequestSent: wasRequestSent)))
        }
    }

    // MARK: Starting and ending transfers

    package override func due(_ deadline: Deadline) {
        loop.assertIsCurrent()
        guard !isStopped else { return }
        switch Purpose(of: deadline) {
        case .timer: act(CURL_SOCKET_TIMEOUT, 0)
        case .housekeeping: advance()
        }
    }

    /// Starts transfers that may start, fails those that have waited too long, and sets the time of the next check.
    private func advance() {
        while let step = queue.next(at: loop.now) {
            switch step {
            case .start(let transfer, let timeLeft): start(transfer, timeLeft)
            case .fail(let transfer, let cause): transfer.finish(.failure(Self.error(cause)))
            }
        }
        if !isStopped { loop.set(housekeeping, at: queue.checkAt) }
    }

    private static func error(_ cause: IdentityCallQueue<CurlTransfer>.Cause) -> CurlError {
        switch cause {
        case .noSlot(let kind):
            let message = "no slot became free: \(kind.inFlightMax) \(kind.plural) of this identity were in flight"
            return CurlError(kind: .timedOut, wasRequestSent: false, message: message)
        case .late:
            let message = "what comes first, its files or the metadata or location, has taken its time"
            return CurlError(kind: .late, wasRequestSent: false, message: message)
        }
    }

    private func start(_ transfer: CurlTransfer, _ timeLeft: Duration) {
        if transfer.request.gate?.isCancelled == true || !observeCancellation(of: transfer) {
            queue.end(transfer.kind, at: loop.now)
            return transfer.finish(.failure(.stopping(wasRequestSent: false)))
        }
        guard let multi, transfer.prepare(trust, limits, timeLeft: timeLeft) else {
            queue.end(transfer.kind, at: loop.now)
            let message = "libcurl refused the settings of this identity"
            return transfer.finish(.failure(CurlError(kind: .local, wasRequestSent: false, message: message)))
        }
        running[transfer.easy] = transfer
        if transfer.request.gate != nil {
            let address = UInt(bitPattern: transfer.easy)
            transfer.resume = { [weak self] in
                guard let self else { return }
                loop.post { self.resume(address) }
            }
        }
        let code = curl_multi_add_handle(multi, transfer.easy)
        guard code == CURLM_OK else {
            running[transfer.easy] = nil
            queue.end(transfer.kind, at: loop.now)
            let message = String(cString: curl_multi_strerror(code))
            return transfer.finish(.failure(CurlError(kind: .local, wasRequestSent: false, message: message)))
        }
    }

    /// - Returns: false: the call has been ended.
    private func observeCancellation(of transfer: CurlTransfer) -> Bool {
        guard let cancellation = transfer.request.cancellation else { return true }
        return cancellation.observe { [weak self, weak cancellation] in
            guard let self, let cancellation else { return }
            loop.post { self.end(cancelledBy: cancellation) }
        }
    }

    /// The result of a call is not wanted any more. Its connection is closed.
    private func end(cancelledBy cancellation: CallCancellation) {
        loop.assertIsCurrent()
        for transfer in running.values where transfer.request.cancellation === cancellation {
            let wasRequestSent = transfer.wasRequestSent
            if let multi { curl_multi_remove_handle(multi, transfer.easy) }
            running[transfer.easy] = nil
            queue.end(transfer.kind, keepsSlot: transfer.timedOutResolving(CURLE_OPERATION_TIMEDOUT), at: loop.now)
            loop.set(housekeeping, at: .past)
            transfer.finish(.failure(.stopping(wasRequestSent: wasRequestSent)))
        }
    }

    /// The gate of a transfer's body has decided. If another transfer has the handle by now, it asks its own gate again.
    ///
    /// - Parameter address: of libcurl's handle.
    private func resume(_ address: UInt) {
        loop.assertIsCurrent()
        guard let easy = UnsafeMutableRawPointer(bitPattern: address), running[easy] != nil else { return }
        // It fails where memory is short: the transfer then ends by its time limit.
        _ = lanyard_curl_resume(easy)
        collect()
    }

    /// A socket is ready, or libcurl's timer is due.
    func act(on descriptor: CInt, _ readiness: IOReadiness) {
        loop.assertIsCurrent()
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
            queue.end(transfer.kind, keepsSlot: transfer.timedOutResolving(code), at: loop.now)
            if let next = transfer.retry(after: code) {
                retryAfterRelease(next)
            } else {
                ended.append((transfer, code))
            }
        }
        for transfer in running.values where transfer.isFlooded {
            curl_multi_remove_handle(multi, transfer.easy)
            running[transfer.easy] = nil
            queue.end(transfer.kind, at: loop.now)
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
                queue.prepend(transfer, transfer.kind, deadline: transfer.request.deadline)
                loop.set(housekeeping, at: .past)
            }
        }
    }

    // MARK: libcurl's callbacks

    /// Why there is no handle; nil: there is one. The next transfer tries again.
    private func open() -> String? {
        guard multi == nil else { return nil }
        if let reason = CurlLibrary.load() { return "libcurl cannot be loaded: \(reason)" }
        guard let handle = CurlMultiHandle() else { return "libcurl could not be started" }
        let multi = handle.raw
        let own = Unmanaged.passUnretained(self).toOpaque()
        lanyard_curl_multi_set_pointer(multi, CURLMOPT_SOCKETDATA, own)
        lanyard_curl_multi_set_pointer(multi, CURLMOPT_TIMERDATA, own)
        lanyard_curl_multi_set_socket_callback(multi, Self.onSocket)
        lanyard_curl_multi_set_timer_callback(multi, Self.onTimer)
        self.handle = consume handle
        return nil
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
        transfer?.latestDescriptor = descriptor
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
        multi.loop.assertIsCurrent()
        multi.act(on: descriptor, readiness)
    }
}

extension CurlTransfer {
    /// What it needs a slot for.
    fileprivate var kind: IdentityCallKind { request.kind }
}
