import TestSupport
import Testing

@testable import Lanyard

@Suite("App Services: what is sent")
struct AppServicesIdentityTests {
    @Test("a login asks for the location first, then logs in at the place it named")
    func loginAnonymously() async throws {
        let bench = try IdentityBench()
        let grant = try await bench.login().get()
        #expect(Tokens.text(grant.accessToken) == Tokens.access())
        #expect(Tokens.text(grant.refreshToken) == Tokens.refresh)
        #expect(grant.userID == "0123456789abcdef01234567")
        #expect(grant.lifetime == .seconds(1800))
        let requests = bench.server.requests
        #expect(
            requests.map(\.startLine) == [
                "GET \(IdentityBench.appPath)/location HTTP/1.1",
                "POST \(IdentityBench.appPath)/auth/providers/anon-user/login HTTP/1.1",
            ])
        #expect(requests[0]["Accept"] == "application/json")
        #expect(requests[1]["Content-Type"] == "application/json;charset=utf-8")
        #expect(requests.allSatisfy { $0["Authorization"] == nil && $0["Expect"] == nil && $0["Cookie"] == nil })
    }

    @Test("a refresh is an empty POST that bears the refresh token")
    func refresh() async throws {
        let bench = try IdentityBench()
        let grant = try await bench.refresh().get()
        #expect(Tokens.text(grant.accessToken) == Tokens.access())
        #expect(grant.refreshToken == nil && grant.userID == nil)
        let request = try #require(bench.server.requests.last)
        #expect(request.startLine == "POST \(IdentityBench.sessionPath) HTTP/1.1")
        #expect(request.values("Authorization") == ["Bearer \(Tokens.refresh)"])
        #expect(request.values("Content-Type") == ["application/json;charset=utf-8"])
        #expect(request["Accept"] == "application/json")
        #expect(request["Content-Length"] == "0" && request.body.isEmpty)
    }
}
