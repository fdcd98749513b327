import LanyardFoundations

/// What the browser of a login by authorization code does at the command's own address, request by request (RFC 8252 §7.3). It decides;
/// `RedirectListener` acts.
///
/// The browser opens `/begin/TOKEN` once, is redirected to the identity service, and comes back to `/callback` with the cookie of that
/// redirect. The authorization URI has the state, the nonce and the challenge of the login. As an argument of the browser's program it
/// would be in the process list: any local user could then complete the login with another account (session fixation). The begin address
/// shows nothing of the login, and a browser that has not opened it cannot come back.
package struct BrowserRedirect: Sendable {
    /// What the client of one request is told.
    package enum Page: Equatable, Sendable {
        /// To the identity service, with the cookie.
        case redirect
        /// The login has got its response.
        case accepted
        /// Lanyard has refused the response.
        case refused
        /// The begin address works once.
        case used
        /// The request has no cookie of this login.
        case foreign
        case malformed
        case notFound
    }

    /// What follows of one request.
    package enum Step: Equatable, Sendable {
        /// - hasBody: false for HEAD.
        case respond(Page, hasBody: Bool)
        /// The browser has come back with this query, without `?`, and waits for its page.
        case visit(Secret)
    }

    private enum State {
        /// The login has no authorization URI yet.
        case waiting
        case offered(uri: String)
        /// A browser has the cookie.
        case opened(uri: String)
    }

    private static let beginPrefix = "/begin/"
    private static let callbackPath = "/callback"
    /// As long as a login waits for its browser (oauth-logins.md 7.2).
    private static let cookieLifetimeSeconds = 600

    private let port: UInt16
    private let beginToken: Secret
    private let cookie: Secret
    private var state = State.waiting

    /// - Parameter port: of 127.0.0.1, where the command listens.
    package init(port: UInt16) {
        self.port = port
        (beginToken, cookie) = (Self.randomText(), Self.randomText())
    }

    /// 256 random bits in hexadecimal.
    private static func randomText() -> Secret {
        var text = SecretBuffer(capacity: 64)
        KeyedHash.newKey().withBytes { bytes in
            for byte in bytes {
                text.append(Hex.digit(byte >> 4))
                text.append(Hex.digit(byte & 15))
            }
        }
        return text.seal()
    }

    /// The redirect URI.
    package var redirectURI: String { "http://127.0.0.1:\(port)\(Self.callbackPath)" }

    /// What the user opens. It is shown, and it is an argument of the browser's program.
    package var beginURI: String {
        "http://127.0.0.1:\(port)\(Self.beginPrefix)" + beginToken.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// Cookies of a host are shared by its ports: two logins at once need two names.
    private var cookieName: String { "lanyard_login_\(port)" }

    /// The login has begun: the begin address leads to `uri`, once.
    package mutating func offer(_ uri: String) { state = .offered(uri: uri) }

    /// No byte of the redirect was sent: the begin address still works.
    package mutating func handleUnsentRedirect() { if case .opened(let uri) = state { state = .offered(uri: uri) } }

    /// One request whose head is complete.
    package mutating func handle(_ head: UnsafeRawBufferPointer) -> Step {
        guard let request = RequestHead(head) else { return .respond(.notFound, hasBody: true) }
        let hasBody = !request.method.elementsEqual("HEAD".utf8)
        // Another name in Host is a page of another site that has been led here (DNS rebinding).
        guard let host = request.onlyValue(of: "host"), isOwn(host), request.method.elementsEqual("GET".utf8) else {
            return .respond(.notFound, hasBody: hasBody)
        }
        // RFC 9112 §3.2: no URI has other bytes, and the admin API takes text.
        guard request.target.allSatisfy({ 0x21..<0x7f ~= $0 }) else { return .respond(.malformed, hasBody: true) }
        if let token = request.target.rest(after: Self.beginPrefix) {
            return .respond(open(token, isNavigation: request.isNavigation), hasBody: true)
        }
        guard let query = request.target.rest(after: Self.callbackPath + "?") else {
            return .respond(.notFound, hasBody: true)
        }
        guard case .opened = state, hasCookie(request) else { return .respond(.foreign, hasBody: true) }
        return .visit(Secret(copying: UnsafeRawBufferPointer(rebasing: query)))
    }

    /// The name of the redirect URI alone: a cookie that was set under another one, such as localhost, does not come back with it.
    private func isOwn(_ host: Slice<UnsafeRawBufferPointer>) -> Bool {
        // RFC 9110 §4.2.1: a browser leaves out the port of the scheme.
        host.matches("127.0.0.1:\(port)") || port == 80 && host.matches("127.0.0.1")
    }

    private mutating func open(_ token: Slice<UnsafeRawBufferPointer>, isNavigation: Bool) -> Page {
        guard beginToken.equals(UnsafeRawBufferPointer(rebasing: token)), isNavigation else { return .notFound }
        switch state {
        case .waiting: return .notFound
        case .offered(let uri):
            state = .opened(uri: uri)
            return .redirect
        case .opened: return .used
        }
    }

    private func hasCookie(_ request: RequestHead) -> Bool {
        request.values(of: "cookie").flatMap { $0.split(separator: UInt8(ascii: ";")) }.contains { pair in
            pair.trimmed.rest(after: cookieName + "=").map { cookie.equals(UnsafeRawBufferPointer(rebasing: $0)) }
                ?? false
        }
    }

    /// The whole response with this page, after which the connection is closed.
    package func response(_ page: Page, hasBody: Bool) -> Secret {
        var response = SecretBuffer(capacity: 2048)
        let text = Self.text(of: page)
        response.append("HTTP/1.1 \(Self.status(of: page))\r\n")
        if page == .redirect, case .opened(let uri) = state {
            response.append("Location: \(uri)\r\nSet-Cookie: \(cookieName)=")
            cookie.withBytes { response.append($0) }
            response.append("; Path=/; Max-Age=\(Self.cookieLifetimeSeconds); HttpOnly; SameSite=Lax\r\n")
        }
        if page == .accepted {
            response.append("Set-Cookie: \(cookieName)=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax\r\n")
        }
        response.append(
            "Content-Type: text/plain; charset=utf-8\r\nContent-Length: \(text.utf8.count)\r\nCache-Control: no-store\r\n"
                + "Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
                + "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n" + (hasBody ? text : ""))
        return response.seal()
    }

    private static func status(of page: Page) -> String {
        switch page {
        case .redirect: "303 See Other"
        case .accepted: "200 OK"
        case .refused, .foreign, .malformed: "400 Bad Request"
        case .used: "410 Gone"
        case .notFound: "404 Not Found"
        }
    }

    private static func text(of page: Page) -> String {
        switch page {
        case .redirect: "The login continues at the identity service."
        case .accepted: "The login continues in the terminal. This window can be closed."
        case .refused: "The login did not succeed. The terminal says why."
        case .used: "This address works once, and it has been opened. The terminal has more."
        case .foreign:
            "This browser has not begun the login, so nothing was changed. Open the address that the terminal shows."
        case .malformed: "The request has bytes that no address has."
        case .notFound: "There is nothing here."
        }
    }

    /// What the operator is told; nil: nothing.
    package static func notice(of page: Page) -> OperatorText? {
        switch page {
        case .used:
            """
            the address was opened a second time, which is refused; if your browser shows that, another program may have opened it \
            first: press Ctrl-C, and log in again
            """
        case .foreign:
            "a browser that has not opened the address above came back, which is refused; the login still waits"
        case .redirect, .accepted, .refused, .malformed, .notFound: nil
        }
    }
}

/// The head of one request (RFC 9112 §2), which borrows the bytes.
private struct RequestHead {
    let method: Slice<UnsafeRawBufferPointer>
    let target: Slice<UnsafeRawBufferPointer>
    private let fields: [(name: Slice<UnsafeRawBufferPointer>, value: Slice<UnsafeRawBufferPointer>)]

    /// nil: its first line is none of HTTP/1.
    init?(_ bytes: UnsafeRawBufferPointer) {
        let lines = bytes.split(separator: UInt8(ascii: "\n")).map { $0.last == 0x0d ? $0.dropLast() : $0 }
        guard let words = lines.first?.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false),
            words.count == 3, words[2].rest(after: "HTTP/1.") != nil
        else { return nil }
        (method, target) = (words[0], words[1])
        fields = lines.dropFirst().compactMap { line in
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { return nil }
            return (line[..<colon], line[line.index(after: colon)...].trimmed)
        }
    }

    func values(of name: String) -> [Slice<UnsafeRawBufferPointer>] {
        fields.filter { $0.name.matches(name) }.map(\.value)
    }

    /// nil: there is none, or more than one.
    func onlyValue(of name: String) -> Slice<UnsafeRawBufferPointer>? {
        let values = values(of: name)
        return values.count == 1 ? values[0] : nil
    }

    /// A user opens the address. Not: a browser fetches it ahead, or for a part of another page.
    var isNavigation: Bool {
        let isAhead = ["sec-purpose", "purpose", "x-purpose", "x-moz"].contains { !values(of: $0).isEmpty }
        return !isAhead && values(of: "sec-fetch-dest").allSatisfy { $0.matches("document") }
    }
}

extension Slice<UnsafeRawBufferPointer> {
    /// The same text, whatever its case.
    ///
    /// - Parameter text: in lower case.
    fileprivate func matches(_ text: String) -> Bool {
        count == text.utf8.count
            && zip(self, text.utf8).allSatisfy { byte, own in (0x41...0x5a ~= byte ? byte | 0x20 : byte) == own }
    }

    /// What follows `prefix`; nil: it begins otherwise.
    fileprivate func rest(after prefix: String) -> Self? {
        starts(with: prefix.utf8) ? dropFirst(prefix.utf8.count) : nil
    }

    /// Without blanks around it.
    fileprivate var trimmed: Self {
        var rest = self
        while let first = rest.first, first == 0x20 || first == 0x09 { rest.removeFirst() }
        while let last = rest.last, last == 0x20 || last == 0x09 { rest.removeLast() }
        return rest
    }
}
