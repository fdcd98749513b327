import CLinux
import Glibc
import LanyardClient
import LanyardFoundations

/// Where the browser begins a login by authorization code and comes back: a loopback address with a port of its own (RFC 8252 §7.3).
///
/// `BrowserRedirect` decides. The pages are plain and show nothing of the login. It never blocks: browsers open connections ahead on
/// which nothing comes, and such a connection delays no other.
final class RedirectListener {
    /// A browser that has come back with a query, and waits for its page.
    struct Visit {
        /// Without `?`. It has the code, which works once.
        let query: Secret
        fileprivate let connection: Connection
        fileprivate let redirect: BrowserRedirect

        /// Sends the page and closes the connection.
        func respond(_ page: BrowserRedirect.Page) {
            _ = RedirectListener.send(redirect.response(page, hasBody: true), on: connection)
        }
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

    private static let headBytesMax = 20 << 10
    /// Of connections at a time: beyond it the oldest one is closed.
    private static let connectionsMax = 16

    private let descriptor: CInt
    let port: UInt16
    private var redirect: BrowserRedirect
    private var connections: [Connection] = []
    /// Pages whose notice the operator has got, and those that follow.
    private var toldPages: [BrowserRedirect.Page] = []
    private var notices: [OperatorText] = []

    /// Binds. nil: `errno` says why not.
    ///
    /// - Parameter port: 0: a free one.
    init?(port: UInt16) {
        let kind = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let descriptor = socket(AF_INET, Int32(kind), 0)
        guard descriptor >= 0 else { return nil }
        // A registered port is bound again at once, while connections of the login before are in TIME_WAIT.
        var isReused: CInt = 1
        _ = setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isReused, socklen_t(MemoryLayout<CInt>.size))
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
        redirect = BrowserRedirect(port: self.port)
    }

    deinit { close(descriptor) }

    /// The redirect URI.
    var uri: String { redirect.redirectURI }

    /// The address to open leads to `uri` from now on, once.
    ///
    /// - Returns: the address.
    func offer(_ uri: String) -> String {
        redirect.offer(uri)
        return redirect.beginURI
    }

    /// What the operator is told of refused requests, each once.
    func takeNotices() -> [OperatorText] {
        defer { notices = [] }
        return notices
    }

    /// What can be read when a browser comes or sends.
    var descriptors: [CInt] { [descriptor] + connections.map(\.descriptor) }

    /// Takes what has come, without waiting. nil: no browser has come back; any other client has its response.
    func visit() -> Visit? {
        accept()
        while let index = connections.firstIndex(where: { Self.read($0) != .incomplete }) {
            let connection = connections.remove(at: index)
            switch connection.head.withBytes({ redirect.handle($0) }) {
            case .visit(let query): return Visit(query: query, connection: connection, redirect: redirect)
            case .respond(let page, let hasBody):
                let isSent = Self.send(redirect.response(page, hasBody: hasBody), on: connection)
                if page == .redirect, !isSent { redirect.handleUnsentRedirect() }
                addNotice(of: page)
            }
        }
        let now = ContinuousClock.now
        connections.removeAll { $0.end < now }
        return nil
    }

    private func addNotice(of page: BrowserRedirect.Page) {
        guard let notice = BrowserRedirect.notice(of: page), !toldPages.contains(page) else { return }
        toldPages.append(page)
        notices.append(notice)
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

    /// - Returns: false: nothing was sent.
    private static func send(_ response: Secret, on connection: Connection) -> Bool {
        let sent = response.withBytes {
            Glibc.send(connection.descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
        }
        _ = shutdown(connection.descriptor, Int32(SHUT_WR))
        return sent > 0
    }
}
