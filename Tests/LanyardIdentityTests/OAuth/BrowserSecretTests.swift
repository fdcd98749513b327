import Foundation
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// A login in a browser makes several calls. No text of it has a secret of any of them.
@Suite("OAuth: secrets of a whole login in a browser") struct BrowserSecretTests {
    private static let first = "FirstAssertionOfClient"
    private static let second = "AnotherProofOfLetters"

    private final class Reports: Sendable {
        let prompt = Guarded<BrowserLoginPrompt?>(nil)
        let result = Guarded<Result<LoginMethod<Secret>, IdentityError>?>(nil)
    }

    private static let more =
        #","device_authorization_endpoint":"ISSUER/device","authorization_endpoint":"ISSUER/a","#
        + #""pushed_authorization_request_endpoint":"ISSUER/par","require_pushed_authorization_requests":true"#

    /// A server with these responses at its token endpoint. The client's assertion comes from a file.
    private static func bench(
        metadata: String = more, token respond: @escaping @Sendable (RawMessage) -> RawResponse
    ) throws -> OAuthBench {
        let own = Guarded("")
        return try OAuthBench(
            script: { request in
                let issuer = own.withLock { $0 }
                switch request.target {
                case "/.well-known/openid-configuration":
                    return OAuthBench.metadata(issuer, more: metadata.replacing("ISSUER", with: issuer))
                case "/par": return OAuthBench.json(201, #"{"request_uri":"urn:x:1","expires_in":60}"#)
                case "/device":
                    return OAuthBench.json(
                        200,
                        #"{"device_code":"d1","user_code":"A","verification_uri":"http://i/d","expires_in":600,"interval":5}"#
                    )
                case "/token": return respond(request)
                default: return nil
                }
            },
            settings: { client, folder in
                own.withLock { $0 = client.issuer ?? "" }
                client.clientID = "lanyard"
                client.authentication = .assertion(
                    file: try folder.write("s", first), type: ClientAuthentication.jwtAssertionType)
            })
    }

    /// The error of a login whose browser comes back with this query, after the assertion in the file has changed.
    private func failure(
        _ request: BrowserLoginRequest, _ bench: OAuthBench, query: (_ state: String) -> String = { _ in "" }
    ) async throws -> IdentityError {
        let reports = Reports()
        let login = bench.identity.begin(
            request, onPrompt: { prompt in reports.prompt.withLock { $0 = prompt } },
            onEnd: { end in reports.result.withLock { $0 = end } })
        for _ in 0..<3 { bench.loop.pass(FileSettling.settlingDelay) }
        try await eventually("the login asks") { reports.prompt.withLock { $0 != nil } }
        _ = try bench.folder.write("s", Self.second)
        if request.kind == .device {
            let login = try #require(login as? DeviceLogin)
            try await eventually("the poll has its time") { bench.loop.perform { login.timer.instant < .never } }
            bench.loop.pass(.seconds(5))
        } else {
            let form = try #require(bench.server.requests.last { $0.target == "/par" }?.bodyText)
            let fields = URLComponents(string: "http://x/?" + form)?.queryItems ?? []
            let query = query(fields.first { $0.name == "state" }?.value ?? "")
            let refusal = await withCheckedContinuation { done in
                login.receive(query: Tokens.secret(query)) { done.resume(returning: $0) }
            }
            #expect(refusal == nil)
        }
        for _ in 0..<3 { bench.loop.pass(FileSettling.settlingDelay) }
        try await eventually("the login has ended") { reports.result.withLock { $0 != nil } }
        return try #require(reports.result.withLock { $0 }?.failure)
    }

    private static let redirect = BrowserLoginRequest.authorizationCode(redirectURI: "http://127.0.0.1:9/callback")

    private static func check(_ error: IdentityError) {
        let text = "\(error.operatorMessage) \(error.code ?? "")".lowercased()
        #expect(!text.contains("firstass") && !text.contains("anotherp"), "\(text)")
    }

    @Test(
        "what the browser brings is compared with the secrets of the pushed request",
        arguments: [
            "error=invalid_request&error_description=bad+client_assertion%3D\(first)", "error=x_\(first)",
            "error=invalid_request&error_description=cut+\(first.prefix(9))",
        ])
    func browser(_ query: String) async throws {
        let bench = try Self.bench { _ in OAuthBench.json(500, "") }
        Self.check(try await failure(Self.redirect, bench) { query + "&state=" + $0 })
        #expect(bench.forms.isEmpty)
    }

    @Test("so is the response to the code, and that to a poll with the secrets of the request for the codes")
    func tokenEndpoint() async throws {
        for body in [
            #"{"error":"invalid_request","error_description":"the former one was \#(Self.first)"}"#,
            #"{"error":"invalid_\#(Self.first)"}"#, #"{"error":"access_denied","error_description":"\#(Self.second)"}"#,
            #"{"error":"access_denied","error_description":"not \#(Self.first)"}"#,
            #"{"access_token":"a","token_type":"\#(Self.first)"}"#,
        ] {
            for request in [Self.redirect, .device] {
                let bench = try Self.bench { _ in OAuthBench.json(body.contains("access_token") ? 200 : 400, body) }
                Self.check(try await failure(request, bench) { "code=c&state=" + $0 })
                #expect(bench.forms.count == 1)
            }
        }
    }

    @Test("an account's id and an issuer that share letters with a token are shown; a whole secret in them is not")
    func sharedLetters() throws {
        let access = "00Dxx0000001gPL.AQcAQH0dMHZfz972"
        let bench = try OAuthBench(settings: { client, _ in client.clientID = "lanyard" })
        func read(iss: String, sub: String) -> (token: IDToken?, defect: String?) {
            let token = Tokens.jwt(
                #"{"iss":"\#(iss)","aud":"lanyard","exp":9999999999,"iat":1,"sub":"\#(sub)"}"#, signature: "x")
            let body = #"{"access_token":"\#(access)","id_token":"\#(token)"}"#
            return bench.loop.perform {
                bench.identity.idToken(
                    in: CurlResponse(status: 200, fields: .init(), body: Tokens.secret(body)), hasTenants: true,
                    nonce: nil, without: [Tokens.secret("the-device-code")])
            }
        }
        let account = "https://login.salesforce.com/id/00Dxx0000001gPLEAY/005xx000001SwiUAAS"
        for sub in [account, "00Dxx0000001gPL", "device-c"] {
            let (token, defect) = read(iss: bench.issuer, sub: sub)
            #expect(defect == nil && token?.subject == sub)
        }
        for sub in ["id-\(access)", access.uppercased(), "for:the-device-code"] {
            let (token, defect) = read(iss: bench.issuer, sub: sub)
            #expect(defect == nil && token?.subject == nil && token?.account != nil, "\(sub)")
        }
        let other = "https://i.example/00Dxx0000001gPLEAY"
        #expect(read(iss: other, sub: "s").defect == "its iss is \(other), not \(bench.issuer)")
        #expect(read(iss: "https://i.example/\(access)", sub: "s").defect?.contains("cannot be shown") == true)
    }
}
