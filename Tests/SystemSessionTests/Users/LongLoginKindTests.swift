import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// Processes that are killed at moments by a seed.
@Suite struct LongLoginKindTests {
    /// How far a start has come when something happens to it.
    private enum Moment {
        /// It has used so much of a CPU, or it waits before that.
        case used(Duration)
        /// It waits, such as for the response to a login.
        case waits
        /// It has a token.
        case isReady

        init(_ random: inout SeededGenerator) {
            switch Int.random(in: 0...3, using: &random) {
            case 0: self = .waits
            case 1: self = .isReady
            default: self = .used(.microseconds(Int.random(in: 0...20_000, using: &random)))
            }
        }

        func comes(in lanyard: LanyardProcess) async throws {
            let process = lanyard.process
            func isWaiting() -> Bool { process.threadStates.allSatisfy { $0 == "S" } }
            switch self {
            case .used(let time):
                let start = try ProcessorTime.preciseUsed(by: process.pid)
                try blockUntil("it works or waits") {
                    try isWaiting() || ProcessorTime.preciseUsed(by: process.pid) - start >= time
                }
            case .waits: try blockUntil("it waits", isWaiting)
            case .isReady: try await lanyard.untilReady()
            }
        }
    }

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
        for round in 1...12 {
            let lanyard = try await LanyardProcess.start(yaml)
            try await Moment(&random).comes(in: lanyard)
            try write(round)
            try await Moment(&random).comes(in: lanyard)
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
