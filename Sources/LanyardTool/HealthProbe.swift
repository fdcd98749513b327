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
        var storage = sockaddr_storage()
        let (family, length) = fill(&storage, with: address)
        let raw = socket(family, Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard raw >= 0 else { throw ProbeError(message: Errno.text(of: errno)) }
        let socket = OwnedDescriptor(taking: raw)
        var result: CInt
        while true {
            result = withUnsafeBytes(of: &storage) { bytes in
                connect(raw, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), length)
            }
            guard result != 0, errno == EAGAIN, case .unix = address else { break }
            // The listener's queue is full. No event reports when a unix socket has room again (connect(2)).
            guard ContinuousClock.now < end else { throw ProbeError(message: "no response in time") }
            usleep(retryMicroseconds)
        }
        if result != 0 {
            guard errno == EINPROGRESS else { throw ProbeError(message: Errno.text(of: errno)) }
            try wait(for: Int16(POLLOUT), on: raw, until: end)
            var (code, size) = (CInt(0), socklen_t(MemoryLayout<CInt>.size))
            getsockopt(raw, SOL_SOCKET, SO_ERROR, &code, &size)
            if code != 0 { throw ProbeError(message: Errno.text(of: code)) }
        }
        return socket
    }

    /// A wildcard address is probed at the loopback address of its family.
    private static func fill(
        _ storage: inout sockaddr_storage, with address: ListenerSettings.Address
    ) -> (family: CInt, length: socklen_t) {
        withUnsafeMutableBytes(of: &storage) { bytes in
            switch address {
            case .unix(let path):
                var unix = sockaddr_un()
                unix.sun_family = sa_family_t(AF_UNIX)
                withUnsafeMutableBytes(of: &unix.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
                bytes.storeBytes(of: unix, as: sockaddr_un.self)
                return (AF_UNIX, socklen_t(MemoryLayout<sockaddr_un>.size))
            case .tcp(let host, let port) where host.utf8.contains(UInt8(ascii: ":")):
                var six = sockaddr_in6()
                six.sin6_family = sa_family_t(AF_INET6)
                six.sin6_port = port.bigEndian
                inet_pton(AF_INET6, AddressText.reach(host) == .wildcard ? "::1" : host, &six.sin6_addr)
                bytes.storeBytes(of: six, as: sockaddr_in6.self)
                return (AF_INET6, socklen_t(MemoryLayout<sockaddr_in6>.size))
            case .tcp(let host, let port):
                var four = sockaddr_in()
                four.sin_family = sa_family_t(AF_INET)
                four.sin_port = port.bigEndian
                let here = host == "localhost" || AddressText.reach(host) == .wildcard
                inet_pton(AF_INET, here ? "127.0.0.1" : host, &four.sin_addr)
                bytes.storeBytes(of: four, as: sockaddr_in.self)
                return (AF_INET, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    private static func send(
        _ text: String, on socket: borrowing OwnedDescriptor, until end: ContinuousClock.Instant
    ) throws(ProbeError) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(socket.raw, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count > 0 {
                rest = rest.dropFirst(count)
            } else if errno == EAGAIN {
                try wait(for: Int16(POLLOUT), on: socket.raw, until: end)
            } else if errno != EINTR {
                throw ProbeError(message: Errno.text(of: errno))
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
            let count = recv(socket.raw, &buffer, buffer.count, 0)
            if count > 0 {
                response += buffer[..<count]
            } else if count == 0 {
                break
            } else if errno == EAGAIN {
                try wait(for: Int16(POLLIN), on: socket.raw, until: end)
            } else if errno != EINTR {
                throw ProbeError(message: Errno.text(of: errno))
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
