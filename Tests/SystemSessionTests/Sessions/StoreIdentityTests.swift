import Foundation
import Glibc
import TestSupport
import Testing

@testable import SystemTestSupport

/// "No token of one identity service ever reaches another", and "an older store file brings no old refresh token back".
@Suite struct StoreIdentityTests {
    /// The second service, with an account of alice's name and password.
    private static func elsewhere() async throws -> EmulatorProcess {
        let other = try await EmulatorProcess.start(tokens: "1800s")
        try await other.control(
            "POST", "/users/password", #"{"user":"\#(Device.alice.email)","password":"\#(Device.alice.password)"}"#)
        return other
    }

    private static func expectNothingForeign(_ emulator: EmulatorProcess, logins: Int = 1) async throws {
        let counts = try await emulator.control("GET", "/counts")
        #expect(counts["protected"]["refused"] == .object([:]))
        #expect(counts["routes"]["login"]["by_status"] == .object(["200": .number(Double(logins))]))
        #expect(Set(counts["routes"]["refresh"]["by_status"].object.keys).isSubset(of: ["201"]))
        #expect(Set(counts["routes"]["logout"]["by_status"].object.keys).isSubset(of: ["204"]))
    }

    @Test("when base_url says another service, the stored session is not sent there: a login takes its place")
    func movedService() async throws {
        let (first, second) = (try await EmulatorProcess.start(tokens: "1800s"), try await Self.elsewhere())
        let device = try await Device.make(first, users: [Device.alice])
        let before = try await device.start()
        try await before.untilReady()
        #expect(try await before.process.terminate() == .code(143))
        let after = try await device.start(
            upstream: second.endpoint, identity: second.endpoint)
        try await after.untilReady()
        #expect(try await RawClient.ask(after.data, "GET", "/protected/").status == 200)
        try await after.admin.call("POST", "/v1/users/alice/refresh")
        try await Self.expectNothingForeign(second)
        try await Self.expectNothingForeign(first)
        try await after.process.event("session.identity.conflict")
        #expect(try await after.process.terminate() == .code(143))
    }

    @Test("two processes on one store that disagree about the service each serve their own token")
    func disagreement() async throws {
        let (first, second) = (try await EmulatorProcess.start(tokens: "1800s"), try await Self.elsewhere())
        let device = try await Device.make(first, users: [Device.alice])
        let one = try await device.start("one", upstream: first.endpoint)
        try await one.untilReady()
        let two = try await device.start("two", upstream: second.endpoint, identity: second.endpoint)
        try await two.untilReady()
        for _ in 0..<3 {
            for running in [one, two] {
                try await running.admin.call("POST", "/v1/users/alice/refresh")
                for other in [one, two] {
                    let response = try await RawClient.ask(other.data, "GET", "/protected/")
                    #expect(response.status == 200, "\(one.process.log)\n\(two.process.log)")
                }
            }
        }
        for emulator in [first, second] {
            try await Self.expectNothingForeign(emulator)
            #expect(try await emulator.calls("refresh") >= 2)
        }
        for running in [one, two] { #expect(try await running.process.terminate() == .code(143)) }
    }

    @Test("an older file in the place of a newer one ends no session, where refresh tokens work once")
    func olderFile() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "1800s", arguments: ["--rotation", "one_use"])
        let device = try await Device.make(emulator, users: [Device.alice], rotation: "one_use")
        let running = try await device.start()
        try await running.untilReady()
        let old = try Data(contentsOf: URL(fileURLWithPath: device.storePath))
        try await running.admin.call("POST", "/v1/users/alice/refresh")
        let path = device.folder.file("state/older")
        try old.write(to: URL(fileURLWithPath: path))
        #expect(chmod(path, 0o600) == 0 && rename(path, device.storePath) == 0)
        for _ in 0..<2 { try await running.admin.call("POST", "/v1/users/alice/refresh") }
        try await running.process.event("store.older")
        #expect(try await running.process.terminate() == .code(143))
        let again = try await device.start()
        try await again.untilReady()
        try await again.admin.call("POST", "/v1/users/alice/refresh")
        let sum = try await emulator.control("GET", "/ledger")["accounts"][Device.alice.email]
        #expect(sum["logins"]["local-userpass"].int == 1 && sum["family_kills"].int == 0 && sum["refreshes"].int == 4)
    }
}
