import Glibc
import LanyardFoundations
import TestSupport
import Testing

/// The built binary with a token, before an upstream of plain sockets that records every byte.
///
/// One process serves a whole suite, which is `.serialized`: what the upstream received, the counters and the log are
/// then those of the current test. `startOver` draws the line between two tests. The process ends with the tests'.
final class HTTPBench: Sendable {
    /// What a suite may want otherwise; each text is YAML of one line.
    struct Plan {
        /// Keys of the listener; nil: `allowed_hosts` with `localhost:80` alone, which unix sockets do not have.
        var listener: String?
        /// Keys of both routes.
        var route = ""
        /// The upstream's path.
        var upstreamPath = ""
        /// The path that the recording upstream's route takes.
        var path = "/"
        /// Routes before it, whole list items that end in a comma. `UP` stands for the recording upstream's address.
        var routes = ""
        var limits = ""
        /// Further sections, a line each.
        var rest = ""
        /// Listener and upstream are unix sockets.
        var isUnix = false
        /// Further users, each behind a comma.
        var users = ""
        /// A command that ends by becoming the program.
        var launcher: [String] = []
        /// A rule holds however many there are; a suite that needs one number says why.
        var shards = HTTPBench.shards
        /// The binary's clock; nil: real time.
        var clock: TestClock?
        /// Starts without a token: the file that should hold it is empty.
        var hasToken = true
    }

    private struct State {
        var script = HTTPBench.standard
        /// Bytes of each upstream connection that earlier tests caused.
        var seen: [Int] = []
        var linesSeen = 0
        var fences = 0
        /// Since `startOver`, in the order of their arrival.
        var requests: [RawMessage] = []
    }

    /// What the upstream's threads and the tests share.
    private final class Memory: Sendable {
        let box = Guarded(State())
    }

    /// How many shards a bench has that asks for no number: `LANYARD_TEST_SHARDS`, else three.
    static let shards = LanyardProcess.shards ?? 3
    static let token = "bench.token-1~a_b+c/d=="
    /// 200 with the body `ok`, which HEAD only hears of.
    private static let standard: RawServer.Script = { request in
        request.message.method == "HEAD" ? .text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n") : .response()
    }
    /// A whole request for `path`, that a test puts behind another.
    static func plain(_ path: String) -> String { "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n" }

    let lanyard: LanyardProcess
    /// The binary's clock; nil: real time.
    let clock: TestClock?
    /// What the paths of the recording upstream's route begin with.
    let prefix: String
    let upstream: RawServer
    /// Accepts for the route `/hand`, by hand.
    private let listener: RawSocket
    private let folder: TemporaryFolder
    private let memory: Memory

    static func start(_ configure: (inout Plan) -> Void = { _ in }) async throws -> HTTPBench {
        var plan = Plan()
        configure(&plan)
        let folder = try TemporaryFolder()
        try folder.write("token", plan.hasToken ? token : "")
        let memory = Memory()
        let upstream = try RawServer(
            at: plan.isUnix ? .unix(folder.file("up")) : .tcp(0),
            script: { request in
                let script = memory.box.withLock { state in
                    state.requests.append(request.message)
                    return state.script
                }
                return try script(request)
            })
        let hand = try RawSocket.listen(at: plan.isUnix ? .unix(folder.file("hand")) : .tcp(0))
        let handPlace = plan.isUnix ? "unix:\(folder.file("hand"))" : "http://127.0.0.1:\(hand.localPort)"
        let place = plan.isUnix ? upstream.endpoint.description : "http://\(upstream.endpoint)"
        let keys = plan.route.isEmpty ? "" : ", \(plan.route)"
        let listener = plan.isUnix ? "unix:\(folder.file("in"))" : "127.0.0.1:0"
        let keysOfListener = plan.listener ?? (plan.isUnix ? "" : "allowed_hosts: [\"localhost:80\"]")
        let lanyard = try await LanyardProcess.start(
            """
            identities: {fixed: {static: {token_file: \(folder.file("token"))}}}
            users: {alice: {identity: fixed}\(plan.users)}
            routes: [\(plan.routes.replacing("UP", with: place))
              {name: hand, match: {path: /hand}, upstream: "\(handPlace)"\(keys)},
              {name: all, match: {path: \(plan.path)}, upstream: "\(place)\(plan.upstreamPath)"\(keys)}]
            limits: {\(plan.limits)}
            log: {level: debug}
            shards: \(plan.shards)
            \(plan.rest)
            """, listener: "address: \"\(listener)\", \(keysOfListener)", under: plan.clock,
            launcher: plan.launcher)
        plan.clock?.watch(upstream.threads)
        if plan.hasToken { try await lanyard.untilReady() }
        return HTTPBench(lanyard, plan.clock, plan.path == "/" ? "" : plan.path, upstream, hand, folder, memory)
    }

    /// The same with a clock that stands: time passes only by the clock's `pass`.
    static func startUnderClock(
        _ configure: (inout Plan) -> Void = { _ in }
    ) async throws -> (bench: HTTPBench, clock: TestClock) {
        let clock = try TestClock()
        let bench = try await start {
            configure(&$0)
            $0.clock = clock
        }
        clock.stop()
        return (bench, clock)
    }

    private init(
        _ lanyard: LanyardProcess, _ clock: TestClock?, _ prefix: String, _ upstream: RawServer, _ listener: RawSocket,
        _ folder: TemporaryFolder,
        _ memory: Memory
    ) {
        self.lanyard = lanyard
        self.clock = clock
        self.prefix = prefix
        self.upstream = upstream
        self.listener = listener
        self.folder = folder
        self.memory = memory
    }

    // MARK: A test's share

    /// Forgets what earlier tests did, and responds 200 `ok` again. What they began is done by then.
    func startOver() async throws {
        try await lanyard.process.settle()
        let seen = upstream.records.map(\.bytes.count)
        let lines = lanyard.process.lines.count
        memory.box.withLock {
            ($0.script, $0.seen, $0.linesSeen, $0.requests) = (Self.standard, seen, lines, [])
        }
    }

    /// How the upstream answers from now on.
    func script(_ script: @escaping RawServer.Script) { memory.box.withLock { $0.script = script } }

    /// What the upstream's connections received since `startOver`, in the order of the connections: bytes as
    /// characters, our random pseudonym as `lanyard-x`, the upstream's own authority as `up`.
    var received: [String] {
        records.compactMap { $0.fresh.isEmpty ? nil : normalised(Wire.text($0.fresh)) }
    }

    /// The upstream's connections, and what each received since `startOver`.
    private var records: [(ended: Bool, fresh: ArraySlice<UInt8>)] {
        let seen = memory.box.withLock { $0.seen }
        return upstream.records.enumerated().map { index, record in
            (record.ended, record.bytes.dropFirst(index < seen.count ? seen[index] : 0))
        }
    }

    /// Whether every upstream connection has ended that received a request for this target since `startOver`, whole or not.
    func hasEndedEach(with target: String) -> Bool {
        records.allSatisfy { $0.ended || !Wire.text($0.fresh.suffix(1 << 16)).contains(" \(target) ") }
    }

    /// The same without the requests of `fence`, which may follow another on its connection.
    var receivedWithoutFences: [String] {
        received.compactMap { text in
            guard let fence = text.firstRange(of: "GET \(prefix)/fence-") else { return text }
            return fence.lowerBound == text.startIndex ? nil : String(text[..<fence.lowerBound])
        }
    }

    /// The requests that the upstream has read whole since `startOver`, in their order, on whichever connections: each shard has its own.
    var requests: [RawMessage] { memory.box.withLock { $0.requests } }

    func normalised(_ text: String) -> String {
        text.replacing(/lanyard-[0-9a-f]{8}/, with: "lanyard-x").replacing("\(upstream.endpoint)", with: "up")
    }

    /// Lines that the binary has logged since `startOver`.
    var lines: [LogLine] { Array(lanyard.process.lines.dropFirst(memory.box.withLock { $0.linesSeen })) }

    /// A request of another client that goes upstream: what was forwarded before has arrived when it returns.
    func fence() async throws {
        let number = memory.box.withLock { state in
            state.fences += 1
            return state.fences
        }
        let response = try await ask(Self.plain("\(prefix)/fence-\(number)"))
        guard response.status == 200 else { throw TestFailure("the fence: \(response.headText)") }
    }

    /// Another content of the token's file: a new generation, or without any the end of the session.
    func writeToken(_ text: String) throws { try folder.write("token", text) }

    /// The file that had no token has it again, and the session knows: other tests use this bench, too.
    func restoreToken() async throws {
        guard let clock else { throw TestFailure("this bench has no clock") }
        try writeToken(Self.token)
        for _ in 0..<4 {
            try await clock.pass(LanyardProcess.fileDelay)
            if try await RawClient.ask(lanyard.health, "GET", "/readyz").status == 200 { return }
        }
        throw TestFailure("the token in the file serves no request")
    }

    // MARK: Talking

    /// A client's connection.
    ///
    /// - Parameter receiveBuffer: the kernel keeps about so many bytes that are not read; nil leaves it the choice.
    func connect(receiveBuffer: CInt? = nil) async throws -> Wire {
        try await .connect(to: lanyard.data, receiveBuffer: receiveBuffer)
    }

    /// The upstream connection that Lanyard makes, or has made, for a request to `/hand…`: nothing reads or answers there but the test.
    func accept() async throws -> Wire {
        let listener = listener
        guard let socket = listener.accept() else {
            throw TestFailure("no upstream connection was made")
        }
        return Wire(socket)
    }

    /// Takes the upstream connection that a request to `/hand…` leads to, reads the request's head and responds with the text.
    func acceptAndRespond(_ text: String) async throws -> (wire: Wire, head: String) {
        try await Wire.acceptAndRespond([text], on: listener)[0]
    }

    /// One request on a connection of its own.
    func ask(_ text: String, to method: String = "GET") async throws -> RawMessage {
        let client = try await connect()
        let response = try await client.ask(text, to: method)
        client.close()
        return response
    }

    /// The head that the upstream is to receive, as `received` shows it.
    ///
    /// - Parameters:
    ///   - line: method and target.
    ///   - fields: between `Host` and what Lanyard adds, framing included.
    ///   - via: the client's version; nil if `fields` hold our `Via` already.
    static func forwarded(_ line: String, _ fields: [String] = [], via: String? = "1.1") -> String {
        let added = via.map { ["Via: \($0) lanyard-x"] } ?? []
        let lines = ["\(line) HTTP/1.1", "Host: up"] + fields + added + ["Authorization: Bearer \(token)"]
        return lines.map { $0 + "\r\n" }.joined() + "\r\n"
    }

    // MARK: Time

    /// Passes a limit that has just begun. A second before its end nothing has come on this connection.
    ///
    /// - Parameter limit: nil: no time passes.
    func pass(_ limit: Duration?, sparing wire: Wire, sourceLocation: SourceLocation = #_sourceLocation) async throws {
        guard let limit else { return }
        guard let clock else { throw TestFailure("this bench has no clock") }
        try await clock.pass(limit - .seconds(1))
        #expect(!wire.hasInput, "it ended early", sourceLocation: sourceLocation)
        try await clock.pass(.seconds(2))
    }

    /// Passes a write limit again while `hasEnded` is false, at most four times. What the kernel sent since the last look counts as
    /// progress, and it sends late pieces as the other side's window opens.
    func passAgain(_ limit: Duration, until hasEnded: () -> Bool) async throws {
        guard let clock else { throw TestFailure("this bench has no clock") }
        for _ in 0..<4 where !hasEnded() { try await clock.pass(limit) }
    }

    // MARK: Counters

    /// Values of a counter or gauge by one of its labels; without labels under the empty name.
    func values(of metric: String, by label: String? = nil) async throws -> [String: Int] {
        let page = try await RawClient.ask(lanyard.health, "GET", "/metrics")
        var values: [String: Int] = [:]
        for line in page.bodyLines(beginning: metric) {
            let rest = line.dropFirst(metric.utf8.count)
            guard rest.first == "{" || rest.first == " ",
                let value = line.split(separator: " ").last.flatMap({ Double($0) })
            else { continue }
            let name = label.flatMap { label in
                rest.firstRange(of: "\(label)=\"").map { String(rest[$0.upperBound...].prefix { $0 != "\"" }) }
            }
            values[name ?? "", default: 0] += Int(value)
        }
        return values
    }

    /// Refused requests by reason.
    func rejections() async throws -> [String: Int] {
        try await values(of: "lanyard_rejected_requests_total", by: "reason")
    }
}
