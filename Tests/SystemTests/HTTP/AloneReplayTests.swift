import Dispatch
import TestSupport
import Testing

/// A crowd of refused requests holds four hundred threads of the tests: beside others it starves them.
@Suite(.timeLimit(minutes: 3)) struct AloneReplayTests {
    @Test("17.1 Two hundred requests that are refused at once cause one refresh; each is sent twice and sees one 200")
    func crowd() async throws {
        let bench = try await ReplayBench.start(routes: "")
        let size = 200
        let arrived = DispatchGroup()
        for _ in 0..<size { arrived.enter() }
        // No response leaves before every request has come with the old token.
        bench.refuses {
            arrived.leave()
            return arrived.wait(timeout: .now() + 30) == .success
                ? .response(401, "Unauthorized", fields: [("WWW-Authenticate", "Bearer")], body: "no")
                : .response(500, "Too few")
        }
        let refreshes = try await bench.refreshes()
        let replays = try await bench.count("lanyard_replays_total", "replayed")
        try await withThrowingTaskGroup(of: String.self) { group in
            for number in 0..<size {
                group.addTask {
                    try await bench.ask(
                        "POST /crowd/\(number) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody"
                    )
                }
            }
            for try await response in group {
                #expect(response.hasPrefix("HTTP/1.1 200 OK\r\n") && response.hasSuffix("\r\n\r\nPOST 4"))
            }
        }
        #expect(try await bench.refreshes() == refreshes + 1)
        #expect(try await bench.count("lanyard_replays_total", "replayed") == replays + size)
        for number in 0..<size { #expect(bench.received("/crowd/\(number)").count == 2) }
    }
}
