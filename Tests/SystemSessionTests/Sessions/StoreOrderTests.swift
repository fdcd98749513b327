import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// "A token that the store does not hold yet is used by no request."
@Suite struct StoreOrderTests {
    private static let calls = [
        "openat", "write", "pwrite64", "writev", "fsync", "fdatasync", "rename", "renameat", "renameat2", "sendto",
        "sendmsg",
    ]

    @Test(
        "a refresh's order on the system: a record is written and synced, and only then the new token is on the wire",
        .enabled(if: getuid() == 0 && SystemCallTrace.isPossible, "needs root and an strace that may trace"))
    func order() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(
            tokens: "10s", under: clock, arguments: ["--rotation", "grace"])
        let device = try await Device.make(emulator, users: [Device.alice], rotation: "grace", under: clock)
        let upstream = try RawServer()
        let file = device.folder.file("trace")
        let running = try await device.start(
            upstream: upstream.endpoint, launcher: SystemCallTrace.launcher(Self.calls, to: file))
        try await running.untilReady()
        var tokens: [String] = []
        try await clock.pass(until: "three tokens were used", grain: .seconds(1)) {
            _ = try await RawClient.ask(running.data, "GET", "/")
            for request in upstream.requests {
                guard let token = request["Authorization"], !tokens.contains(token) else { continue }
                tokens.append(token)
            }
            return tokens.count >= 3
        }
        #expect(try await running.process.terminate() == .code(143))
        let trace = try SystemCallTrace(of: file)
        // The first came of the login, whose order is the same.
        try expectOrder(trace, of: "POST /api/client/v2.0/app/", token: tokens[0], device)
        for token in tokens[1...] {
            try expectOrder(trace, of: "POST /api/client/v2.0/auth/session", token: token, device)
        }
    }

    /// The last call of this kind before the token's first use: a record of its intent before it, a record of what it brought after it, and
    /// then the token.
    private func expectOrder(_ trace: SystemCallTrace, of call: String, token: String, _ device: Device) throws {
        let use = try #require(trace.first { $0.text.contains(token) }, "the token is in no call")
        let request = try #require(
            trace.calls.last { $0.begin < use.begin && $0.text.contains(call) }, "the call that brought it")
        let intent = try #require(
            trace.calls.last { $0.end < request.begin && Self.isSync($0, device) }, "the intent's write")
        let previous = trace.calls.last { $0.end < intent.begin && Self.isSync($0, device) }?.end ?? -1
        try expectRecord(trace, after: previous, before: request.begin, device)
        try expectRecord(trace, after: request.begin, before: use.begin, device)
    }

    private func expectRecord(_ trace: SystemCallTrace, after start: Int, before end: Int, _ device: Device) throws {
        let path = device.storePath
        let write = try #require(
            trace.first(after: start) { ["write", "pwrite64"].contains($0.name) && $0.text.contains("<\(path)>") },
            "the write of \(path)")
        let sync = try #require(trace.first(after: write.end) { Self.isSync($0, device) }, "its sync")
        for call in [write, sync] {
            #expect(!call.text.hasSuffix("(INPROGRESS)") && !call.text.contains(" = -1 "), "\(call.text)")
        }
        #expect(sync.end < end, "the file was synced after that")
    }

    private static func isSync(_ call: SystemCallTrace.Call, _ device: Device) -> Bool {
        call.name.hasSuffix("sync") && call.text.contains("<\(device.storePath)>")
    }
}
