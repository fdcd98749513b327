import CLinux
import Glibc

/// Reading and writing of stream sockets that never block: `errno` becomes a few plain cases.
package enum Socket {
    /// What one read has given.
    package enum Received: Equatable {
        case bytes(Int)
        /// Nothing there now.
        case wouldBlock
        /// The other side has ended its direction.
        case end
        /// A reset or another error; the value is `errno`.
        case failed(CInt)
    }

    /// What one write has done.
    package enum Sent: Equatable {
        /// At least one; fewer than asked when the socket's buffer is full.
        case bytes(Int)
        case wouldBlock
        case failed(CInt)
    }

    /// Reads once.
    package static func receive(_ descriptor: CInt, into room: UnsafeMutableRawBufferPointer) -> Received {
        receive(descriptor, into: room, flags: 0)
    }

    @inline(__always)
    private static func receive(
        _ descriptor: CInt, into room: UnsafeMutableRawBufferPointer, flags: CInt
    ) -> Received {
        while true {
            let count = recv(descriptor, room.baseAddress, room.count, flags)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .end }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            default: return .failed(errno)
            }
        }
    }

    /// Reads once. The bytes stay in the socket for the next read.
    package static func peek(_ descriptor: CInt, into room: UnsafeMutableRawBufferPointer) -> Received {
        receive(descriptor, into: room, flags: CInt(MSG_PEEK))
    }

    /// Writes once.
    ///
    /// - Parameter more: something follows at once, so TCP waits with a last segment that is not full (`MSG_MORE`).
    package static func send(_ descriptor: CInt, _ bytes: UnsafeRawBufferPointer, more: Bool = false) -> Sent {
        while true {
            let count = Glibc.send(descriptor, bytes.baseAddress, bytes.count, flags(more: more))
            if count >= 0 { return .bytes(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            default: return .failed(errno)
            }
        }
    }

    @inline(__always)
    private static func flags(more: Bool) -> CInt { CInt(MSG_NOSIGNAL) | (more ? CInt(MSG_MORE) : 0) }

    /// Several runs with one call; what is sent counts over all of them.
    package static func send(
        _ descriptor: CInt, _ runs: UnsafeMutableBufferPointer<iovec>, more: Bool = false
    ) -> Sent {
        var message = msghdr()
        message.msg_iov = runs.baseAddress
        message.msg_iovlen = runs.count
        while true {
            let count = sendmsg(descriptor, &message, flags(more: more))
            if count >= 0 { return .bytes(count) }
            switch errno {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            default: return .failed(errno)
            }
        }
    }

    /// Ends this side's direction: the other side reads an end after all bytes that were sent.
    package static func endWriting(_ descriptor: CInt) { shutdown(descriptor, CInt(SHUT_WR)) }

    /// Bytes can be read, or an end or an error: an idle connection is not usable any more (http-connections.md 16.2).
    package static func hasPendingInput(_ descriptor: CInt) -> Bool {
        var byte: UInt8 = 0
        while true {
            let count = recv(descriptor, &byte, 1, CInt(MSG_PEEK) | CInt(MSG_DONTWAIT))
            if count < 0, errno == EINTR { continue }
            return count >= 0 || errno != EAGAIN
        }
    }

    /// Sends each write at once.
    package static func setNoDelay(_ descriptor: CInt) {
        var one: CInt = 1
        setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<CInt>.size))
    }

    /// The kernel accepts at most this many bytes beyond what the other side's window lets it send at once.
    private static let unsentBytesMax: CInt = 128 << 10

    /// Bounds what the kernel holds for a side that reads slowly. Without a bound it accepts up to 4 MiB over loopback, so a thousand slow
    /// readers would hold gigabytes outside `buffer_bytes_max`. Bytes in flight are not counted, so no throughput is lost. The connections
    /// of a listener inherit the option.
    package static func limitUnsent(_ descriptor: CInt) {
        var bytesMax = unsentBytesMax
        setsockopt(descriptor, CInt(IPPROTO_TCP), TCP_NOTSENT_LOWAT, &bytesMax, socklen_t(MemoryLayout<CInt>.size))
    }

    /// Has the kernel probe the other side of a TCP connection without traffic (tcp(7)). One that does not reply to
    /// `probesMax` probes has failed. The connections of a listener inherit it.
    ///
    /// - Parameters:
    ///   - idle: seconds without a byte before the first probe.
    ///   - interval: seconds between two probes.
    package static func setKeepAlive(_ descriptor: CInt, idle: CInt, interval: CInt, probesMax: CInt) {
        set(TCP_KEEPIDLE, of: CInt(IPPROTO_TCP), idle, descriptor)
        set(TCP_KEEPINTVL, of: CInt(IPPROTO_TCP), interval, descriptor)
        set(TCP_KEEPCNT, of: CInt(IPPROTO_TCP), probesMax, descriptor)
        set(SO_KEEPALIVE, of: SOL_SOCKET, 1, descriptor)
    }

    /// Ends the probes.
    package static func endKeepAlive(_ descriptor: CInt) { set(SO_KEEPALIVE, of: SOL_SOCKET, 0, descriptor) }

    private static func set(_ option: CInt, of level: CInt, _ value: CInt, _ descriptor: CInt) {
        var value = value
        setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<CInt>.size))
    }

    /// Whether the socket at the other end of a TCP connection belongs to no process any more. Only the kernel of this
    /// network namespace says so (sock_diag(7)): false for a peer elsewhere.
    package static func isPeerOrphaned(_ descriptor: CInt) -> Bool { lanyard_is_peer_orphaned(descriptor) == 1 }

    /// Closing will reset the connection, so the other side cannot mistake its end for an orderly one.
    package static func setResetOnClose(_ descriptor: CInt) {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Bytes that the kernel holds and the other side has not acknowledged yet (unix(7), tcp(7): SIOCOUTQ).
    package static func unsentBytes(_ descriptor: CInt) -> Int {
        var count: CInt = 0
        return ioctl(descriptor, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
    }

    /// The pending error of a socket, such as the outcome of a connect; 0 is none.
    package static func pendingError(_ descriptor: CInt) -> CInt {
        var code: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size)
        return code
    }
}
