import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Processes that are killed at moments by a seed.
@Suite struct LongLoginKindTests {
    @Test("killed at any moment while files change, it ends up logged in, and never with content older than the file's")
    func crashes() async throws {
        let service = try LoginService(pause: .milliseconds(20))
        let (folder, upstream) = (try TemporaryFolder(), try RawServer())
        func write(_ number: Int) throws {
            try folder.write("payload.new", #"{"number":\#(number)}"#)
            rename(folder.file("payload.new"), folder.file("payload"))
        }
        try write(0)
        let yaml = try service.configuration(
            [("alice", "function: {payload_file: \(folder.file("payload"))}")], upstream: upstream.endpoint,
            store: folder, rest: "login: {offline: never}\n")
        var random = SeededGenerator(20)
        for round in 1...6 {
            let lanyard = try await LanyardProcess.start(yaml)
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...400, using: &random)))
            try write(round)
            try await Task.sleep(for: .milliseconds(Int.random(in: 0...400, using: &random)))
            lanyard.process.signal(SIGKILL)
            try await lanyard.process.waitForExit()
            service.endSessions()
        }
        let last = try await LanyardProcess.start(yaml)
        try await last.untilReady()
        #expect(try await last.get("/").status == 200)
        let numbers = service.logins.compactMap { Self.number(in: $0.body) }
        #expect(numbers == numbers.sorted(), "\(numbers)")
        #expect(try await last.process.terminate() == .code(143))
    }

    private static func number(in body: String) -> Int? {
        (try? JSON(Array(body.utf8)))?["number"].int
    }
}
