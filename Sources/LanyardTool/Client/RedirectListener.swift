import CLinux
import Glibc
import LanyardFoundations

/// Where the browser comes back after a login by authorization code: a loopback address with a port of its own (RFC 8252 §7.3).
///
/// It serves one page, to one path. The pages are plain and show nothing of the login. It never blocks: browsers open connections ahead
/// on which nothing comes, and such a connection delays no other.
final class RedirectListener {
    /// What the browser is told.
    enum Page {
        case accepted
        case refused
        case notFound
    }

    /// A browser that has come with a query, and waits for its page.
    struct Visit {
        /// Without `?`. It has the code, which works once.
        let query: Secret
        fileprivate let connection: Connection

        /// Sends the page and closes the connection.
        func respond(_ page: Page) { RedirectListener.respond(page, on: connection) }
    }

    /// A connection whose request is not complete yet. It is closed with its last owner.
    fileprivate final class Connection {
        let descriptor: CInt
        /// A client that has not sent its request by then is no browser.
        let end = ContinuousClock.now + .seconds(5)
        var head = SecretBuffer(capacity: 4096)

        init(_ descriptor: CInt) { self.descriptor = descriptor }
        deinit { close(descriptor) }
    }

    private enum Reading {
        case incomplete
        case ended
        case head
    }

    private static let path = "/callback"
    private static let headBytesMax = 20 << 10
    /// Of connections at a time: beyond it the oldest one is closed.
    private static let connectionsMax = 16

    private let descriptor: CInt
    let port: UInt16
    private var connections: [Connection] = []

    /// Binds. nil: `errno` says why not.
    ///
    /// - Parameter port: 0: a free one.
    init?(port: UInt16) {
        let kind = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let descriptor = socket(AF_INET, Int32(kind), 0)
        guard descriptor >= 0 else { return nil }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { raw in
                bind(descriptor, raw, length) == 0 && listen(descriptor, 8) == 0
                    && getsockname(descriptor, raw, &length) == 0
            }
        }
        guard isBound else {
            let error = errno
            close(descriptor)
            errno = error
            return nil
        }
        self.descriptor = descriptor
        self.port = UInt16(bigEndian: address.sin_port)
    }

    deinit { close(descriptor) }

    /// The redirect URI.
    var uri: String { "http://127.0.0.1:\(port)\(Self.path)" }

    /// What can be read when a browser comes or sends.
    var descriptors: [CInt] { [descriptor] + connections.map(\.descriptor) }

    /// Takes what has come, without waiting. nil: no browser has come back; any other client has its response.
    func visit() -> Visit? {
        accept()
        while let index = connections.firstIndex(where: { Self.read($0) != .incomplete }) {
            let connection = connections.remove(at: index)
            if let query = query(of: connection) { return Visit(query: query, connection: connection) }
            Self.respond(.notFound, on: connection)
        }
        let now = ContinuousClock.now
        connections.removeAll { $0.end < now }
        return nil
    }

    private func accept() {
        while true {
            let accepted = lanyard_accept(descriptor, nil, nil)
            guard accepted >= 0 else { return }
            connections.append(Connection(accepted))
            if connections.count > Self.connectionsMax { connections.removeFirst() }
        }
    }

    private static func read(_ connection: Connection) -> Reading {
        var room = [UInt8](repeating: 0, count: 4096)
        defer { room.withUnsafeMutableBytes { lanyard_wipe($0.baseAddress!, $0.count) } }
        while connection.head.count < headBytesMax {
            let count = recv(connection.descriptor, &room, room.count, 0)
            if count < 0, errno == EAGAIN || errno == EINTR { return .incomplete }
            guard count > 0 else { return .ended }
            room.withUnsafeBytes { connection.head.append(UnsafeRawBufferPointer(rebasing: $0.prefix(count))) }
            let isWhole = connection.head.withBytes { bytes in
                bytes.count >= 4
                    && (0...(bytes.count - 4)).contains { bytes[$0..<($0 + 4)].elementsEqual("\r\n\r\n".utf8) }
            }
            if isWhole { return .head }
        }
        return .ended
    }

    /// The query of `GET /callback?…`, from this address by name.
    private func query(of connection: Connection) -> Secret? {
        connection.head.withBytes { bytes in
            let lines = bytes.split(separator: UInt8(ascii: "\n"))
            // Another name in Host is a page of another site that has been led here (DNS rebinding).
            let hosts = ["127.0.0.1:\(port)", "localhost:\(port)"].map { "host: " + $0 }
            let hasHost = lines.dropFirst().contains { line in
                let text = String(decoding: line.filter { $0 != 0x0d }, as: UTF8.self).lowercased()
                return hosts.contains(text)
            }
            guard hasHost, let first = lines.first else { return nil }
            let words = first.split(separator: UInt8(ascii: " "))
            let prefix = "\(Self.path)?".utf8
            guard words.count == 3, words[0].elementsEqual("GET".utf8), words[1].starts(with: prefix) else {
                return nil
            }
            return Secret(copying: UnsafeRawBufferPointer(rebasing: words[1].dropFirst(prefix.count)))
        }
    }

    private static func respond(_ page: Page, on connection: Connection) {
        let (status, text) =
            switch page {
            case .accepted: ("200 OK", "The login continues in the terminal. This window can be closed.")
            case .refused: ("400 Bad Request", "The login did not succeed. The terminal says why.")
            case .notFound: ("404 Not Found", "There is nothing here.")
            }
        let response =
            "HTTP/1.1 \(status)\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: \(text.utf8.count)\r\n"
            + "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
            + "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n" + text
        let bytes = Array(response.utf8)
        _ = send(connection.descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL))
        _ = shutdown(connection.descriptor, Int32(SHUT_WR))
    }
}
