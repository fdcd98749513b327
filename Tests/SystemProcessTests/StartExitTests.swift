import TestSupport
import Testing

@testable import SystemTestSupport

@Suite struct StartExitTests {
    private static func start(
        _ emulator: EmulatorProcess, password: String, login: String
    ) async throws -> LanyardProcess {
        try await LanyardProcess.start(
            """
            identities:
              demo: {app_services: {app_id: \(EmulatorProcess.app), base_url: "http://\(emulator.endpoint)"}}
            users:
              alice:
                identity: demo
                login: {email_password: {email: \(EmulatorProcess.email), password_file: \(password)}}
            login: {\(login)}
            routes:
              - {name: all, match: {path: /}, upstream: "http://\(emulator.endpoint)"}
            """)
    }

    @Test("a start at which every credential is refused ends with 77, if the configuration wants it so")
    func refused() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        let wrong = try emulator.folder.write("wrong", "not the password")
        let lanyard = try await Self.start(emulator, password: wrong, login: "exit_on_refusal: true")
        #expect(try await lanyard.process.waitForExit() == .code(77))
        #expect(try await lanyard.process.event("start.no_login")["exit"].int == 77)
        #expect(try await lanyard.process.event("shutdown.finished")["exit"].int == 77)
        let patient = try await Self.start(emulator, password: wrong, login: "exit_on_unreachable: true")
        _ = try await patient.process.event("session.credential.refused")
        #expect(patient.process.exit == nil)
        #expect(try await patient.process.terminate() == .code(143))
    }

    @Test("a start without an identity service ends with 75, if the configuration wants it so")
    func unreachable() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "30m")
        try await emulator.process.terminate()
        let lanyard = try await Self.start(
            emulator, password: emulator.passwordFile, login: "exit_on_unreachable: true, exit_on_refusal: true")
        #expect(try await lanyard.process.waitForExit() == .code(75))
    }
}
