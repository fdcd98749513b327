import CLinux
import Glibc
import LanyardFoundations
import LanyardSettings

/// One request on a connection of its own: what commands ask of the health listener and of the admin API.
///
/// Plain HTTP/1.1 on a unix socket or TCP. It blocks, with time limits. Request and response are in wiped memory, because both may hold
/// secrets.
package struct HTTPClient: Sendable {
    /// Limits of one exchange.
    package struct Limits: Equatable, Sendable {
        /// To connect.
        package var connectTimeout: Duration
        /// For the whole exchange, the connect included. A login waits for an identity service, which has 30 s.
        package var responseTimeout: Duration
        /// Bytes of the response's body.
        package var bodyBytesMax: Int

        package init(connectTimeout: Duration, responseTimeout: Duration, bodyBytesMax: Int) {
            self.connectTimeout = connectTimeout
            self.responseTimeout = responseTimeout
            self.bodyBytesMax = bodyBytesMax
        }

        /// Calls of the admin API.
        package static let admin = Limits(
            connectTimeout: .seconds(2), responseTimeout: .seconds(40), bodyBytesMax: 16 << 20)
        /// Probes of the health pages.
        package static let health = Limits(
            connectTimeout: .seconds(2), responseTimeout: .seconds(2), bodyBytesMax: 64 << 10)
    }

    /// What is sent.
    package struct Request: Sendable {
        /// Such as `GET`.
        package var method: String
        /// Path and query, already escaped.
        package var path: String
        /// For `Authorization: Bearer`.
        package var token: Secret?
        /// For `Lanyard-Capability`.
        package var capability: Secret?
        /// JSON.
        package var body: Secret?

        package init(_ method: String, _ path: String, token: Secret? = nil, body: Secret? = nil) {
            self.method = method
            self.path = path
            self.token = token
            self.body = body
        }
    }

    /// Between two attempts to connect to a unix socket that has no room.
    private static let retryMicroseconds: UInt32 = 10_000
    /// Bytes of one read.
    private static let readBytes = 64 << 10

    /// Where it connects.
    package let address: ListenerSettings.Address
    private let limits: Limits

    package init(_ address: ListenerSettings.Address, limits: Limits) {
        self.address = address
        self.limits = limits
    }

    /// Sends a request and waits for the whole response, whatever its status.
    ///
    /// - Throws: there is no connection, the connection or the response is not complete in time, or the response is not HTTP or too large.
    ///   The server, the network or the address is at fault; the request may have been carried out.
    package func perform(_ request: Request) throws(HTTPClientError) -> HTTPResponse {
        let start = ContinuousClock.now
        let end = start + limits.responseTimeout
        let socket = try connected(until: min(end, start + limits.connectTimeout))
        let isSent = try bytes(of: request).withBytes { bytes throws(HTTPClientError) in
            try send(bytes, on: socket, until: end)
        }
        return try receive(from: socket, until: end, isSent: isSent)
    }

    // MARK: Connecting

    /// Tries the addresses in order.
    private func connected(until end: ContinuousClock.Instant) throws(HTTPClientError) -> OwnedDescriptor {
        var failure = HTTPClientError.notConnectable
        for (place, target) in socketAddresses.enumerated() {
            do throws(HTTPClientError) {
                return try connected(to: target, until: end)
            } catch {
                // That of a later address may only say that the machine has no such address.
                if place == 0 { failure = error }
            }
        }
        throw failure
    }

    private func connected(
        to target: SocketAddress, until end: ContinuousClock.Instant
    ) throws(HTTPClientError) -> OwnedDescriptor {
        let kind = CInt(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let raw = socket(target.family, kind, 0)
        guard raw >= 0 else { throw .notConnected(errno) }
        let socket = OwnedDescriptor(taking: raw)
        var result: CInt
        while true {
            result = target.withPointer { connect(raw, $0, $1) }
            guard result != 0, errno == EAGAIN, case .unix = address else { break }
            // The listener's queue is full. No event reports when a unix socket has room again (connect(2)).
            guard ContinuousClock.now < end else { throw .connectTimedOut }
            usleep(Self.retryMicroseconds)
        }
        if result != 0 {
            guard errno == EINPROGRESS else { throw .notConnected(errno) }
            guard Self.wait(for: Int16(POLLOUT), on: raw, until: end) else { throw .connectTimedOut }
            let code = Socket.pendingError(raw)
            if code != 0 { throw .notConnected(code) }
        }
        return socket
    }

    /// A wildcard address is reached at the loopback address of its family.
    private var socketAddresses: [SocketAddress] {
        switch address {
        case .unix(let path): return SocketAddress(path: path).map { [$0] } ?? []
        // Only the service manager knows its address.
        case .activated: return []
        case .tcp(_, port: 0): return []
        case .tcp(let host, let port):
            let known = SocketAddress.known(host: host, port: port)
            guard let bound = known.first, bound.isWildcard else { return known }
            return SocketAddress.known(host: bound.family == AF_INET ? "127.0.0.1" : "::1", port: port)
        }
    }

    // MARK: Sending

    private func bytes(of request: Request) -> Secret {
        let host = if case .unix = address { "localhost" } else { address.authority }
        var bytes = SecretBuffer(capacity: 512 + (request.body?.count ?? 0))
        bytes.append("\(request.method) \(request.path) HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n")
        if let token = request.token {
            bytes.append("Authorization: Bearer ")
            token.withBytes { bytes.append($0) }
            bytes.append("\r\n")
        }
        if let capability = request.capability {
            bytes.append("Lanyard-Capability: ")
            capability.withBytes { bytes.append($0) }
            bytes.append("\r\n")
        }
        if let body = request.body {
            bytes.append("Content-Type: application/json\r\nContent-Length: \(body.count)\r\n")
        } else if request.method == "POST" {
            bytes.append("Content-Length: 0\r\n")
        }
        bytes.append("\r\n")
        request.body?.withBytes { bytes.append($0) }
        return bytes.seal()
    }

    /// - Returns: false: the other side has closed before it took everything. Its response may still be there to read.
    private func send(
        _ bytes: UnsafeRawBufferPointer, on socket: borrowing OwnedDescriptor, until end: ContinuousClock.Instant
    ) throws(HTTPClientError) -> Bool {
        var sent = 0
        while sent < bytes.count {
            switch Socket.send(socket.raw, UnsafeRawBufferPointer(rebasing: bytes[sent...])) {
            case .bytes(let count): sent += count
            case .wouldBlock:
                guard Self.wait(for: Int16(POLLOUT), on: socket.raw, until: end) else { throw .timedOut }
            case .failed(EPIPE), .failed(ECONNRESET): return false
            case .failed(let code): throw .failed(code)
            }
        }
        return true
    }

    // MARK: Receiving

    private func receive(
        from socket: borrowing OwnedDescriptor, until end: ContinuousClock.Instant, isSent: Bool
    ) throws(HTTPClientError) -> HTTPResponse {
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.readBytes, alignment: 1)
        defer {
            Secret.wipe(room)
            room.deallocate()
        }
        var bytes = SecretBuffer(capacity: 4096)
        var head: HTTPResponseHead?
        while true {
            if head == nil { head = try bytes.withBytes(HTTPResponseHead.read) }
            if let head {
                guard max(head.bodyCount ?? 0, bytes.count - head.byteCount) <= limits.bodyBytesMax else {
                    throw .tooLarge(limits.bodyBytesMax)
                }
                if let count = head.bodyCount, bytes.count >= head.byteCount + count {
                    return response(head, bytes, bodyCount: count)
                }
            }
            switch Socket.receive(socket.raw, into: room) {
            case .bytes(let count): bytes.append(UnsafeRawBufferPointer(rebasing: room[..<count]))
            case .wouldBlock:
                guard Self.wait(for: Int16(POLLIN), on: socket.raw, until: end) else { throw .timedOut }
            case .failed(let code): throw isSent ? .failed(code) : .closed
            case .end:
                guard bytes.count > 0 else { throw .closed }
                guard let head else {
                    throw bytes.withBytes(HTTPResponseHead.mayBegin) ? .incomplete : .notHTTP
                }
                guard head.bodyCount == nil else { throw .incomplete }
                return response(head, bytes, bodyCount: bytes.count - head.byteCount)
            }
        }
    }

    private func response(
        _ head: HTTPResponseHead, _ bytes: borrowing SecretBuffer, bodyCount: Int
    ) -> HTTPResponse {
        let body = bytes.withBytes {
            Secret(copying: UnsafeRawBufferPointer(rebasing: $0[head.byteCount..<(head.byteCount + bodyCount)]))
        }
        return HTTPResponse(
            status: head.status, contentType: head.contentType, retryAfter: head.retryAfter, body: body)
    }

    /// False: the time has passed.
    private static func wait(for events: Int16, on raw: CInt, until end: ContinuousClock.Instant) -> Bool {
        while true {
            let left = end - ContinuousClock.now
            guard left > .zero else { return false }
            var item = pollfd(fd: raw, events: events, revents: 0)
            let milliseconds = left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000 + 1
            let count = poll(&item, 1, CInt(clamping: milliseconds))
            if count > 0 { return true }
            // A signal that does not end the process, such as SIGCONT.
            if count < 0, errno != EINTR { return true }
        }
    }
}

/// A whole response.
package struct HTTPResponse: Sendable {
    /// Such as 200.
    package let status: Int
    /// The media type without parameters, in lower case; empty: there is none.
    package let contentType: String
    /// `Retry-After` in seconds.
    package let retryAfter: Int?
    /// The whole body.
    package let body: Secret
}

/// Why a request has no response. A type of its own, because the case decides what the command says to do next.
package enum HTTPClientError: Error, Equatable, Sendable {
    /// No connection; the value is `errno`.
    case notConnected(CInt)
    case connectTimedOut
    /// An address that no socket can have, or port 0.
    case notConnectable
    /// The other side closed without a byte.
    case closed
    case timedOut
    /// The connection failed; the value is `errno`.
    case failed(CInt)
    /// The connection ended within the response.
    case incomplete
    case notHTTP
    /// The body has more bytes than this limit.
    case tooLarge(Int)

    /// The reason as text.
    package var message: String {
        switch self {
        case .notConnected(let code), .failed(let code): Errno.text(of: code)
        case .connectTimedOut, .timedOut: "no response in time"
        case .notConnectable: "not an address that can be connected to"
        case .closed: "closed without a response"
        case .incomplete: "an incomplete response"
        case .notHTTP: "not an HTTP response"
        case .tooLarge(let limit): "a response of more than \(limit) bytes"
        }
    }

    /// The other side may have read the request and done what it asks for.
    package var mayHaveArrived: Bool {
        switch self {
        case .notConnected, .connectTimedOut, .notConnectable: false
        default: true
        }
    }
}
