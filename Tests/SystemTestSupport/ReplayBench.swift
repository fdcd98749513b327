import LanyardFoundations
import TestSupport

/// The built binary with a session at the emulator, before an upstream that refuses tokens as the test says (http-forwarding.md 17).
///
/// Refreshes may be forced at any time, so that tests do not wait for one another's cooldown.
final class ReplayBench: Sendable {
    let emulator: EmulatorProcess
    let lanyard: LanyardProcess
    let upstream: RawServer
    /// Accepts for the route `/hand`, by hand.
    private let listener: RawSocket
    private let box: ScriptBox

    private final class ScriptBox: Sendable {
        let script = Guarded<RawServer.Script>({ _ in .response() })
    }

    /// - Parameter routes: routes of a test's own, each a list item that ends in a comma; `UP` stands for the upstream.
    static func start(routes: String = "", refresh: String = "cooldown: 0s, per_hour_max: 100000") async throws
        -> ReplayBench
    {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let box = ScriptBox()
        let upstream = try RawServer { try box.script.withLock { $0 }($0) }
        let listener = try RawSocket.listen(at: .tcp(0))
        let lanyard = try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
            users:
              alice:
                identity: demo
                login: {email_password: {email: \(EmulatorProcess.email), password_file: \(emulator.passwordFile)}}
            routes: [\(routes.replacing("UP", with: "http://\(upstream.endpoint)"))
              {name: hand, match: {path: /hand}, upstream: "http://127.0.0.1:\(listener.localPort)"},
              {name: all, upstream: "http://\(upstream.endpoint)"}]
            refresh: {\(refresh)}
            log: {level: debug}
            shards: 2
            """, listener: "address: \"127.0.0.1:0\", allowed_hosts: [\"localhost:80\"]")
        try await lanyard.untilReady()
        return ReplayBench(emulator, lanyard, upstream, listener, box)
    }

    private init(
        _ emulator: EmulatorProcess, _ lanyard: LanyardProcess, _ upstream: RawServer, _ listener: RawSocket,
        _ box: ScriptBox
    ) {
        (self.emulator, self.lanyard, self.upstream, self.listener, self.box) = (
            emulator, lanyard, upstream, listener, box
        )
    }

    /// How the upstream answers each request's first sending; the others get 200 with what has arrived. Requests are
    /// told apart by their target.
    func refuses(first response: @escaping @Sendable () -> RawResponse) {
        let seen = Guarded<Set<String>>([])
        box.script.withLock {
            $0 = { request in
                let isFirst = seen.withLock { $0.insert(request.message.target).inserted }
                return isFirst ? response() : .response(body: "\(request.message.method) \(request.message.bodyCount)")
            }
        }
    }

    /// How the upstream answers from now on.
    func responses(_ response: @escaping @Sendable () -> RawResponse) {
        box.script.withLock { $0 = { _ in response() } }
    }

    /// What the upstream received for a target.
    func received(_ target: String) -> [RawMessage] { upstream.requests.filter { $0.target == target } }

    /// Text of a request, our random pseudonym as `lanyard-x`, its token as `TOKEN`.
    func normalized(_ text: String) -> String {
        text.replacing(/lanyard-[0-9a-f]{8}/, with: "lanyard-x").replacing(/Bearer [^\r]*/, with: "Bearer TOKEN")
    }

    /// Sends bytes and reads the raw response, up to the end of the connection.
    func ask(_ text: String) async throws -> String {
        let client = try await connect()
        try await client.send(text)
        return try await client.rest().text.replacing(/Date: [^\r]*/, with: "Date: d")
    }

    func connect() async throws -> Wire { try await .connect(to: lanyard.data) }

    /// The upstream connection that a request to `/hand…` leads to.
    func accept() async throws -> Wire {
        let listener = listener
        guard let socket = listener.accept() else { throw TestFailure("the listener has ended") }
        return Wire(socket)
    }

    /// Takes an upstream connection for each text, reads its request's head and responds with the text.
    func acceptAndRespond(_ texts: [String]) async throws -> [(wire: Wire, head: String)] {
        try await Wire.acceptAndRespond(texts, on: listener)
    }

    /// Calls of the identity service's refresh so far.
    func refreshes() async throws -> Int { try await emulator.calls("refresh") }

    /// A counter's value: the sum of its samples whose labels hold `label`.
    func count(_ metric: String, _ label: String = "") async throws -> Int {
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics").bodyText
        let lines = page.split(separator: "\n").filter { $0.hasPrefix(metric) && (label.isEmpty || $0.contains(label)) }
        return lines.reduce(0) { $0 + Int($1.split(separator: " ").last.flatMap { Double($0) } ?? 0) }
    }
}
