import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// "When it is stopped or a user leaves, nothing is lost and nothing is left behind, here or over there."
@Suite struct EndingTests {
    private func bench(
        rotation: String = "none", under clock: TestClock? = nil
    ) async throws -> (emulator: EmulatorProcess, device: Device) {
        let emulator = try await EmulatorProcess.start(
            tokens: "1800s", under: clock, arguments: ["--rotation", rotation])
        try await emulator.add("carol@example.com", password: "carol-secret-word")
        // Root can write a folder whatever its mode.
        let account = clock == nil ? ServerProcess.UnixUser.nobody : .same
        let device = try await Device.make(
            emulator, users: [Device.alice], rotation: rotation, as: account, under: clock)
        return (emulator, device)
    }

    private static let carol =
        #"{"name":"carol","identity":"demo","credential":{"email_password":{"email":"carol@example.com","password":"carol-secret-word"}}}"#

    /// Permits the folder, and the file to be written as far as the folder is.
    private func permit(_ device: Device, _ mode: Int) throws {
        let files = FileManager.default
        try files.setAttributes([.posixPermissions: mode], ofItemAtPath: device.storeFolder)
        try files.setAttributes([.posixPermissions: mode & 0o600], ofItemAtPath: device.storePath)
    }

    /// Accounts of the sessions that live at the service.
    private func living(_ emulator: EmulatorProcess) async throws -> [String] {
        try await emulator.control("GET", "/sessions").array.filter { $0["live"].bool == true }
            .compactMap { $0["account"].string }.sorted()
    }

    @Test("a session that the store could not take is stored at the stop, and no old token is sent again")
    func backlog() async throws {
        let (emulator, device) = try await bench(rotation: "one_use")
        let running = try await device.start()
        try await running.untilReady()
        try permit(device, 0o500)
        for _ in 0..<3 { try await running.admin.call("POST", "/v1/users/alice/refresh") }
        #expect(try await running.check("store")["reason"].string == "store_failing")
        try permit(device, 0o700)
        #expect(try await running.process.terminate() == .code(143))
        #expect(!running.process.lines.contains { $0.event == "store.unsaved" }, "\(running.process.log)")
        let again = try await device.start()
        try await again.untilReady()
        try await again.admin.call("POST", "/v1/users/alice/refresh")
        let total = try await emulator.control("GET", "/ledger")["total"]
        #expect(total["family_kills"].int == 0 && total["calls_of_dead_sessions"].int == 0, "\(total)")
        #expect(total["logins"]["local-userpass"].int == 1, "\(total)")
    }

    @Test("what the store never took is named at the stop; a logout that is not stored says so")
    func unsaved() async throws {
        let (_, device) = try await bench()
        let running = try await device.start()
        try await running.untilReady()
        try permit(device, 0o500)
        let response = try await running.admin.call("POST", "/v1/users/alice/logout")
        #expect(response["stored"].bool == false && response["revoked"].bool == true)
        try await running.process.event("store.logout_unsaved")
        #expect(try await running.process.terminate() == .code(143))
        let lines = running.process.lines.filter { $0.event == "store.unsaved" }
        #expect(lines.map { $0.json["user"].string } == ["alice"], "\(running.process.log)")
        #expect(lines.map { $0.json["level"].string } == ["error"])
        try permit(device, 0o700)
    }

    /// Stops Lanyard while the emulator holds a call of this route back. The stop waits for the call, which takes up to 2 s.
    private func stop(
        _ running: DeviceProcess, during route: String, at emulator: EmulatorProcess, _ clock: TestClock
    ) async throws {
        try await eventually("the call is in progress") {
            try await emulator.control("GET", "/counts")["routes"][route]["in_flight"].int == 1
        }
        running.process.signal(SIGTERM)
        try await running.process.event("shutdown.started")
        try await clock.settle()
        #expect(running.process.exit == nil)
        try await clock.pass(.seconds(2))
        clock.run()
        #expect(try await running.process.waitForExit() == .code(143))
    }

    @Test("a login that is in progress at a stop is finished, stored and answered")
    func login() async throws {
        let clock = try TestClock()
        let (emulator, device) = try await bench(under: clock)
        let running = try await device.start()
        try await running.untilReady()
        clock.stop()
        try await emulator.control("POST", "/delays", #"{"route":"login","milliseconds":1500}"#)
        let admin = running.admin
        async let response = admin.ask("POST", "/v1/users", Self.carol)
        try await stop(running, during: "login", at: emulator, clock)
        #expect(try await response.status == 201)
        #expect(!running.process.lines.contains { $0.event == "store.write_failed" }, "\(running.process.log)")
        let again = try await device.start()
        try await eventually("carol is back") { try await again.admin.status()["carol"]?.isIn == true }
        #expect(try await again.admin.status().active == "carol")
        #expect(try await living(emulator) == ["alice@example.com", "carol@example.com"])
    }

    @Test("a refresh that is in progress at a stop is finished, stored and answered; its token is not sent again")
    func refresh() async throws {
        let clock = try TestClock()
        let (emulator, device) = try await bench(rotation: "one_use", under: clock)
        let running = try await device.start()
        try await running.untilReady()
        clock.stop()
        try await emulator.control("POST", "/delays", #"{"route":"refresh","milliseconds":1500}"#)
        let admin = running.admin
        async let response = admin.ask("POST", "/v1/users/alice/refresh")
        try await stop(running, during: "refresh", at: emulator, clock)
        #expect(try await response.status == 200)
        let again = try await device.start()
        try await again.untilReady()
        #expect(again.openIntents.isEmpty, "\(again.process.log)")
        try await again.admin.call("POST", "/v1/users/alice/refresh")
        let total = try await emulator.control("GET", "/ledger")["total"]
        #expect(total["family_kills"].int == 0 && total["calls_of_dead_sessions"].int == 0, "\(total)")
        #expect(total["logins"]["local-userpass"].int == 1, "\(total)")
    }

    @Test("a user that is removed while a login is in progress leaves no session at the service")
    func removed() async throws {
        let clock = try TestClock()
        let (emulator, device) = try await bench(under: clock)
        let running = try await device.start()
        try await running.untilReady()
        clock.stop()
        try await running.admin.call("POST", "/v1/users", Self.carol)
        try await emulator.control("POST", "/delays", #"{"route":"login","milliseconds":1500}"#)
        let admin = running.admin
        let body = AdminClient.password("carol@example.com", "carol-secret-word")
        async let login = admin.ask("POST", "/v1/users/carol/login", body)
        try await eventually("the call is in progress") {
            try await emulator.control("GET", "/counts")["routes"]["login"]["in_flight"].int == 1
        }
        #expect(try await admin.ask("DELETE", "/v1/users/carol").status == 204)
        try await clock.pass(.seconds(2))
        #expect(try await login.status == 404)
        try await eventually("the late session is revoked") {
            try await emulator.control("GET", "/ledger")["total"]["revocations"].int == 2
        }
        #expect(try await living(emulator) == ["alice@example.com"])
    }
}
