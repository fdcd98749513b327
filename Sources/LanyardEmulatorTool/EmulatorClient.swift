import CLinux
import Foundation
import Glibc

/// Asks a running emulator. One GET on a new connection, which may take 10 seconds at each step.
struct EmulatorClient {
    /// Why there is no response. A type of its own, because each case has its exit status.
    enum CallError: Error, CustomStringConvertible {
        case url(String)
        case unreachable(String)
        case refused(String)

        var description: String {
            switch self {
            case .url(let text): "expected http://HOST:PORT or unix:/PATH, not \(text)"
            case .unreachable(let text): "the emulator cannot be reached: \(text)"
            case .refused(let text): "the emulator has refused: \(text)"
            }
        }
    }

    private enum Address {
        case host(String, port: String)
        case path(String)
    }

    private static let stepSeconds = 10
    /// Bytes of a response.
    private static let bytesMax = 64 << 20

    private let url: String
    private let address: Address

    /// - Parameter url: `http://HOST:PORT` or `unix:/PATH`.
    init(_ url: String) throws(CallError) {
        self.url = url
        if url.hasPrefix("unix:/") {
            address = .path(String(url.dropFirst(5)))
            return
        }
        guard let parts = URLComponents(string: url), parts.scheme == "http", let host = parts.host, !host.isEmpty,
            parts.path.isEmpty || parts.path == "/", parts.query == nil
        else { throw .url(url) }
        let name = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        address = .host(name, port: String(parts.port ?? 80))
    }

    /// The body of a response with status 200.
    func get(_ path: String, query: [(name: String, value: String)]) throws(CallError) -> Data {
        var target = URLComponents()
        target.path = path
        target.queryItems = query.map { URLQueryItem(name: $0.name, value: $0.value) }
        let socket = try connect()
        defer { close(socket) }
        try send("GET \(target.string ?? path) HTTP/1.0\r\nHost: localhost\r\n\r\n", on: socket)
        let bytes = try readToEnd(socket)
        let separator = Data("\r\n\r\n".utf8)
        guard let head = bytes.range(of: separator) else { throw .unreachable("\(url) sends no HTTP response") }
        let words = String(decoding: bytes[..<head.lowerBound], as: UTF8.self).split(separator: " ", maxSplits: 2)
        let body = bytes[head.upperBound...]
        guard words.count > 1, words[1] == "200" else {
            throw .refused(String(decoding: body.prefix(500), as: UTF8.self))
        }
        return Data(body)
    }

    private func connect() throws(CallError) -> CInt {
        switch address {
        case .path(let path): return try connect(path: path)
        case .host(let host, let port):
            var hints = addrinfo()
            hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
            var list: UnsafeMutablePointer<addrinfo>?
            let status = getaddrinfo(host, port, &hints, &list)
            guard status == 0 else { throw .unreachable("\(url): \(String(cString: gai_strerror(status)))") }
            defer { freeaddrinfo(list) }
            var failure = ""
            var next = list
            while let entry = next?.pointee {
                let socket = open(entry.ai_family)
                if Glibc.connect(socket, entry.ai_addr, entry.ai_addrlen) == 0 { return socket }
                failure = String(cString: strerror(errno))
                close(socket)
                next = entry.ai_next
            }
            throw .unreachable("\(url): \(failure)")
        }
    }

    private func connect(path: String) throws(CallError) -> CInt {
        var name = sockaddr_un()
        name.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: name.sun_path) else { throw .url(url) }
        withUnsafeMutableBytes(of: &name.sun_path) { $0.copyBytes(from: bytes) }
        let socket = open(AF_UNIX)
        let status = withUnsafePointer(to: &name) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard status == 0 else {
            let failure = String(cString: strerror(errno))
            close(socket)
            throw .unreachable("\(url): \(failure)")
        }
        return socket
    }

    private func open(_ family: CInt) -> CInt {
        let descriptor = socket(family, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        var limit = timeval(tv_sec: Self.stepSeconds, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
        return descriptor
    }

    private func send(_ text: String, on socket: CInt) throws(CallError) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw .unreachable("\(url): \(String(cString: strerror(errno)))") }
            rest = rest.dropFirst(count)
        }
    }

    private func readToEnd(_ socket: CInt) throws(CallError) -> Data {
        var data = Data()
        var room = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(socket, &room, room.count, 0)
            if count == 0 { return data }
            guard count > 0, data.count < Self.bytesMax else {
                throw .unreachable("\(url): \(String(cString: strerror(errno)))")
            }
            data.append(contentsOf: room[..<count])
        }
    }
}
