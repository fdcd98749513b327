import CLinux
import Glibc
import LanyardFoundations

/// A stream socket. Several threads may use it and any of them may close it.
///
/// The descriptor is non-blocking and every call polls, so no call waits longer than its patience. The descriptor is closed when no thread
/// is inside a call, so its number is never reused while another thread polls it.
package final class RawSocket: Sendable {
    private struct State {
        var users = 0
        var closing = false
    }

    let descriptor: CInt
    private let state = Guarded(State())

    /// Takes ownership of a descriptor.
    init(taking descriptor: CInt) {
        self.descriptor = descriptor
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    /// Connects.
    ///
    /// - Parameters:
    ///   - source: the last number of the local loopback address.
    ///   - receiveBuffer: bytes that the kernel keeps for reading, about; nil: the kernel's default.
    package static func connect(
        to endpoint: RawEndpoint, from source: UInt8? = nil, receiveBuffer: CInt? = nil
    ) throws -> RawSocket {
        let new = socket(endpoint.family, CInt(SOCK_STREAM.rawValue), 0)
        guard new >= 0 else { throw TestFailure("socket: errno \(errno)") }
        let connection = RawSocket(taking: new)
        if let source {
            let bound = RawEndpoint.loopback(source, 0).withAddress { bind(new, $0, $1) }
            guard bound == 0 else { throw TestFailure("binding 127.0.0.\(source): errno \(errno)") }
        }
        if var receiveBuffer {
            setsockopt(new, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, socklen_t(MemoryLayout<CInt>.size))
        }
        let result = endpoint.withAddress { Glibc.connect(new, $0, $1) }
        if result != 0 {
            guard errno == EINPROGRESS else { throw TestFailure("connecting to \(endpoint): errno \(errno)") }
            try connection.wait(for: POLLOUT, with: Patience(), doing: "connecting to \(endpoint)")
            var failure: CInt = 0
            var length = socklen_t(MemoryLayout<CInt>.size)
            getsockopt(new, SOL_SOCKET, SO_ERROR, &failure, &length)
            guard failure == 0 else { throw TestFailure("connecting to \(endpoint): errno \(failure)") }
        }
        var on: CInt = 1
        setsockopt(new, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
        return connection
    }

    /// Binds and listens. `.tcp(0)` takes any free port. An existing unix path is removed first.
    ///
    /// - Parameters:
    ///   - receiveBuffer: as for `connect`, for each accepted connection.
    ///   - sendBuffer: bytes that the kernel takes before the peer reads them, about, for each accepted connection; nil: its default.
    package static func listen(
        at endpoint: RawEndpoint, backlog: CInt = 1024, receiveBuffer: CInt? = nil, sendBuffer: CInt? = nil
    ) throws -> RawSocket {
        if case .unix(let path) = endpoint { unlink(path) }
        let new = socket(endpoint.family, CInt(SOCK_STREAM.rawValue), 0)
        guard new >= 0 else { throw TestFailure("socket: errno \(errno)") }
        let listener = RawSocket(taking: new)
        if var receiveBuffer {
            setsockopt(new, SOL_SOCKET, SO_RCVBUF, &receiveBuffer, socklen_t(MemoryLayout<CInt>.size))
        }
        if var sendBuffer {
            setsockopt(new, SOL_SOCKET, SO_SNDBUF, &sendBuffer, socklen_t(MemoryLayout<CInt>.size))
        }
        var on: CInt = 1
        setsockopt(new, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<CInt>.size))
        guard endpoint.withAddress({ bind(new, $0, $1) }) == 0 else { throw TestFailure("bind \(endpoint): \(errno)") }
        guard Glibc.listen(new, backlog) == 0 else { throw TestFailure("listen \(endpoint): errno \(errno)") }
        return listener
    }

    /// Binds an address, by default a free port of 127.0.0.1, and does not listen: connections to it are refused until the
    /// socket is closed.
    ///
    /// - Throws: `TestFailure` if the address is in use.
    package static func refusing(at endpoint: RawEndpoint = .tcp(0)) throws -> RawSocket {
        let new = socket(endpoint.family, CInt(SOCK_STREAM.rawValue), 0)
        guard new >= 0 else { throw TestFailure("socket: errno \(errno)") }
        let bound = RawSocket(taking: new)
        let result = endpoint.withAddress { bind(new, $0, $1) }
        guard result == 0 else { throw TestFailure("bind: errno \(errno)") }
        return bound
    }

    /// The bound port.
    package var localPort: UInt16 {
        // The port is at the same place in an IPv4 address.
        var address = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &length) }
        }
        return UInt16(bigEndian: address.sin6_port)
    }

    /// The port of the peer's end.
    package var remotePort: UInt16 {
        var address = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        use { descriptor in
            _ = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
            }
        }
        return UInt16(bigEndian: address.sin6_port)
    }

    /// The next connection; nil: the listener is closed or the patience is exhausted. If the process has no descriptor left, the connection
    /// stays in the kernel's queue until there is one.
    ///
    /// - Parameter patience: nil for a server, which ends with its listener.
    package func accept(with patience: Patience? = Patience()) -> RawSocket? {
        while patience?.isExhausted != true {
            guard (try? wait(for: POLLIN, with: patience, doing: "accepting")) != nil else { return nil }
            let result = use { (Glibc.accept($0, nil, nil), errno) }
            guard let (new, failure) = result else { return nil }
            if new >= 0 {
                var on: CInt = 1
                setsockopt(new, CInt(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<CInt>.size))
                return RawSocket(taking: new)
            }
            switch failure {
            case EAGAIN, EINTR, ECONNABORTED: break
            // The connection stays in the queue, so that poll() would return at once until another descriptor is closed.
            case EMFILE, ENFILE, ENOBUFS, ENOMEM: usleep(10_000)
            default: return nil
            }
        }
        return nil
    }

    /// Sends all bytes.
    ///
    /// - Throws: `TestFailure` if the peer does not read them in time, or has closed or reset.
    package func send(_ bytes: some Collection<UInt8>, with patience: Patience? = Patience()) throws {
        let bytes = ContiguousArray(bytes)
        var sent = 0
        while sent < bytes.count {
            let (count, failure) = try bytes.withUnsafeBytes { buffer in
                let rest = UnsafeRawBufferPointer(rebasing: buffer[sent...])
                return try inside("sending") {
                    (Glibc.send($0, rest.baseAddress, rest.count, CInt(MSG_NOSIGNAL)), errno)
                }
            }
            if count > 0 {
                sent += count
            } else if failure == EAGAIN {
                try wait(for: POLLOUT, with: patience, doing: "sending byte \(sent) of \(bytes.count)")
            } else if failure != EINTR {
                throw TestFailure("sending byte \(sent) of \(bytes.count): errno \(failure)")
            }
        }
    }

    /// The received bytes, at most `max`; empty at the end of the stream.
    ///
    /// - Throws: `TestFailure` if nothing arrives in time (patience nil: no limit), or the peer has reset.
    package func receive(max: Int = 65536, with patience: Patience? = Patience()) throws -> [UInt8] {
        try receiveStamped(max: max, with: patience).bytes
    }

    /// As `receive`, with the kernel's time of the last byte's arrival. It does not depend on when this thread reads.
    ///
    /// - Returns: seconds since 1970; nil without `stampArrivals()`, and for bytes that arrived before that call took effect.
    func receiveStamped(max: Int, with patience: Patience?) throws -> (bytes: [UInt8], arrival: Double?) {
        while true {
            var failure: CInt = 0
            var arrival: Double?
            let bytes = try [UInt8](unsafeUninitializedCapacity: max) { buffer, count in
                // errno is read at once: the lock around the call may change it.
                let got = try inside("receiving") {
                    Self.receive(from: $0, into: UnsafeMutableRawBufferPointer(buffer))
                }
                failure = got.count < 0 ? got.failure : 0
                arrival = got.arrival
                count = Swift.max(got.count, 0)
            }
            switch failure {
            case 0: return (bytes, arrival)
            case EAGAIN: try wait(for: POLLIN, with: patience, doing: "receiving")
            case EINTR: continue
            default: throw TestFailure("receiving: errno \(failure)")
            }
        }
    }

    /// Bytes that have arrived and are not read.
    package var waitingBytes: Int {
        use { descriptor in
            var count: CInt = 0
            return ioctl(descriptor, UInt(FIONREAD), &count) == 0 ? Int(count) : 0
        } ?? 0
    }

    /// Makes the kernel record the times that `receiveStamped` returns (SO_TIMESTAMPNS, socket(7)).
    package func stampArrivals() {
        var on: CInt = 1
        use { _ = setsockopt($0, SOL_SOCKET, Self.timestamps, &on, socklen_t(MemoryLayout<CInt>.size)) }
    }

    /// SO_TIMESTAMPNS, a macro that Swift does not import. The control message with the time has the same number.
    private static let timestamps: CInt = 35

    private static func receive(
        from descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer
    ) -> (count: Int, failure: CInt, arrival: Double?) {
        var part = iovec(iov_base: buffer.baseAddress, iov_len: buffer.count)
        var control: (cmsghdr, timespec) = (cmsghdr(), timespec())
        return withUnsafeMutableBytes(of: &control) { control in
            withUnsafeMutablePointer(to: &part) { part in
                var message = msghdr()
                message.msg_iov = part
                message.msg_iovlen = 1
                message.msg_control = control.baseAddress
                message.msg_controllen = control.count
                let count = recvmsg(descriptor, &message, 0)
                let failure = errno
                let (header, time) = control.load(as: (cmsghdr, timespec).self)
                guard count > 0, message.msg_controllen >= control.count, header.cmsg_type == timestamps else {
                    return (count, failure, nil)
                }
                return (count, failure, Double(time.tv_sec) + Double(time.tv_nsec) / 1e9)
            }
        }
    }

    /// Ends the sending side. The peer sees the end of the stream and can still respond.
    package func halfClose() { use { _ = shutdown($0, CInt(SHUT_WR)) } }

    /// Ends the connection without a word to the peer, as a machine does that loses its power (TCP_REPAIR, tcp(7)). The
    /// peer's next packet gets a reset, as from a machine that has come back.
    ///
    /// - Throws: the machine does not permit it.
    package func vanish() throws {
        let code = use { descriptor -> CInt in
            // TCP_REPAIR, and TCP_REPAIR_QUEUE with the queue of what is sent: no further packet goes out.
            for (option, value) in [(CInt(19), CInt(1)), (20, 2)] {
                var value = value
                let size = socklen_t(MemoryLayout<CInt>.size)
                if setsockopt(descriptor, CInt(IPPROTO_TCP), option, &value, size) != 0 { return errno }
            }
            return 0
        }
        guard code == 0 else { throw TestFailure("TCP_REPAIR: errno \(code.map(String.init) ?? "none")") }
        close()
    }

    /// Reads no byte from now on. On a unix socket the peer notices at its next write.
    package func refuseInput() { use { _ = shutdown($0, CInt(SHUT_RD)) } }

    /// Closes. A shutdown wakes threads that wait inside a call, and the last of them closes the descriptor.
    package func close() {
        state.withLock { state in
            if state.closing { return }
            state.closing = true
            // Under the lock the number is still valid, whether this call or the last thread closes it.
            guard state.users == 0 else { return _ = shutdown(descriptor, CInt(SHUT_RDWR)) }
            // A process that another test is starting also holds the descriptor until its exec. The end must not wait for that.
            // With unread input the close is a reset, and no orderly end may come before it.
            var unread: CInt = 0
            if ioctl(descriptor, UInt(FIONREAD), &unread) == 0, unread == 0 { _ = shutdown(descriptor, CInt(SHUT_WR)) }
            Glibc.close(descriptor)
        }
    }

    /// Resets the connection at once (connect() to AF_UNSPEC), also while other threads wait on it. A unix socket has no reset: it is
    /// closed.
    package func reset() {
        use { descriptor in
            var linger = linger(l_onoff: 1, l_linger: 0)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
            var unspecified = sockaddr(
                sa_family: sa_family_t(AF_UNSPEC), sa_data: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
            _ = Glibc.connect(descriptor, &unspecified, socklen_t(MemoryLayout<sockaddr>.size))
        }
        close()
    }

    /// True once `close` or `reset` was called here.
    package var isClosed: Bool { state.withLock { $0.closing } }

    /// Calls `body` and keeps the descriptor open during it; nil: it is closed already.
    @discardableResult
    package func use<Value>(_ body: (CInt) throws -> Value) rethrows -> Value? {
        let entered = state.withLock { state -> Bool in
            if state.closing { return false }
            state.users += 1
            return true
        }
        guard entered else { return nil }
        defer {
            state.withLock { state in
                state.users -= 1
                if state.closing && state.users == 0 { Glibc.close(descriptor) }
            }
        }
        return try body(descriptor)
    }

    private func inside<Value>(_ doing: String, _ body: (CInt) throws -> Value) throws -> Value {
        guard let value = try use(body) else { throw TestFailure("\(doing): closed here") }
        return value
    }

    /// Waits for an event; patience nil: until the socket is closed.
    private func wait(for event: CInt, with patience: Patience?, doing: String) throws {
        while true {
            let isLast = patience?.isExhausted == true
            let milliseconds = isLast ? 0 : patience?.pollMilliseconds ?? -1
            let (count, failure) = try inside(doing) { descriptor in
                var entry = pollfd(fd: descriptor, events: Int16(event), revents: 0)
                return (poll(&entry, 1, milliseconds), errno)
            }
            if isClosed { throw TestFailure("\(doing): closed here") }
            if count > 0 { return }
            if let patience, isLast { throw patience.failure(doing) }
            if count < 0 && failure != EINTR { throw TestFailure("\(doing): poll errno \(failure)") }
        }
    }

    deinit { close() }
}
