import LanyardFoundations
import LanyardSettings
import TestSupport
import Testing

/// A whole talk of one client over one connection, and what the upstream answers to it.
struct TornExchange: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// All that the client sends, at once; the last request closes the connection.
    let requests: [String]
    private let makeScript: @Sendable () -> RawServer.Script
    /// A new one for each upstream: some of them count.
    var script: RawServer.Script { makeScript() }
    let configure: @Sendable (inout ProxyBench.Plan) -> Void

    init(
        _ name: String, _ requests: String...,
        plan configure: @escaping @Sendable (inout ProxyBench.Plan) -> Void = { _ in },
        script: @autoclosure @escaping @Sendable () -> RawServer.Script
    ) {
        testDescription = name
        self.requests = requests
        makeScript = script
        self.configure = configure
    }

    /// The same with one response to every request.
    init(
        _ name: String, _ requests: String..., response: String,
        plan configure: @escaping @Sendable (inout ProxyBench.Plan) -> Void = { _ in }
    ) {
        testDescription = name
        self.requests = requests
        makeScript = { { _ in .text(response) } }
        self.configure = configure
    }

    private static let host = "HTTP/1.1\r\nHost: localhost\r\n"
    private static let last = host + "Connection: close\r\n"
    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: 1\r\n\r\nok"

    /// The table.
    static let all: [TornExchange] = requests + responses + routes + upgrades + replays

    private static let requests: [TornExchange] = [
        .init(
            "three pipelined requests, one with a body", "GET /1?a=b \(host)\r\n",
            "PUT /2 \(host)Content-Length: 5\r\n\r\nhello", "HEAD /3 \(last)\r\n"
        ) {
            .response(
                fields: [("Target", $0.message.target)],
                body: $0.message.method == "HEAD" ? "" : "\($0.message.method) \($0.message.bodyText)")
        },
        .init(
            "a chunked body with extensions and trailers",
            """
            POST /c \(host)Transfer-Encoding: chunked\r\nTrailer: T\r\n\r\n5;a=\"b;c\"\r\nhello\r\n0006 ; x\r\n\
             world\r\n0\r\nT: 1\r\n\r\n
            """,
            "GET /d \(last)\r\n"
        ) {
            .response(body: $0.message.bodyText)
        },
        .init(
            "absolute-form in HTTP/1.0, behind empty lines",
            "\r\n\r\nGET http://localhost/x?y HTTP/1.0\r\nVia: 1.0 a\r\nConnection: keep-alive\r\n\r\n",
            "GET /z HTTP/1.0\r\n\r\n", response: ok),
        .init(
            "a refusal between two requests", "GET /1 HTTP/1.1\r\nHost: evil\r\n\r\n", "GET /2 \(last)\r\n",
            response: ok),
        .init("a line folded", "GET /1 \(host)\r\n", "GET /2 \(host)A: 1\r\n folded\r\n\r\n", response: ok),
        .init(
            "length and coding", "GET /1 \(host)\r\n",
            "POST /2 \(host)Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", response: ok),
        .init(
            "OPTIONS *, TRACE, then an ordinary request", "OPTIONS * \(host)\r\n", "TRACE / \(host)\r\n",
            "GET / \(last)\r\n", response: ok),
        .init(
            "fields that are taken away",
            """
            GET / \(host)Authorization: x\r\nConnection: b, close\r\nB: 1\r\nTE: trailers\r\nX-Forwarded-For: 1\r\n\
            authorization: y\r\nC: 3\r\n\r\n
            """,
            response: ok),
        .init("bare line feeds", "GET / HTTP/1.1\nHost: localhost\n\n", response: ok),
        .init(
            "an empty chunked body, a refusal behind it",
            "DELETE / \(host)Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET /%zz \(last)\r\n", response: ok),
        .init(
            "HEAD, and a field that Connection names",
            "HEAD / \(host)Authorization: x\r\nConnection: close, authorization\r\n\r\n", response: ok),
        .init(
            "a body whose client does not wait for 100",
            "PUT /e \(host)Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "GET /f \(last)\r\n"
        ) {
            .response(body: $0.message.bodyText)
        },
    ]

    private static let get = "GET / \(last)\r\n"

    private static let responses: [TornExchange] = [
        .init(
            "chunked, extensions, trailers", "GET / \(host)\r\n", get,
            response:
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n5;x=\"y\"\r\nhello\r\n6\r\n world\r\n0\r\nT: 1\r\n\r\n"
        ),
        .init(
            "interim responses", get,
            response: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: l\r\n\r\n\(ok)"),
        .init("without a body", "GET / \(host)\r\n", get, response: "HTTP/1.1 204 No Content\r\nA: 1\r\n\r\n"),
        .init(
            "not modified", "GET / \(host)\r\n", get,
            response: "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: \"a\"\r\n\r\n"),
        .init("no reason phrase", get, response: "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
        .init("until the end, to HTTP/1.1", "GET / \(host)\r\n", get) { _ in
            .text("HTTP/1.0 200 OK\r\n\r\nuntil the end").closing
        },
        .init("until the end, to HTTP/1.0", "GET / HTTP/1.0\r\n\r\n") { _ in
            .text("HTTP/1.1 200 OK\r\n\r\nuntil the end").closing
        },
        .init(
            "a fault in the head", "GET / \(host)\r\n", get,
            response: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na"),
        .init(
            "a bare line feed", "GET / \(host)\r\n", get, response: "HTTP/1.1 200 OK\r\nA: 1\nContent-Length: 0\r\n\r\n"
        ),
        .init("a status of four digits", "GET / \(host)\r\n", get, response: "HTTP/1.1 2000 OK\r\n\r\n"),
        .init("the end within the head", get) { _ in .text("HTTP/1.1 200 OK\r\nA: 1\r\n").closing },
        .init(
            "fields that do not travel", get,
            response:
                """
                HTTP/1.1 200 OK\r\nConnection: keep-alive, X\r\nX: 1\r\nKeep-Alive: timeout=5\r\nLanyard-A: 1\r\n\
                Set-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n
                """
        ),
    ]

    private static let routes: [TornExchange] = [
        .init(
            "the client's Host, fields set, a request id's place", "GET /a/../b \(host)X-Set: mine\r\n\r\n",
            "GET /b \(last)\r\n", response: ok,
            plan: {
                $0.route.paths = .strict
                $0.route.host = .client
                $0.route.setHeaders = [RouteSettings.Field(name: "X-Set", value: "ours")]
            }),
        .init(
            "a body beyond the limit", "POST / \(host)Content-Length: 2\r\n\r\nab",
            "POST / \(host)Content-Length: 9\r\n\r\n123456789", response: ok, plan: { $0.route.bodyBytesMax = 4 }),
        .init(
            "the client's authorization passes", "GET / \(host)Authorization: mine\r\n\r\n", get, response: ok,
            plan: { $0.route.clientAuthorization = .pass }),
        .init(
            "a path that is mapped and filtered", "GET /a/x%20?y \(host)\r\n",
            "POST /%61 \(host)Content-Length: 2\r\n\r\nab",
            "GET /a/%6Eo/z \(host)\r\n", "GET /a/y%2f..%2fno \(host)\r\n", "GET /b \(host)\r\n",
            "GET /a/%zz \(host)\r\n",
            "GET /a \(last)\r\n", response: ok,
            plan: {
                $0.route.path = "/a"
                $0.route.upstreamPath = "/base/c"
                $0.route.deny = [RouteSettings.Denial(path: "/a/no", methods: [])]
            }),
        .init(
            "another field injected, the peer told, a request's id",
            "GET / \(host)Forwarded: for=a\r\nX-Real-IP: 1\r\nx_key: 1\r\nX-Key: 2\r\nAuthorization: mine\r\nX-Id: 3\r\n\r\n",
            get,
            response: ok,
            plan: {
                $0.route.injectHeader = "X-Key"
                $0.route.forwarded = .append
                $0.route.requestIDHeader = "X-Id"
            }),
        .init(
            "what a route refuses", "GET / \(host)Authorization: mine\r\n\r\n",
            "GET / \(host)X-Forwarded-For: 1\r\n\r\n",
            "PUT / \(host)\r\n", get, response: ok,
            plan: {
                $0.route.clientAuthorization = .reject
                $0.route.forwarded = .reject
                $0.route.methods = ["GET"]
            }),
    ]

    private static let asking = "GET /ws \(host)Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

    private static let upgrades: [TornExchange] = [
        .init("an upgrade, bytes at once on both sides", asking, "PING /x HTTP/1.1\r\n\r\n") {
            $0.message.method == "GET"
                ? .text("HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello\0")
                : .text("pong\r\n\r\n").closing
        },
        .init("an upgrade behind an early hint, and behind an empty line", "\r\n" + asking, "PING\r\n\r\n") {
            $0.message.method == "GET"
                ? .text(
                    "HTTP/1.1 103 Hint\r\nLink: l\r\n\r\nHTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                )
                : .text("pong\r\n\r\n").closing
        },
        .init("an upgrade refused, the next request behind it", asking, get) {
            $0.message.target == "/ws"
                ? .text("HTTP/1.1 426 No\r\nUpgrade: other\r\nContent-Length: 2\r\n\r\nno") : .text(ok)
        },
        .init(
            "trailers to a client that takes them", "GET / \(host)Connection: TE\r\nTE: trailers\r\n\r\n", get,
            response:
                "HTTP/1.1 200 OK\r\nTrailer: T\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: 1\r\nSet-Cookie: no\r\n\r\n"
        ),
    ]

    /// Refuses the token of every other request with this method.
    private static func refusing(
        _ response: @autoclosure @escaping @Sendable () -> RawResponse, method: String = "POST"
    ) -> RawServer.Script {
        let count = Guarded(0)
        return { request in
            guard request.message.method == method else { return .text(ok) }
            let number = count.withLock { count in
                count += 1
                return count
            }
            return number % 2 == 1 ? response() : .response(body: request.message.bodyText)
        }
    }

    private static let refusal = "HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno"
    private static let chunkedRefusal =
        "HTTP/1.1 401 No\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nno\r\n0\r\nT: 1\r\n\r\n"

    private static let replays: [TornExchange] = [
        .init(
            "a refused token, no body", "GET /r?b \(host)\r\n", "HEAD / \(last)\r\n",
            script: refusing(.text(refusal), method: "GET")),
        .init(
            "a refused token, the body held", "POST /1 \(host)Content-Length: 5\r\n\r\nhello", get,
            script: refusing(
                .text(
                    """
                    HTTP/1.1 103 Early\r\nLink: l\r\n\r\nHTTP/1.1 401 No\r\n\
                    WWW-Authenticate: Bearer error=\"invalid_token\"\r\nContent-Length: 2\r\n\r\nno
                    """))),
        .init(
            "a refused token, the body chunked, the refusal too",
            "POST /1 \(host)Transfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n1;x\r\n!\r\n0\r\nT: 1\r\n\r\n", get,
            script: refusing(.text(chunkedRefusal))),
        .init(
            "a refused token, an empty chunked body, a malformed request behind it",
            "PUT /1 \(host)Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
            script: refusing(.text("HTTP/1.1 401 No\r\n\r\nuntil the end").closing, method: "PUT")),
        .init(
            "a refused token in HTTP/1.0", "DELETE /1 HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc",
            script: refusing(.text(refusal), method: "DELETE")),
        .init(
            "another status that refuses the token", "POST /1 \(host)Content-Length: 5\r\n\r\nhello", get,
            plan: { $0.route.refusals.statuses = [403] },
            script: refusing(.text("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"))),
        .init(
            "a refusal that is relayed, as the body is not held",
            "POST /1 \(host)Content-Length: 5\r\n\r\nhello", "POST /2 \(last)Content-Length: 5\r\n\r\nhello",
            response: chunkedRefusal, plan: { $0.route.replayBodyMax = 4 }),
        .init(
            "a scope that does not suffice", get,
            response:
                """
                HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=\"a, b\", Bearer error=\"insufficient_scope\"\r\n\
                Content-Length: 2\r\n\r\nno
                """
        ),
    ]
}
