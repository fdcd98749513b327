import Glibc
import IdentityTestSupport
import TestSupport
import Testing

@testable import LanyardFoundations
@testable import LanyardSessionInterface
@testable import LanyardSettings

@Suite("App Services: what is sent")
struct AppServicesIdentityTests {
    @Test("a login asks for the location first, then logs in at the place it named, both without Authorization")
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
        #expect(requests[0]["Accept"] == "application/json" && requests[0]["Content-Type"] == nil)
        #expect(requests[1].values("Content-Type") == ["application/json;charset=utf-8"])
        #expect(requests.allSatisfy { $0.values("Accept-Encoding") == ["identity"] })
        let unwanted = ["Authorization", "Expect", "Cookie", "Transfer-Encoding"]
        #expect(requests.allSatisfy { request in unwanted.allSatisfy { request[$0] == nil } })
    }

    @Test("a token's lifetime counts from the moment before its request was sent, not from the wait before that")
    func requestStart() async throws {
        let wait = Duration.seconds(5)
        let loop = Guarded<EventLoop?>(nil)
        let bench = try IdentityBench { _, path in
            if path.hasSuffix("/location") { loop.withLock { $0 }?.pass(wait) }
            return nil
        }
        loop.withLock { $0 = bench.loop }
        func now() -> ClockReading { bench.loop.perform { .now } }
        let start = now()
        let login = try #require(try await bench.login().get().requestStartedAt)
        #expect(login.instant >= start.instant + wait && login.instant <= now().instant)
        #expect(login.wall >= start.wall + wait && login.wall <= now().wall)
        let refresh = try #require(try await bench.refresh().get().requestStartedAt)
        #expect(refresh.instant > login.instant && refresh.instant <= now().instant)
    }

    @Test("a login carries the twelve device members and the provider, as core sends them")
    func device() async throws {
        let bench = try IdentityBench()
        _ = await bench.login()
        let body = try #require(try bench.server.requests.last?.json)
        #expect(body["provider"].string == "anon-user")
        let device = body["options"]["device"].object
        #expect(
            Set(device.keys) == [
                "appId", "platform", "platformVersion", "sdk", "sdkVersion", "cpuArch", "deviceName", "deviceVersion",
                "frameworkName", "frameworkVersion", "coreVersion", "bundleId",
            ])
        #expect(device["appId"]?.string == "demo-abcde" && device["sdkVersion"]?.string == "1.2.3")
        #expect(device["platform"]?.string == "Linux" && device["deviceName"]?.string == "")
    }

    @Test(
        "a password comes from its file byte for byte, without its final newline",
        arguments: [
            ("plain", "plain"), ("with newline\n", "with newline"), ("two\n\n", "two\n"), ("dos\r\n", "dos"),
            ("quote\"back\\slash/tab\tbell\u{7}", "quote\"back\\slash/tab\tbell\u{7}"), ("żółw 🐢", "żółw 🐢"),
        ])
    func password(content: String, sent: String) async throws {
        let bench = try IdentityBench()
        let file = try bench.folder.write("password", content)
        _ = try await bench.login(.emailPassword(email: "al\"ice@example.com", password: file)).get()
        let request = try #require(bench.server.requests.last)
        #expect(request.target == "\(IdentityBench.appPath)/auth/providers/local-userpass/login")
        let body = try request.json
        #expect(body["username"].string == "al\"ice@example.com" && body["password"].string == sent)
    }

    @Test("a key comes from its file, read again at each login")
    func key() async throws {
        let bench = try IdentityBench()
        for key in ["first", "second"] {
            let file = try bench.folder.write("key", key)
            _ = try await bench.login(.apiKey(file)).get()
            let request = try #require(bench.server.requests.last)
            #expect(request.target == "\(IdentityBench.appPath)/auth/providers/api-key/login")
            #expect(try request.json["key"].string == key)
        }
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

    @Test("a logout is a DELETE that bears the refresh token", arguments: [204, 200])
    func logout(status: Int) async throws {
        let bench = try IdentityBench { request, _ in
            request.method == "DELETE" ? IdentityBench.json(status, status == 204 ? "" : #"{"status":"ok"}"#) : nil
        }
        try await bench.revoke().get()
        let request = try #require(bench.server.requests.last)
        #expect(request.startLine == "DELETE \(IdentityBench.sessionPath) HTTP/1.1")
        #expect(request.values("Authorization") == ["Bearer \(Tokens.refresh)"] && request.body.isEmpty)
    }

    @Test("what a grant says comes from the response: lifetimes, the refresh token's end, the service's clock")
    func grant() async throws {
        let refreshToken = Tokens.jwt(#"{"exp":1800000000,"iat":1,"baas_id":"x"}"#)
        let bench = try IdentityBench { _, path in
            guard path.hasSuffix("/login") else { return nil }
            return IdentityBench.json(
                200,
                #"{"access_token":"\#(Tokens.access())","refresh_token":"\#(refreshToken)","user_id":"u","expires_in":"90","more":[{}]}"#,
                fields: [("Date", "Sun, 06 Nov 1994 08:49:37 GMT")])
        }
        let grant = try await bench.login().get()
        #expect(grant.lifetime == .seconds(90))
        #expect(grant.refreshTokenExpiry == WallTime(seconds: 1_800_000_000))
        #expect(grant.serverDate == WallTime(seconds: 784_111_777))
    }

    @Test("many calls at once share one location request, and each is answered")
    func oneLocation() async throws {
        let bench = try IdentityBench { _, path in
            path.hasSuffix("/location") ? nil : IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())"}"#)
        }
        let granted = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<40 { group.addTask { await bench.refresh().success != nil } }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(granted == 40)
        #expect(bench.server.requests.count { $0.target.hasSuffix("/location") } == 1)
    }

    @Test("a secret file that cannot be used is named with the remedy, and nothing is sent")
    func unusableFiles() async throws {
        let bench = try IdentityBench(baseURL: "http://127.0.0.1:1")
        let files = [
            bench.folder.file("missing"): "does not exist", try bench.folder.write("empty", "\n"): "is empty",
            try bench.folder.write("large", String(repeating: "x", count: 65537)): "larger than 64 KiB",
            bench.folder.path: "not a regular file",
        ]
        for (file, message) in files {
            let error = await bench.login(.apiKey(file)).failure
            #expect(error?.verdict == .credentialUnavailable)
            #expect(error?.message.contains(message) == true && error?.message.contains(file) == true)
        }
        #expect(bench.server.requests.isEmpty)
    }

    @Test("a secret file that everybody can read is used, with one warning")
    func worldReadable() async throws {
        let bench = try IdentityBench()
        let file = try bench.folder.write("key", "k", mode: 0o644)
        for _ in 0..<2 { _ = try await bench.login(.apiKey(file)).get() }
        #expect(bench.log.lines.count { $0.contains("secret_file_world_readable") && $0.contains(file) } == 1)
    }
}
