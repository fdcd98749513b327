import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

/// The places where a server's metadata can be: which response leads to the next one, and which error is told if all fail.
@Suite("OAuth: the places of metadata") struct MetadataPlaceTests {
    private static let places = [
        "/o/.well-known/openid-configuration", "/.well-known/oauth-authorization-server/o",
        "/o/.well-known/oauth-authorization-server",
    ]

    /// A server whose issuer has a path. The responses of its places are in order; `nil` is its metadata.
    private static func bench(_ responses: [RawResponse?]) throws -> OAuthBench {
        let own = Guarded("")
        return try OAuthBench(
            script: { request in
                guard let place = places.firstIndex(of: request.target) else { return nil }
                let issuer = own.withLock { $0 }
                return responses[place]
                    ?? OAuthBench.json(200, #"{"issuer":"\#(issuer)/o","token_endpoint":"\#(issuer)/token"}"#)
            },
            settings: { client, _ in
                own.withLock { $0 = client.issuer ?? "" }
                client.issuer = (client.issuer ?? "") + "/o"
            })
    }

    private static func targets(_ bench: OAuthBench) -> [String] { bench.server.requests.map(\.target) }

    private static let other = #"{"issuer":"https://other.example","token_endpoint":"https://other.example/t"}"#

    /// What servers and gateways say where no metadata is.
    private static let misses: [(Int, String)] = [
        (302, ""), (307, ""), (400, #"{"error":"invalid_request"}"#), (401, "{}"), (402, ""), (403, "<html>"),
        (404, ""),
        (405, ""), (406, ""), (410, ""), (418, ""), (421, ""), (422, "{}"), (451, ""), (500, ""), (501, ""),
        (502, "<html>"),
        (503, ""), (504, ""), (408, ""), (200, "<html>"), (200, ""), (200, "{}"), (200, "[]"), (200, "null"),
        (200, #""x""#), (200, #"{"error":"not found"}"#), (200, #"{"issuer":"x"#), (204, ""), (202, "{}"),
        (200, #"{"issuer":7}"#), (200, other),
    ]

    @Test(
        "each response but the metadata of the issuer leads to the next place, and the first one that has it is used",
        arguments: misses)
    func next(_ status: Int, _ body: String) async throws {
        let miss = status == 204 ? RawResponse.response(204, "X", fields: []).closing : OAuthBench.json(status, body)
        for found in 1...2 {
            let bench = try Self.bench([miss, found == 1 ? nil : miss, nil])
            _ = try await bench.login(.clientCredentials).get()
            #expect(Self.targets(bench) == Array(Self.places[...found]) + ["/token"], "\(status) \(body)")
        }
    }

    @Test(
        "a body without an end leads to the next place; a server that asks for a pause, or that is not there, is not asked again"
    )
    func ends() async throws {
        let endless = OAuthBench.json(200, String(repeating: " ", count: 2 << 20))
        let bench = try Self.bench([endless, nil, nil])
        _ = try await bench.login(.clientCredentials).get()
        #expect(Self.targets(bench).count == 3)
        for (response, wait) in [
            (OAuthBench.json(503, "", fields: [("Retry-After", "9")]), Duration.seconds(9)),
            (OAuthBench.json(429, "", fields: [("Retry-After", "9")]), .seconds(9)), (.close, nil),
        ] as [(RawResponse, Duration?)] {
            let bench = try Self.bench([response, nil, nil])
            #expect(await bench.login(.clientCredentials).failure?.retryAfter == wait)
            #expect(Set(Self.targets(bench)).count == 1)
        }
    }

    @Test(
        "if all fail, the error is that which tells most: another issuer, then an outage, then what is no metadata, then nothing there",
        arguments: [
            ([(404, ""), (200, other), (503, "")], "its issuer is https://other.example", ResponsibleParty.operator),
            ([(200, other), (500, ""), (404, "")], "its issuer is https://other.example", .operator),
            ([(404, ""), (503, ""), (302, "")], "503", .nobody),
            ([(503, ""), (404, ""), (200, "<html>")], "503", .nobody),
            ([(404, ""), (200, "{}"), (404, "")], "it names no issuer", .operator),
            ([(404, ""), (403, ""), (404, "")], "403", .operator),
            ([(302, ""), (404, ""), (405, "")], "302", .operator),
            ([(404, ""), (404, ""), (404, "")], "/o/.well-known/openid-configuration", .operator),
            ([(405, ""), (410, ""), (501, "")], "405", .operator),
        ] as [([(Int, String)], String, ResponsibleParty)])
    func telling(_ responses: [(Int, String)], _ words: String, _ party: ResponsibleParty) async throws {
        let bench = try Self.bench(responses.map { OAuthBench.json($0, $1) })
        let error = try #require(await bench.login(.clientCredentials).failure)
        #expect(error.message.contains(words) && error.verdict == .transient(retryAfter: nil), "\(error.message)")
        #expect(error.action(canLogIn: true) == party, "\(error.message)")
        #expect(Self.targets(bench) == Self.places)
    }
}
