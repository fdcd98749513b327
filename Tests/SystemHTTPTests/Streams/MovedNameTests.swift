import TestSupport
import Testing

@testable import SystemTestSupport

/// An upstream's name gets another address while Lanyard runs.
@Suite(
    .serialized,
    .enabled(if: MountNamespace.isPossible, "needs root and a mount namespace of its own"))
struct MovedNameTests {
    /// Shorter than the 30 s after which an idle connection is closed anyway.
    private static let refresh = Duration.seconds(20)
    private static let first = "127.0.0.2 upstream.test"
    private static let second = "127.0.0.3 upstream.test"

    private let hosts: OwnHostsFile
    private let clock: TestClock
    private let old: RawServer
    private let new: RawServer
    /// The old server has a request for `/held`, and it may respond to that.
    private let isHeld = Milestone()
    private let isReleased = Milestone()

    init() throws {
        hosts = try OwnHostsFile([Self.first])
        clock = try TestClock()
        let (isHeld, isReleased) = (isHeld, isReleased)
        old = try RawServer(at: .loopback(2, 0), requestsKeptMax: 0) { request in
            guard request.message.target == "/held" else { return .response(body: "old") }
            isHeld.set()
            return .response(body: "old").after(isReleased)
        }
        // Another program that listens at this port of this address would be a rare accident, and be told.
        new = try RawServer(at: .loopback(3, old.endpoint.port), requestsKeptMax: 0) { _ in .response(body: "new") }
        clock.watch(old.threads)
        clock.watch(new.threads)
    }

    /// The clock stands from then on.
    private func lanyard(shards: String = "auto") async throws -> LanyardProcess {
        let lanyard = try await LanyardProcess.start(
            before: "http://upstream.test:\(old.endpoint.port)", route: "unsafe_plain: true",
            rest: "upstream_dns: {refresh: \(Self.refresh.components.seconds)s}\nshards: \(shards)\n",
            under: clock, launcher: hosts.launcher)
        clock.stop()
        return lanyard
    }

    /// Ends it in time that passes.
    private func end(_ lanyard: LanyardProcess) async throws {
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test(
        "under load, requests go to a name's new address within upstream_dns.refresh, and none fails while both respond"
    )
    func underLoad() async throws {
        let lanyard = try await lanyard()
        let clients = try (0..<8).map { _ in try RawClient(lanyard.data) }
        func send(_ path: String, on client: RawClient) throws {
            try client.send("GET \(path) HTTP/1.1\r\nHost: \(lanyard.data)\r\n\r\n")
        }
        /// A request of each client at once.
        func ask() throws -> Set<String> {
            for client in clients { try send("/", on: client) }
            return try Set(
                clients.map { client in
                    let response = try client.response()
                    return response.status == 200 ? response.bodyText : "\(response.status)"
                })
        }
        // More than one lookup finds the old address.
        for _ in 0..<6 {
            #expect(try ask() == ["old"])
            try await clock.pass(Self.refresh / 4)
        }
        #expect(new.connectionCount == 0)
        let held = try RawClient(lanyard.data)
        try send("/held", on: held)
        try await eventually("a request is in progress at the old address") { isHeld.isSet }
        try hosts.write([Self.second])
        var responses: Set<String> = []
        try await clock.pass(Self.refresh, grain: .seconds(1)) { responses.formUnion(try ask()) }
        #expect(responses == ["old", "new"])
        #expect(try ask() == ["new"])
        isReleased.set()
        let last = try held.response()
        #expect(last.status == 200 && last.bodyText == "old")
        // Pooled connections to it are given up, not only left alone.
        try await eventually("no connection to the old address is open") { old.openCount == 0 }
        old.stop()
        try await clock.pass(Self.refresh)
        #expect(try ask() == ["new"])
        try await end(lanyard)
    }

    @Test(
        "after a pause the first request already goes to the new address, and idle connections to the old one are closed"
    )
    func afterPause() async throws {
        let lanyard = try await lanyard()
        #expect(try await lanyard.get("/").bodyText == "old")
        #expect(old.openCount == 1)
        try hosts.write([Self.second])
        try await clock.pass(Self.refresh)
        #expect(old.openCount == 0)
        #expect(try await lanyard.get("/").bodyText == "new")
        // Nothing is open for longer than the response serves: a request that comes then asks anew.
        new.closeAll()
        try await clock.pass(Self.refresh)
        try hosts.write([Self.first])
        #expect(try await lanyard.get("/").bodyText == "old")
        try await end(lanyard)
    }

    @Test("a name that can no longer be resolved keeps its last addresses")
    func lost() async throws {
        let lanyard = try await lanyard()
        #expect(try await lanyard.get("/").bodyText == "old")
        try hosts.write([])
        for _ in 0..<5 {
            old.closeAll()
            try await clock.pass(Self.refresh / 2)
            #expect(try await lanyard.get("/").bodyText == "old")
        }
        try hosts.write([Self.second])
        try await clock.pass(until: "it is resolved again", atMost: Self.refresh, grain: .seconds(1)) {
            try await lanyard.get("/").bodyText == "new"
        }
        try await end(lanyard)
    }

    @Test("an address that is added leaves connections to the others alone")
    func added() async throws {
        let lanyard = try await lanyard(shards: "1")
        #expect(try await lanyard.get("/").bodyText == "old")
        try hosts.write([Self.first, Self.second])
        for _ in 0..<6 {
            try await clock.pass(Self.refresh / 4)
            #expect(try await lanyard.get("/").bodyText == "old")
        }
        #expect(old.connectionCount == 1)
        try await end(lanyard)
    }
}
