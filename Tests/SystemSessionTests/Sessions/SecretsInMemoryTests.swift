import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// What a look into the running program's memory would find.
@Suite(
    .enabled(if: getuid() == 0, "needs root, to read another process's memory"),
    .disabled(if: Sanitizer.isOn, "a sanitizer's shadow is too large to search"))
struct SecretsInMemoryTests {
    @Test("after a login and refreshes the memory holds the password nowhere, and the refresh token once")
    func memory() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(tokens: "10s", under: clock)
        let lanyard = try await LanyardProcess.start(emulator, under: clock)
        try await lanyard.untilReady()
        try await clock.pass(until: "two refreshes have been made", grain: .milliseconds(500)) {
            try await emulator.calls("refresh") >= 2
        }
        #expect(try await lanyard.get("/protected/x").status == 200)
        let memory = try ProcessMemory(lanyard.process.pid)
        #expect(memory.count(of: "correct-horse") == 0)
        let tokens = memory.tokens().compactMap { try? Self.claims($0) }
        #expect(tokens.count { $0["typ"].string == "refresh" } == 1)
        // Buffers of requests may still hold the token of the last one; older ones are gone.
        let access = Set(tokens.filter { $0["typ"].string == "access" }.compactMap { $0["jti"].string })
        #expect(1...2 ~= access.count, "\(access.count) access tokens")
    }

    @Test(
        "after a logout the memory of the release program holds neither refresh token nor password in any form",
        .enabled(if: Products.release("lanyard") != nil, "needs the release build"))
    func afterLogout() async throws {
        let clock = try TestClock()
        let emulator = try await EmulatorProcess.start(
            tokens: "30s", under: clock, arguments: ["--rotation", "grace"])
        let device = try await Device.make(emulator, users: [Device.alice], rotation: "grace", under: clock)
        // The gate in between tells the test which secrets passed.
        let witness = try SecretWitness(before: emulator.endpoint, under: clock)
        let running = try await device.start(identity: witness.endpoint, binary: Products.release("lanyard"))
        try await running.untilReady()
        // One password that only an operator gave, with characters that every form writes in its own way.
        let given = SecretWritings.odd + " of carol"
        try await emulator.add("carol@example.com", password: given)
        let quoted = try String(decoding: JSONEncoder().encode(given), as: UTF8.self)
        // The service takes its time: until then the password is there, as it was given and as it is sent.
        try await emulator.control("POST", "/delays", #"{"route":"login","milliseconds":1500}"#)
        clock.stop()
        let admin = try RawClient(running.admin.endpoint)
        let body =
            #"{"name":"carol","identity":"demo","credential":{"email_password":{"email":"carol@example.com","password":\#(quoted)}}}"#
        try admin.send(
            "POST /v1/users HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        try await clock.settle()
        #expect(try await emulator.control("GET", "/counts")["routes"]["login"]["in_flight"].int == 1)
        #expect(try ProcessMemory(running.process.pid).forms(of: given).isSuperset(of: ["plain", "json"]))
        try await clock.pass(.milliseconds(1500))
        #expect(try admin.response(to: "POST").status == 201)
        admin.close()
        try await clock.pass(until: "three refreshes have been made", grain: .milliseconds(500)) {
            try await emulator.calls("refresh") >= 3
        }
        clock.run()
        for path in ["/", "/as/alice"] { #expect(try await running.account(at: path) != nil) }
        let before = try ProcessMemory(running.process.pid)
        let newest = witness.refreshTokens.suffix(3)
        #expect(newest.contains { before.forms(of: $0).contains("plain") }, "the scan finds what is there")
        for name in ["alice", "carol"] { try await running.admin.call("POST", "/v1/users/\(name)/logout") }
        try await emulator.untilIdle()
        let secrets = witness.refreshTokens + [Device.alice.password, given]
        // A refresh token outlives the service's response by one write: until the store no longer holds it for the revocation.
        try? await eventually("the last write has let go of it") {
            let now = try ProcessMemory(running.process.pid)
            return secrets.allSatisfy { now.forms(of: $0) == [] }
        }
        let after = try ProcessMemory(running.process.pid)
        #expect(witness.refreshTokens.count >= 5)
        for (number, secret) in secrets.enumerated() {
            #expect(after.forms(of: secret) == [], "secret \(number) of \(secrets.count)")
        }
        #expect(try await running.process.terminate() == .code(143))
    }

    @Test("the scan finds a secret in every form in which a process may have written it, and in no other")
    func forms() async throws {
        for (form, text) in try [("none", "nothing of it")] + SecretWritings.of(SecretWritings.odd) {
            // The environment stands in the process's own memory.
            let process = try ServerProcess("/usr/bin/sleep", ["100"], environment: ["WRITTEN": "<\(text)>"])
            try await eventually("it is the program itself") {
                try String(contentsOfFile: "/proc/\(process.pid)/comm", encoding: .utf8) == "sleep\n"
            }
            let found = try ProcessMemory(process.pid).forms(of: SecretWritings.odd)
            #expect(found == (form == "none" ? [] : [form]), "\(form): \(text)")
        }
    }

    private static func claims(_ token: [UInt8]) throws -> JSON {
        let payload = String(decoding: token.split(separator: UInt8(ascii: "."))[1], as: UTF8.self)
        let plain = payload.replacing("-", with: "+").replacing("_", with: "/")
        let padded = plain + String(repeating: "=", count: (4 - plain.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: padded) else { throw TestFailure("no base64url") }
        return try JSON(data)
    }
}
