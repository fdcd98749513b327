import LanyardEmulator
import TestSupport
import Testing

@Suite struct ProtectedResourceTests {
    typealias Fixture = EmulatorFixture

    @Test("the echo tells method, path, query, fields, body size and digest, and never a credential")
    func echo() async throws {
        let it = try await Fixture()
        let (access, _) = try await it.tokens()
        let response = try await RawClient.ask(
            it.endpoint, "PUT", "/protected/a%20b?c=d",
            fields: [("Authorization", "Bearer \(access)"), ("X-One", "1"), ("Cookie", "secret")], body: "hello")
        let echo = try response.json
        #expect(
            echo["method"].string == "PUT" && echo["path"].string == "/protected/a%20b" && echo["query"].string == "c=d"
        )
        #expect(echo["body_bytes"].int == 5 && echo["body_sha256"].string == SHA256Digest.hex(of: Array("hello".utf8)))
        #expect(echo["headers"]["x-one"].string == "1")
        #expect(!response.bodyText.contains(access) && !response.bodyText.contains("secret"))
        await it.emulator.stop()
    }

    @Test("a large or chunked body passes through, and the connection can be used again, also after a refusal")
    func bodies() async throws {
        let it = try await Fixture()
        let (access, _) = try await it.tokens()
        let endpoint = it.endpoint
        do {
            let client = try RawClient(endpoint)
            let body = [UInt8](repeating: 7, count: 5_000_000)
            for bearer in [access, "junk", access] {
                let response = try client.exchange(
                    "POST", "/protected/", fields: [("Authorization", "Bearer \(bearer)")], body: body)
                #expect(response.status == (bearer == access ? 200 : 401))
                if bearer == access { #expect(try response.json["body_sha256"].string == SHA256Digest.hex(of: body)) }
            }
            try client.send("POST /protected/ HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(access)\r\n")
            try client.send("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\nyou\r\n0\r\n\r\n")
            #expect(try client.response().json["body_bytes"].int == 8)
            let head = try client.exchange("HEAD", "/protected/", fields: [("Authorization", "Bearer \(access)")])
            #expect(head.status == 200 && head["content-length"] != "0")
            #expect(try client.exchange("GET", "/protected/").status == 401)
        }
        await it.emulator.stop()
    }

    @Test("fifty clients at once are all answered, and all counted")
    func manyClients() async throws {
        let it = try await Fixture()
        let (access, _) = try await it.tokens()
        let endpoint = it.endpoint
        let clients = Sanitizer.isOn ? 8 : 50
        try await withThrowingTaskGroup(of: Void.self) { group in
            // The crowd is the point, and too much for an emulator that is sanitized itself.
            for _ in 0..<clients {
                group.addTask {
                    let client = try RawClient(endpoint)
                    for _ in 0..<10 {
                        let response = try client.exchange(
                            "GET", "/protected/", fields: [("Authorization", "Bearer \(access)")])
                        guard response.status == 200 else { throw TestFailure("\(response.status)") }
                    }
                }
            }
            try await group.waitForAll()
        }
        let counts = try await it.control("GET", "/counts")
        #expect(counts["routes"]["protected"]["calls"].int == clients * 10)
        #expect(try await it.control("GET", "/tokens")[0]["uses"].int == clients * 10)
        await it.emulator.stop()
    }
}
