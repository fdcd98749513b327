import TestSupport
import Testing

@testable import SystemTestSupport

/// "Fifty clients at once, and the identity service is asked once per token."
@Suite(.serialized) struct LongSingleFlightTests {
    @Test(
        "one login and one refresh per window of closed-loop load, however slow the response, whatever the kind of login",
        arguments: [
            (0, .password), (50, .password), (3000, .password), (50, .function), (50, .facebook), (50, .googleCode),
        ] as [(Int, RefreshLoad.Login)])
    func load(delay: Int, login: RefreshLoad.Login) async throws {
        try await RefreshLoad(
            delayMilliseconds: delay, tokenSeconds: 10, windows: LongSize.of(8, least: 1), login: login
        ).run()
    }
}

/// Fifty clients in closed loop through Lanyard, with short tokens and slow refreshes.
struct RefreshLoad {
    /// The kind of alice's login. The emulator takes the authorization code once.
    enum Login: Sendable { case password, function, facebook, googleCode }

    let delayMilliseconds: Int
    let tokenSeconds: Int
    /// How often the token is renewed under the load. A minute of 10-second tokens has room for 8 windows.
    let windows: Int
    let login: Login

    /// Alice's login in YAML; nil: her password.
    private func configure(_ emulator: EmulatorProcess) async throws -> String? {
        guard login != .password else { return nil }
        try await emulator.control(
            "POST", "/apps",
            """
            {"app_id": "\(EmulatorProcess.app)", "functions": {"authenticate": {"cases": [{"has": "id", "result_path": "id"}]}},
             "providers": {"custom-function": {"function": "authenticate"},
               "oauth2-facebook": {"tokens": {"the-token": {"id": "2001"}}},
               "oauth2-google": {"auth_codes": {"the-code": {"id": "1001"}}, "codes_work_once": true}}}
            """)
        switch login {
        case .password: return nil
        case .function:
            return "function: {payload_file: \(try emulator.folder.write("payload", #"{"id": "alice"}"#))}"
        case .facebook: return "facebook: {access_token_file: \(try emulator.folder.write("token", "the-token"))}"
        case .googleCode: return "google: {auth_code_file: \(try emulator.folder.write("code", "the-code"))}"
        }
    }

    func run() async throws {
        let emulator = try await EmulatorProcess.start(tokens: "\(tokenSeconds)s")
        let login = try await configure(emulator)
        let witness = try TokenWitness()
        let lanyard = try await LanyardProcess.start(emulator, login: login, upstream: witness.server.endpoint)
        try await lanyard.untilReady()
        try await emulator.control("POST", "/delays", #"{"route":"refresh","milliseconds":\#(delayMilliseconds)}"#)
        let clients = 50
        let loop = ClosedLoop(clients: clients, lanyard.data, "/")
        // The upstream has got each new token.
        let tally = try await [loop].run(
            untilEach: "refresh", times: windows, requests: clients * tokenSeconds
        ) { witness.sightings.count }[0]
        // No refresh falls between the two readings.
        #expect(try await lanyard.process.terminate() == .code(143))
        let counts = try await emulator.control("GET", "/counts")
        let issued = try await emulator.issued()
        #expect(tally.failed == 0, "\(tally.failures.first ?? "")\n\(lanyard.process.log(of: "session."))")
        #expect(witness.withoutToken == 0)
        #expect(witness.expiredUses(issued: issued) == [])
        RefreshWindows(tokenSeconds: tokenSeconds).expectOneCallEach(counts["routes"], issued)
    }
}
