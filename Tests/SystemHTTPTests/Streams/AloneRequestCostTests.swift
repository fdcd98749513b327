import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// What one more request costs on kept connections, in calls of functions (docs/performance.md). Exact counts: a change that costs more is
/// seen, however busy the machine is. Alone, since a program in valgrind needs much of the machine.
@Suite(.serialized, .enabled(if: CallgrindProfile.obstacle == nil, "\(CallgrindProfile.obstacle ?? "")"))
struct AloneRequestCostTests {
    private static let clients = 16

    /// Calls of these functions that a request adds, with the access log: the difference of a long and a short run of the program.
    private func cost(of functions: [String], _ request: String) async throws -> [String: Double] {
        let folder = try TemporaryFolder()
        let program = try await CallgrindProfile.program(in: folder)
        let (few, many) = (20, 80)
        var profiles: [CallgrindProfile] = []
        for rounds in [few, many] {
            let file = folder.file("profile.\(rounds)")
            try await serve(rounds, request, program, profile: file)
            profiles.append(try CallgrindProfile(of: file))
        }
        let requests = Double((many - few) * Self.clients)
        return Dictionary(
            uniqueKeysWithValues: functions.map { name in
                (name, Double(profiles[1].calls(of: name) - profiles[0].calls(of: name)) / requests)
            })
    }

    /// Each client sends its next request when all have their responses. So several requests share a turn of the loop, as under load.
    private func serve(_ rounds: Int, _ request: String, _ program: String, profile: String) async throws {
        let upstream = try RawServer(at: .tcp(0)) { _ in .response(body: "ok") }
        let lanyard = try await LanyardProcess.start(
            """
            routes: [{name: all, upstream: "http://\(upstream.endpoint)"}]
            shards: 1
            log: {access: true}
            """, token: "cost-token", launcher: CallgrindProfile.launcher(to: profile), binary: program)
        try await lanyard.untilReady()
        let clients = try (0..<Self.clients).map { _ in try RawClient(lanyard.data) }
        for _ in 0..<rounds {
            for client in clients { try client.send(request.replacing("HOST", with: "\(lanyard.data)")) }
            for client in clients { #expect(try client.response().status == 200) }
        }
        for client in clients { client.close() }
        // valgrind writes the profile at the end, whatever the program's exit.
        try await lanyard.process.terminate()
    }

    @Test("a request counts few references, allocates nothing, and is sent once on each side")
    func get() async throws {
        let cost = try await cost(
            of: ["swift_retain", "swift_release", "malloc", "send", "sendmsg"],
            "GET / HTTP/1.1\r\nHost: HOST\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n")
        #expect(cost["swift_retain", default: 99] <= 63, "\(cost)")
        #expect(cost["swift_release", default: 99] <= 72, "\(cost)")
        #expect(cost["malloc", default: 99] <= 1, "\(cost)")
        #expect(cost["send", default: 99] + cost["sendmsg", default: 99] <= 2.1, "\(cost)")
    }

    @Test("head and body of an upload that arrive together go up in one write")
    func upload() async throws {
        let body = String(repeating: "x", count: 1024)
        let cost = try await cost(
            of: ["send", "sendmsg"],
            "POST / HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1024\r\n\r\n\(body)")
        #expect(cost["send", default: 99] + cost["sendmsg", default: 99] <= 2.1, "\(cost)")
    }
}
