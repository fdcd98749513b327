import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// A writer that empties a file and fills it in pieces, while time passes between them. In the gate FileWatchTests/halves and
/// FileReaderTests/settledReads prove its rules in the time of a loop.
@Suite(.serialized) struct LongPieceWriterTests {
    /// The clock passes up to a minute. No file may seem to have rested for as long.
    private static let wallDelay = Duration.seconds(3600)

    @Test("of a static token that is written in place and in pieces no piece is ever sent")
    func pieces() async throws {
        let clock = try TestClock(wallDelay: Self.wallDelay)
        let upstream = try RawServer { .response(body: $0.message["Authorization"] ?? "none") }
        clock.watch(upstream.threads)
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]", token: "first-whole-token", under: clock
        )
        try await lanyard.untilReady()
        clock.stop()
        let writer = PieceWriter(lanyard.folder.file("token"), "other-whole-token", clock)
        // Several looks come upon an empty or half a file.
        var sent: Set<String> = []
        for _ in 0..<120 {
            try await writer.write()
            sent.insert(try await lanyard.get("/").bodyText)
        }
        #expect(sent == ["Bearer first-whole-token"])
        try await clock.pass(until: "another token is used", atMost: .seconds(60)) {
            sent.insert(try await lanyard.get("/").bodyText)
            return sent.count > 1
        }
        #expect(sent == ["Bearer first-whole-token", "Bearer other-whole-token"])
        let complaints = lanyard.process.lines.filter { line in
            ["session.", "identity.", "file."].contains { line.event?.hasPrefix($0) == true }
                && line.json["level"].string != "info"
        }
        #expect(complaints.isEmpty, "\(complaints.map(\.text))")
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    @Test("of a password that is written in place and in pieces no piece is sent as a wrong one")
    func passwordPieces() async throws {
        let clock = try TestClock(wallDelay: Self.wallDelay)
        let emulator = try await EmulatorProcess.start(tokens: "4s", under: clock)
        let lanyard = try await LanyardProcess.start(emulator, under: clock)
        try await lanyard.untilReady()
        clock.stop()
        let writer = PieceWriter(emulator.passwordFile, "correct-horse\n", clock)
        try await emulator.control("POST", "/sessions/revoke", #"{"user":"\#(EmulatorProcess.email)"}"#)
        func lines(_ event: String) -> [LogLine] { lanyard.process.lines.filter { $0.event == event } }
        // The refresh finds the session dead, and the login that follows reads the file until its time has ended.
        let end = clock.elapsed + .seconds(60)
        while lines("session.login.failed").isEmpty, clock.elapsed < end { try await writer.write() }
        #expect(
            lines("session.login.failed").first?.json["error"].string?.contains("has not stayed the same") == true,
            "\(lanyard.process.log)")
        #expect(!lines("session.dead").isEmpty)
        try await clock.pass(until: "alice is logged in again") { lines("session.login.succeeded").count >= 2 }
        let login = try await emulator.control("GET", "/counts")["routes"]["login"]
        #expect(login["calls"].int == 2 && login["by_status"]["200"].int == 2, "\(login)")
        clock.run()
        #expect(try await lanyard.process.terminate() == .code(143))
    }

    /// Writes a file as an editor or `>` does: it is empty at first, then half there, then whole. Each state lasts for less than the 200 ms
    /// for which a file must rest.
    private final class PieceWriter {
        private let path: String
        private let bytes: [UInt8]
        private let clock: TestClock
        private var random = SeededGenerator(200)
        /// In nanoseconds since 1970.
        private var changedAt: Int64 = 0

        init(_ path: String, _ text: String, _ clock: TestClock) {
            self.path = path
            bytes = Array(text.utf8)
            self.clock = clock
        }

        /// The file is whole from the return to the next call.
        func write() async throws {
            let raw = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
            guard raw >= 0 else { throw TestFailure("\(path): errno \(errno)") }
            defer { close(raw) }
            // The machine stamps the file. With the stamp of the former time it would seem to have rested since then.
            try blockUntil("the file gets a new stamp") {
                futimens(raw, nil)
                var status = stat()
                fstat(raw, &status)
                let now = Int64(status.st_ctim.tv_sec) * 1_000_000_000 + Int64(status.st_ctim.tv_nsec)
                defer { changedAt = now }
                return now > changedAt
            }
            try await pass()
            for piece in [bytes[..<(bytes.count / 2)], bytes[(bytes.count / 2)...]] {
                guard piece.withUnsafeBytes({ Glibc.write(raw, $0.baseAddress, $0.count) }) == piece.count else {
                    throw TestFailure("\(path): errno \(errno)")
                }
                try await pass()
            }
        }

        private func pass() async throws { try await clock.pass(.milliseconds(Int.random(in: 5...60, using: &random))) }
    }
}
