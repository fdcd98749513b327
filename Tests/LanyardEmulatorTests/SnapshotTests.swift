import Foundation
import LanyardEmulator
import TestSupport
import Testing

/// The state in a file, and in the hands of a control call.
@Suite struct SnapshotTests {
    typealias Fixture = EmulatorFixture

    @Test("users, sessions, keys, mails and custom data are there again after a start with the same file")
    func file() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("state.json")
        let it = try await Fixture { $0.snapshotPath = path }
        let (access, refresh) = try await it.tokens()
        let anonymous = try await it.anonymous()
        let key = try await it.call("POST", "/api/client/v2.0/auth/api_keys", bearer: refresh, #"{"name":"k"}"#).json[
            "key"]
        _ = try await it.email("register", #"{"email":"new@example.com","password":"123456"}"#)
        _ = try await it.email("reset/send", #"{"email":"new@example.com"}"#)
        try await it.control(
            "PUT", "/users/custom-data", #"{"user":"alice@example.com","custom_data":{"z":1.50,"a":2}}"#)
        let mail = try await it.mail("new@example.com")
        let users = try await it.control("GET", "/users")
        await it.emulator.stop()
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)

        let again = try await Fixture { $0.snapshotPath = path }
        #expect(try await again.control("GET", "/users") == users)
        #expect(try await again.call("GET", Fixture.profile, bearer: access).status == 200)
        #expect(try await again.refresh(refresh).status == 201)
        #expect(try await again.refresh(anonymous["refresh_token"].string!).status == 201)
        #expect(try await again.login("api-key", #"{"key":"\#(key.string!)"}"#).status == 200)
        #expect(try await again.mail("new@example.com") == mail)
        #expect(try await again.email("reset", EmailPasswordTests.pair(mail, password: "654321")).status == 200)
        #expect(try await again.control("GET", "/sessions").array.count == 3)
        await again.emulator.stop()
    }

    @Test("a change is in the file within seconds, or at once when it is asked for")
    func written() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("state.json")
        let it = try await Fixture { $0.snapshotPath = path }
        try await it.control("POST", "/snapshot")
        #expect(FileManager.default.fileExists(atPath: path))
        _ = try await it.anonymous()
        try await eventually("the anonymous user is in the file") {
            try String(contentsOfFile: path, encoding: .utf8).contains("anon-user")
        }
        await it.emulator.stop()
    }

    @Test("a file that is no snapshot, and one of a future version, are refused at the start")
    func refused() async throws {
        let folder = try TemporaryFolder()
        for text in ["{}", "", #"{"version":2}"#] {
            let path = try folder.write("state.json", text)
            var options = EmulatorOptions()
            options.snapshotPath = path
            let unusable = options
            let failure = await #expect(throws: Emulator.StartError.self) { try await Emulator.start(unusable) }
            #expect(failure?.description.hasPrefix("\(path): no snapshot") == true)
        }
    }

    @Test("a snapshot can be taken and put back, and a reset leads back to the start")
    func putBack() async throws {
        let it = try await Fixture()
        let (_, refresh) = try await it.tokens()
        let snapshot = try await it.call("GET", "/emulator/snapshot").bodyText
        try await it.control("POST", "/users/delete", #"{"user":"alice@example.com"}"#)
        #expect(try await it.refresh(refresh).status == 401)
        try await it.control("PUT", "/snapshot", snapshot)
        #expect(try await it.refresh(refresh).status == 201)
        try await it.control("POST", "/reset")
        #expect(try await it.refresh(refresh).status == 401)
        #expect(try await it.control("GET", "/sessions").array.isEmpty)
        #expect(try await it.login().status == 200)
        #expect(try await it.call("PUT", "/emulator/snapshot", "{}").status == 400)
        #expect(try await it.call("POST", "/emulator/snapshot").status == 409)
        await it.emulator.stop()
    }
}
