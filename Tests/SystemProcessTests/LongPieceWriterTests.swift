import Foundation
import Glibc
import LanyardFoundations
import TestSupport
import Testing

@testable import SystemTestSupport

/// A writer that empties a file and fills it in pieces, in real time. In the gate FileWatchTests/halves and FileReaderTests/settledReads
/// prove its rules in the time of a loop.
@Suite(.serialized) struct LongPieceWriterTests {
    @Test("of a static token that is written in place and in pieces no piece is ever sent")
    func pieces() async throws {
        try await untilWriterKeepsTime { try await piecesOfToken() }
    }

    /// - Returns: whether the writer has kept its time.
    private func piecesOfToken() async throws -> Bool {
        let upstream = try RawServer { .response(body: $0.message["Authorization"] ?? "none") }
        let lanyard = try await LanyardProcess.start(
            "routes: [{name: all, upstream: \"http://\(upstream.endpoint)\"}]", token: "first-whole-token")
        try await lanyard.untilReady()
        let writer = PieceWriter(lanyard.folder.file("token"), "other-whole-token")
        // Several looks come upon an empty or half a file.
        var sent: Set<String> = []
        try await eventually("the file has been written often") {
            sent.insert(try await lanyard.get("/").bodyText)
            return writer.rounds >= 120
        }
        await writer.stop()
        guard !writer.hasStalled else { return false }
        #expect(sent == ["Bearer first-whole-token"])
        try await eventually("the whole token is used") {
            let sent = try await lanyard.get("/").bodyText
            #expect(["Bearer first-whole-token", "Bearer other-whole-token"].contains(sent))
            return sent == "Bearer other-whole-token"
        }
        let complaints = lanyard.process.lines.filter { line in
            ["session.", "identity.", "file."].contains { line.event?.hasPrefix($0) == true }
                && line.json["level"].string != "info"
        }
        #expect(complaints.isEmpty, "\(complaints.map(\.text))")
        #expect(try await lanyard.process.terminate() == .code(143))
        return true
    }

    @Test("of a password that is written in place and in pieces no piece is sent as a wrong one")
    func passwordPieces() async throws {
        try await untilWriterKeepsTime { try await piecesOfPassword() }
    }

    /// - Returns: whether the writer has kept its time.
    private func piecesOfPassword() async throws -> Bool {
        let emulator = try await EmulatorProcess.start(tokens: "4s")
        let lanyard = try await LanyardProcess.start(emulator)
        try await lanyard.untilReady()
        let writer = PieceWriter(emulator.passwordFile, "correct-horse\n")
        try await emulator.control("POST", "/sessions/revoke", #"{"user":"\#(EmulatorProcess.email)"}"#)
        try await lanyard.process.event("session.dead")
        let line = try? await lanyard.process.event("session.login.failed") {
            $0["error"].string?.contains("has not stayed the same") == true
        }
        await writer.stop()
        guard !writer.hasStalled else { return false }
        #expect(line != nil, "\(lanyard.process.log)")
        try await eventually("alice is logged in again") {
            lanyard.process.lines.count { $0.event == "session.login.succeeded" } >= 2
        }
        let login = try await emulator.control("GET", "/counts")["routes"]["login"]
        #expect(login["calls"].int == 2 && login["by_status"]["200"].int == 2, "\(login)")
        #expect(try await lanyard.process.terminate() == .code(143))
        return true
    }

    /// A file that rests for 200 ms counts as whole. So a writer that had to wait so long for a CPU makes a round say nothing.
    private func untilWriterKeepsTime(_ round: () async throws -> Bool) async throws {
        for _ in 0..<5 where try await round() { return }
        Issue.record("the writer had to wait in each of five rounds")
    }

    /// Writes a file again and again as an editor or `>` does: it is empty at first, then half there, then whole.
    private final class PieceWriter: Sendable {
        /// Less than a file must rest.
        private static let pauseMax = Duration.milliseconds(150)

        private let state = Guarded((rounds: 0, hasStalled: false, isStopped: false, hasEnded: false))

        init(_ path: String, _ text: String) {
            Thread.detachNewThread { [self] in
                let bytes = Array(text.utf8)
                let half = bytes.count / 2
                while !state.withLock({ $0.isStopped }) {
                    let start = ContinuousClock.now
                    let raw = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)
                    usleep(20_000)
                    write(raw, bytes, half)
                    usleep(20_000)
                    write(raw, Array(bytes[half...]), bytes.count - half)
                    let isLate = ContinuousClock.now - start > Self.pauseMax
                    close(raw)
                    usleep(10_000)
                    state.withLock { ($0.rounds, $0.hasStalled) = ($0.rounds + 1, $0.hasStalled || isLate) }
                }
                state.withLock { $0.hasEnded = true }
            }
        }

        var rounds: Int { state.withLock { $0.rounds } }
        /// It has left the file empty or half written for longer than a file must rest.
        var hasStalled: Bool { state.withLock { $0.hasStalled } }

        /// The file is whole from here on.
        func stop() async {
            state.withLock { $0.isStopped = true }
            try? await eventually("the writer ends") { state.withLock { $0.hasEnded } }
        }

        deinit { state.withLock { $0.isStopped = true } }
    }
}
