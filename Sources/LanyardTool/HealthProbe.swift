import CLinux
import Glibc
import LanyardConfiguration
import LanyardFoundations
import LanyardSettings

/// One GET request on a new connection, with one time limit for the whole exchange.
enum HealthProbe {
    enum Outcome: Equatable {
        case responded(status: Int, body: String)
        /// The reason, as text.
        case failed(String)
    }

    /// Between two attempts to connect to a unix socket that has no room.
    private static let retryMicroseconds: UInt32 = 10_000
    /// More than any health response.
    private static let bytesMax = 64 << 10

    static func probe(_ address: ListenerSettings.Address, path: String, within limit: Duration) -> Outcome {
        let end = ContinuousClock.now + limit
        do throws(ProbeError) {
            let socket = try connected(to: address, until: end)
            let host = if case .unix = address { "localhost" } else { address.description }
            try send("GET \(path) HTTP/1.1\r\nHost: \(host)\r\nConnection: close\r\n\r\n", on: socket, until: end)
            return try outcome(of: receive(from: socket, until: end))
        } catch {
            return .failed(error.message)
        }
    }

    /// Why the probe has no response. A type of its own, because `lanyard health` prints only the message.
    private struct ProbeError: Error { var message: String }

    private static func connected(
        to address: ListenerSettings.Address, until end: ContinuousClock.Instant
    ) throws(ProbeError) -> OwnedDescriptor {
        let wanted = try socketAddress(of: address)
        let kind = CInt(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let raw = socket(wanted.family, kind, 0)
        guard raw >= 0 else { throw ProbeError(message: Errno.text(of: errno)) }
        let socket = OwnedDescriptor(taking: raw)
        var result: CInt
        while true {
            result = wanted.withPointer { connect(raw, $0, $1) }
            guard result != 0, errno == EAGAIN, case .unix = address else { break }
            // The listener's queue is full. No event reports when a unix socket has room again (connect(2)).
            guard ContinuousClock.now < end else { throw ProbeError(message: "no response in time") }
            usleep(retryMicroseconds)
        }
        if result != 0 {
            guard errno == EINPROGRESS else { throw ProbeError(message: Errno.text(of: errno)) }
            try wait(for: Int16(POLLOUT), on: raw, until: end)
            let code = Socket.pendingError(raw)
            if code != 0 { throw ProbeError(message: Errno.text(of: code)) }
        }
        return socket
    }

    /// A wildcard address is probed at the loopback address of its family.
    private static func socketAddress(of address: ListenerSettings.Address) throws(ProbeError) -> SocketAddress {
        let found: SocketAddress? =
            switch address {
            case .unix(let path): SocketAddress(path: path)
            case .tcp("0.0.0.0", let port): SocketAddress(host: "127.0.0.1", port: port)
            case .tcp(let host, let port) where AddressText.reach(host) == .wildcard:
                SocketAddress(host: "::1", port: port)
            case .tcp(let host, let port): SocketAddress(host: host, port: port)
            case .activated: nil
            }
        guard let found else { throw ProbeError(message: "not an address that can be connected to") }
        return found
    }

    private static func send(
        _ text: String, on socket: borrowing OwnedDescriptor, until end: ContinuousClock.Instant
    ) throws(ProbeError) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            switch rest.withUnsafeBytes({ Socket.send(socket.raw, $0) }) {
            case .bytes(let count): rest = rest.dropFirst(count)
            case .wouldBlock: try wait(for: Int16(POLLOUT), on: socket.raw, until: end)
            case .failed(let code): throw ProbeError(message: Errno.text(of: code))
            }
        }
    }

    /// Reads the response until its `Content-Length` is complete or the server closes.
    private static func receive(
        from socket: borrowing OwnedDescriptor, until end: ContinuousClock.Instant
    ) throws(ProbeError) -> [UInt8] {
        var response: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while response.count < bytesMax, !isWhole(response) {
            switch buffer.withUnsafeMutableBytes({ Socket.receive(socket.raw, into: $0) }) {
            case .bytes(let count): response += buffer[..<count]
            case .end: return response
            case .wouldBlock: try wait(for: Int16(POLLIN), on: socket.raw, until: end)
            case .failed(let code): throw ProbeError(message: Errno.text(of: code))
            }
        }
        return response
    }

    private static func isWhole(_ response: [UInt8]) -> Bool {
        guard let body = body(of: response) else { return false }
        let head = String(decoding: response[..<body.startIndex], as: UTF8.self).lowercased()
        let lines = head.split(separator: "\r\n")
        guard let line = lines.first(where: { $0.hasPrefix("content-length:") }) else { return false }
        guard let length = Int(line.drop { $0 != ":" }.dropFirst().drop { $0 == " " }) else { return false }
        return body.count >= length
    }

    /// The bytes after the empty line; nil: it has not arrived.
    private static func body(of response: [UInt8]) -> ArraySlice<UInt8>? {
        response.indices.first { response[$0...].starts(with: [13, 10, 13, 10]) }.map { response[($0 + 4)...] }
    }

    private static func wait(for events: Int16, on raw: CInt, until end: ContinuousClock.Instant) throws(ProbeError) {
        let left = end - ContinuousClock.now
        guard left > .zero else { throw ProbeError(message: "no response in time") }
        var item = pollfd(fd: raw, events: events, revents: 0)
        let milliseconds = left.components.seconds * 1000 + left.components.attoseconds / 1_000_000_000_000_000 + 1
        guard poll(&item, 1, CInt(clamping: milliseconds)) != 0 else {
            throw ProbeError(message: "no response in time")
        }
    }

    private static func outcome(of response: [UInt8]) throws(ProbeError) -> Outcome {
        let text = String(decoding: response, as: UTF8.self)
        let words = text.prefix { $0 != "\r\n" }.split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), words[1].utf8.count == 3, let status = Int(words[1])
        else {
            throw ProbeError(message: response.isEmpty ? "closed without a response" : "not an HTTP response")
        }
        guard let body = body(of: response) else { throw ProbeError(message: "an incomplete response") }
        return .responded(status: status, body: String(decoding: body, as: UTF8.self))
    }
}
