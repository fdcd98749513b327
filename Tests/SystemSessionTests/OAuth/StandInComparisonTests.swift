import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// `lanyard-emulator --oauth` beside two real servers: the same request, the same response. Where they differ, the RFC decides.
private enum StandInComparison {
    /// A request that all of them get.
    enum Case: String, CaseIterable {
        case goodClient, wrongSecret, unknownClient, unsupportedGrant, badScope
        case password, wrongPassword, refresh, reusedRefresh, successor, badRefresh
        case device, devicePending, badDeviceCode, deviceExpired
        case wrongVerifier, code, codeTwice, badCode, unknownRevocation
    }

    /// The response that the RFC has, and what a server does in its place.
    struct Expectation {
        let rfc: String
        var glewlwyd: String?
        var nanoidp: String?
    }

    /// Status, then the error code or the members of a success that the RFCs name. glewlwyd's refusals of a client and of a grant are 403
    /// or 400 without a body; RFC 6749 §5.2 has 400 with JSON, and 401 for a client that has used the field `Authorization`.
    static func expectation(_ case: Case) -> Expectation {
        switch `case` {
        // RFC 6749 §5.1: a scope that is the one asked for may be left out.
        case .goodClient:
            Expectation(
                rfc: "200 access_token expires_in scope token_type", nanoidp: "200 access_token expires_in token_type")
        case .wrongSecret, .unknownClient: Expectation(rfc: "401 invalid_client", glewlwyd: "403")
        case .unsupportedGrant: Expectation(rfc: "400 unsupported_grant_type", glewlwyd: "400")
        case .badScope: Expectation(rfc: "400 invalid_scope", glewlwyd: "400 scope_invalid")
        case .password, .refresh: Expectation(rfc: "200 access_token expires_in refresh_token scope token_type")
        case .wrongPassword: Expectation(rfc: "400 invalid_grant", glewlwyd: "403")
        case .reusedRefresh, .successor, .badRefresh: Expectation(rfc: "400 invalid_grant", glewlwyd: "400")
        case .device:
            Expectation(
                rfc: "200 device_code expires_in interval user_code verification_uri verification_uri_complete")
        case .devicePending: Expectation(rfc: "400 authorization_pending")
        // RFC 8628 §3.5 has no code of its own for it: that of RFC 6749 §5.2 for a grant that is invalid.
        case .badDeviceCode: Expectation(rfc: "400 invalid_grant", glewlwyd: "400 access_denied")
        case .deviceExpired: Expectation(rfc: "400 expired_token")
        case .wrongVerifier, .codeTwice, .badCode: Expectation(rfc: "400 invalid_grant", glewlwyd: "403 invalid_code")
        case .code: Expectation(rfc: "200 access_token expires_in id_token refresh_token scope token_type")
        case .unknownRevocation: Expectation(rfc: "200")
        }
    }

    private static let redirect = "http://127.0.0.1:9/cb"
    private static let verifier = String(repeating: "v", count: 43)
    /// Its SHA-256.
    private static let challenge = "7w_YNF9DSfIdPf_pRjSq646_kPr-2-o9NAl16JGghdM"
    private static let poll = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code="

    /// A server, by the paths of its endpoints.
    struct Peer {
        let endpoint: RawEndpoint
        let base: String
        let deviceScope: String
        /// Logs alice in at an authorization request. Returns the response that leads back.
        let browse: (_ target: String) async throws -> RawMessage

        func post(_ path: String, _ form: String, _ client: String = "lanyard:s3cret") async throws -> RawMessage {
            let basic = "Basic " + Data(client.utf8).base64EncodedString()
            return try await RawClient.ask(
                endpoint, "POST", base + path,
                fields: [("Authorization", basic), ("Content-Type", "application/x-www-form-urlencoded")], body: form)
        }

        func token(_ form: String, _ client: String = "lanyard:s3cret") async throws -> RawMessage {
            try await post("/token", form, client)
        }
    }

    private static func outcome(_ response: RawMessage, but hidden: Set<String> = []) -> String {
        guard let body = try? response.json, !body.object.isEmpty else { return "\(response.status)" }
        if let error = body["error"].string { return "\(response.status) \(error)" }
        let named: Set<String> = [
            "access_token", "token_type", "expires_in", "refresh_token", "scope", "id_token", "device_code",
            "user_code",
            "verification_uri", "verification_uri_complete", "interval",
        ]
        let members = Set(body.object.keys).intersection(named).subtracting(hidden)
        return "\(response.status) \(members.sorted().joined(separator: " "))"
    }

    /// The outcome of each case at one server, but for that of an expired device code.
    static func outcomes(_ peer: Peer) async throws -> [Case: String] {
        var found: [Case: String] = [:]
        let scope = "scope=" + peer.deviceScope
        let device = try await peer.post("/device_authorization", scope)
        let deviceCode = try device.json["device_code"].string ?? ""
        found[.device] = outcome(device)
        found[.devicePending] = outcome(try await peer.token(poll + deviceCode))
        found[.badDeviceCode] = outcome(try await peer.token(poll + "junk"))

        let own = "grant_type=client_credentials&" + scope
        found[.goodClient] = outcome(try await peer.token(own))
        found[.wrongSecret] = outcome(try await peer.token(own, "lanyard:wrong"))
        found[.unknownClient] = outcome(try await peer.token(own, "unknown:s3cret"))
        found[.unsupportedGrant] = outcome(try await peer.token("grant_type=magic"))
        found[.badScope] = outcome(try await peer.token("grant_type=client_credentials&scope=nonsense"))

        let login = "grant_type=password&username=alice&\(scope)&password="
        let first = try await peer.token(login + "wonderland")
        found[.password] = outcome(first, but: ["id_token"])
        found[.wrongPassword] = outcome(try await peer.token(login + "wrong"))
        let refresh = "grant_type=refresh_token&refresh_token="
        let token = try first.json["refresh_token"].string ?? ""
        let second = try await peer.token(refresh + token)
        found[.refresh] = outcome(second, but: ["id_token"])
        found[.reusedRefresh] = outcome(try await peer.token(refresh + token))
        found[.successor] = outcome(try await peer.token(refresh + (second.json["refresh_token"].string ?? "")))
        found[.badRefresh] = outcome(try await peer.token(refresh + "junk"))

        for (name, sent) in [(Case.wrongVerifier, String(repeating: "w", count: 43)), (.code, verifier)] {
            let code = try await code(peer)
            let form =
                "grant_type=authorization_code&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcb&code_verifier=\(sent)&code="
            found[name] = outcome(try await peer.token(form + code))
            if name == .code { found[.codeTwice] = outcome(try await peer.token(form + code)) }
            found[.badCode] = outcome(try await peer.token(form + "junk"))
        }
        found[.unknownRevocation] = outcome(try await peer.post("/revoke", "token=junk"))
        return found
    }

    /// The outcome of polls when the device code has expired.
    static func expired(_ peer: Peer) async throws -> [Case: String] {
        let device = try await peer.post("/device_authorization", "scope=" + peer.deviceScope)
        let deviceCode = try device.json["device_code"].string ?? ""
        var late = ""
        try await eventually("the device code has expired") {
            late = outcome(try await peer.token(poll + deviceCode))
            return !late.hasSuffix("authorization_pending") && !late.hasSuffix("slow_down")
        }
        return [.deviceExpired: late]
    }

    private static func code(_ peer: Peer) async throws -> String {
        let target =
            "\(peer.base)/\(peer.base.isEmpty || peer.base == "/oauth" ? "authorize" : "auth")?response_type=code"
            + "&client_id=lanyard&redirect_uri=http%3A%2F%2F127.0.0.1%3A9%2Fcb&scope=openid%20\(peer.deviceScope)"
            + "&state=s&nonce=n&code_challenge=\(challenge)&code_challenge_method=S256"
        let response = try await peer.browse(target)
        guard let location = response["location"], location.hasPrefix(redirect + "?"),
            let code = URLComponents(string: location)?.queryItems?.first(where: { $0.name == "code" })?.value
        else { throw TestFailure("no code: \(response.status) \(response["location"] ?? response.bodyText)") }
        return code
    }

    // MARK: The servers

    /// The `name="…" value="…"` of a page's form.
    private static func fields(_ page: RawMessage) -> [(String, String)] {
        page.bodyText.matches(of: /<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"/).map { (String($0.1), String($0.2)) }
    }

    private static func form(_ fields: [(String, String)]) -> String {
        var kept = CharacterSet.alphanumerics
        kept.insert(charactersIn: "-._~")
        return fields.map { "\($0.0)=\($0.1.addingPercentEncoding(withAllowedCharacters: kept) ?? "")" }
            .joined(separator: "&")
    }

    /// - Parameter deviceSeconds: lifetime of device codes.
    static func standIn(_ deviceSeconds: Int, _ test: (Peer) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        let process = try ServerProcess(
            "lanyard-emulator",
            [
                "--listen", "127.0.0.1:0", "--oauth", "--oauth-client",
                "lanyard:\(try folder.write("secret", "s3cret"))",
                "--user", "alice:\(try folder.write("password", "wonderland"))", "--oauth-scope", "openid",
                "--oauth-scope", "api", "--rotation", "one_use", "--device-code-lifetime", "\(deviceSeconds)s",
            ])
        let endpoint = try RawEndpoint(try await process.event("listening")["address"].string ?? "")
        try await test(
            Peer(endpoint: endpoint, base: "/oauth", deviceScope: "api") { target in
                let page = try await RawClient.ask(endpoint, "GET", target)
                let id = fields(page).first { $0.0 == "id" }
                return try await RawClient.ask(
                    endpoint, "POST", "/oauth/authorize",
                    fields: [("Content-Type", "application/x-www-form-urlencoded")],
                    body: form([id ?? ("id", ""), ("username", "alice"), ("password", "wonderland")]))
            })
        try await process.terminate()
    }

    static func nanoidp(_ deviceSeconds: Int, _ test: (Peer) async throws -> Void) async throws {
        let server = try await PythonServer.start("nanoidp", ["--device-lifetime", String(deviceSeconds)])
        let endpoint = server.endpoint
        try await test(
            Peer(endpoint: endpoint, base: "", deviceScope: "openid") { target in
                let target = target.replacing("openid%20openid", with: "openid")
                let page = try await RawClient.ask(endpoint, "GET", target)
                let hidden = fields(page).filter { $0.0 != "username" && $0.0 != "password" }
                let cookie = ("Cookie", String(page["set-cookie"]?.split(separator: ";").first ?? ""))
                return try await RawClient.ask(
                    endpoint, "POST", target,
                    fields: [cookie, ("Content-Type", "application/x-www-form-urlencoded")],
                    body: form(hidden + [("username", "alice"), ("password", "wonderland")]))
            })
        try await server.stop()
    }

    static func glewlwyd(_ deviceSeconds: Int, _ test: (Peer) async throws -> Void) async throws {
        let server = try await GlewlwydServer.start(lifetime: 3600, deviceLifetime: deviceSeconds)
        let endpoint = server.endpoint
        try await test(
            Peer(endpoint: endpoint, base: "/api/oidc", deviceScope: "api") { target in
                let json = ("Content-Type", "application/json")
                let login = try await RawClient.ask(
                    endpoint, "POST", "/api/auth/", fields: [json],
                    body: #"{"username":"alice","password":"wonderland"}"#)
                let cookie = ("Cookie", String(login["set-cookie"]?.split(separator: ";").first ?? ""))
                _ = try await RawClient.ask(
                    endpoint, "PUT", "/api/auth/grant/lanyard", fields: [json, cookie],
                    body: #"{"scope":"openid api"}"#)
                return try await RawClient.ask(endpoint, "GET", target + "&g_continue", fields: [cookie])
            })
        try await server.stop()
    }

    static func compare(_ outcomes: [Case: String], _ deviation: (Expectation) -> String? = { _ in nil }) {
        for (test, found) in outcomes {
            let expectation = expectation(test)
            #expect(found == deviation(expectation) ?? expectation.rfc, "\(test)")
        }
    }
}

struct StandInComparisonTests {
    @Test("the stand-in responds as the RFCs say")
    func standIn() async throws {
        try await StandInComparison.standIn(600) { StandInComparison.compare(try await StandInComparison.outcomes($0)) }
    }

    @Test(
        "nanoidp responds to the same requests as the stand-in does, but for one member",
        .enabled(if: PythonServer.isThere("nanoidp"), "needs deploy/peer-servers nanoidp"))
    func nanoidp() async throws {
        try await StandInComparison.nanoidp(600) {
            StandInComparison.compare(try await StandInComparison.outcomes($0), \.nanoidp)
        }
    }

    @Test(
        "glewlwyd responds to the same requests with the same outcome, in words of its own for what it refuses",
        .enabled(if: GlewlwydServer.isThere, "needs deploy/peer-servers glewlwyd"))
    func glewlwyd() async throws {
        try await StandInComparison.glewlwyd(600) {
            StandInComparison.compare(try await StandInComparison.outcomes($0), \.glewlwyd)
        }
    }
}

/// Device codes end after a second there.
struct LongStandInComparisonTests {
    @Test("an expired device code has the same outcome at the stand-in and at the real servers that are there")
    func expired() async throws {
        let check = { (peer: StandInComparison.Peer) in
            StandInComparison.compare(try await StandInComparison.expired(peer))
        }
        try await StandInComparison.standIn(1, check)
        if PythonServer.isThere("nanoidp") { try await StandInComparison.nanoidp(1, check) }
        if GlewlwydServer.isThere { try await StandInComparison.glewlwyd(1, check) }
    }
}
