import Glibc
import LanyardAdmin
import LanyardFoundations
import LanyardSessions
import TestSupport
import Testing

/// Connections of the admin listener: bytes that come as they like, clients that are slow, gone or too many.
@Suite struct AdminConnectionTests {
    private static let body = #"{"credential":{"api_key":{"key":"k-1"}}}"#
    private static let login = "POST /v1/users/bob/login HTTP/1.1\r\nHost: x\r\n"
    private static var whole: String { "\(login)Content-Length: \(body.utf8.count)\r\n\r\n\(body)" }
    private static var chunked: String {
        var text = "\(login)Transfer-Encoding: chunked\r\n\r\n"
        for byte in body { text += "1;x=y\r\n\(byte)\r\n" }
        return text + "0\r\nTrailer: t\r\n\r\n"
    }

    private static func server(
        timeStands: Bool = false, _ limits: (inout AdminLimits) -> Void = { _ in }
    ) throws -> AdminServer {
        var all = AdminLimits()
        limits(&all)
        let server = try AdminServer(limits: all, timeStands: timeStands)
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        return server
    }

    @Test("one connection carries many requests, with and without bodies, in one piece or sent ahead")
    func keptAlive() async throws {
        let server = try Self.server()
        let statuses = try await server.talk { client in
            var statuses: [Int] = []
            for _ in 0..<3 {
                statuses.append(try client.exchange("GET", "/v1/status").status)
                statuses.append(
                    try client.exchange("POST", "/v1/users/bob/login", body: Array(Self.body.utf8)).status)
            }
            try client.send(Self.whole + Self.chunked + "GET /v1/users HTTP/1.1\r\nHost: x\r\n\r\n")
            for _ in 0..<3 { statuses.append(try client.response().status) }
            return statuses
        }
        #expect(statuses == Array(repeating: 200, count: 9))
        #expect(server.users.requests == Array(repeating: "login bob by key", count: 5))
    }

    @Test("while a page about all users is made, other calls have their responses", arguments: ["status", "users"])
    func besideAPage(_ page: String) async throws {
        let server = try Self.server()
        server.users.holdReport()
        defer { server.users.releaseReport() }
        let client = try RawClient(server.endpoint)
        try client.send("GET /v1/\(page) HTTP/1.1\r\nHost: x\r\n\r\n")
        let status = try await server.talk { try $0.exchange("GET", "/v1/log-level").status }
        #expect(status == 200 && !client.hasInput)
        server.users.releaseReport()
        let response = try client.response()
        #expect(response.status == 200)
    }

    @Test("a request may come byte by byte", arguments: [false, true])
    func torn(_ isChunked: Bool) async throws {
        let server = try Self.server()
        let status = try await server.talk { client in
            for byte in (isChunked ? Self.chunked : Self.whole).utf8 {
                try client.send([byte])
                server.settle()
            }
            return try client.response().status
        }
        #expect(status == 200)
        #expect(server.users.given.count == 1)
    }

    @Test("100-continue is said when the body is wanted, and not when it is refused")
    func expectation() async throws {
        let server = try Self.server()
        let said = try await server.talk { client in
            try client.send(
                "\(Self.login)Expect: 100-continue\r\nContent-Length: \(Self.body.utf8.count)\r\n\r\n")
            let interim = String(decoding: try client.read(25), as: UTF8.self)
            try client.send(Self.body)
            return (interim, try client.response().status)
        }
        #expect(said == ("HTTP/1.1 100 Continue\r\n\r\n", 200))
        for (fields, status) in [
            ("Expect: 100-continue\r\nContent-Length: 1200000", 413), ("Expect: cake\r\nContent-Length: 5", 417),
        ] {
            let text = try await server.talk { client in
                try client.send("\(Self.login)\(fields)\r\n\r\n")
                return String(decoding: try client.readToEnd(), as: UTF8.self)
            }
            #expect(text.hasPrefix("HTTP/1.1 \(status) "))
        }
    }

    @Test("a body beyond 1088 KiB is refused, stated or chunked, and the connection ends")
    func tooLarge() async throws {
        let server = try Self.server()
        let count = AdminLimits().bodyBytesMax + 1
        let stated = "\(Self.login)Content-Length: \(count)\r\n\r\n"
        let chunked =
            "\(Self.login)Transfer-Encoding: chunked\r\n\r\n\(String(count, radix: 16))\r\n"
            + String(repeating: " ", count: count)
        for text in [stated, chunked] {
            let response = try await server.talk { client in
                try client.send(text)
                let response = try client.response()
                return (response, try client.readToEnd())
            }
            #expect(response.0.status == 413)
            #expect(try AdminServer.problem(response.0) == "content-too-large")
            #expect(response.1 == [])
        }
        #expect(server.users.requests == [])
    }

    @Test("a body of exactly 1088 KiB is read")
    func largest() async throws {
        let server = try Self.server()
        let body = Self.body + String(repeating: " ", count: (1088 << 10) - Self.body.utf8.count)
        #expect(try await server.ask("POST", "/v1/users/bob/login", body).status == 200)
    }

    @Test(
        "a request that two readers could take differently is refused, and nothing behind it is read",
        arguments: [
            "Content-Length: 5\r\nContent-Length: 5", "Content-Length: 2\r\nTransfer-Encoding: chunked",
            "Content-Length: +2", "Transfer-Encoding: gzip, chunked", "Host: y", "X : y",
        ])
    func smuggled(_ fields: String) async throws {
        let server = try Self.server()
        let text = try await server.talk { client in
            try client.send("\(Self.login)\(fields)\r\n\r\n{}POST /v1/shutdown HTTP/1.1\r\nHost: x\r\n\r\n")
            return String(decoding: try client.readToEnd(), as: UTF8.self)
        }
        #expect(text.hasPrefix("HTTP/1.1 400 ") || text.hasPrefix("HTTP/1.1 501 "))
        #expect(text.ranges(of: "HTTP/1.1").count == 1)
        #expect(server.stopCount == 0)
        #expect(server.users.requests == [])
    }

    @Test("half a head or half a body gets 408 in time, silence is merely closed")
    func slow() async throws {
        let time = Duration.seconds(3600)
        let server = try Self.server(timeStands: true) {
            $0.connections.headTimeout = time
            $0.bodyTimeout = time
        }
        for text in [
            "POST /v1/us", "\(Self.login)Content-Length: 9\r\n\r\n{",
            "\(Self.login)Transfer-Encoding: chunked\r\n\r\n5\r\n",
        ] {
            let response = try await server.talk { client in
                try client.send(text)
                server.pass(time - .nanoseconds(1))
                #expect(client.socket.receiveNow(max: 1) == nil)
                server.pass(.nanoseconds(1))
                return String(decoding: try client.readToEnd(), as: UTF8.self)
            }
            #expect(response.hasPrefix("HTTP/1.1 408 "), "\(text)")
        }
        let said = try await server.talk { client in
            server.pass(time)
            return try client.readToEnd()
        }
        #expect(said == [])
        #expect(server.users.requests == [])
    }

    @Test("drops of a body do not prolong its time")
    func dripping() async throws {
        let server = try Self.server(timeStands: true) { $0.bodyTimeout = .seconds(3600) }
        let response = try await server.talk { client in
            try client.send("\(Self.login)Content-Length: 1000\r\n\r\n")
            for _ in 0..<5 {
                server.pass(.seconds(600))
                try client.send(" ")
            }
            server.pass(.seconds(600) - .nanoseconds(1))
            #expect(client.socket.receiveNow(max: 1) == nil)
            server.pass(.nanoseconds(1))
            return String(decoding: try client.readToEnd(), as: UTF8.self)
        }
        #expect(response.hasPrefix("HTTP/1.1 408 "))
    }

    @Test("a client that goes away while its call is carried out harms no other client, and costs no processor time")
    func gone() async throws {
        let server = try Self.server()
        server.users.response.withLock { $0 = nil }
        for isReset in [false, true] {
            try await server.talk { client in
                try client.send(Self.whole)
                try blockUntil("the call is carried out") { server.users.waiting > 0 }
                if isReset { client.reset() } else { client.close() }
            }
            server.users.release(.success(.user(PlayedUsers.bob, isStored: true)))
        }
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        #expect(try await server.ask("GET", "/v1/status").status == 200)
    }

    @Test("calls that take long do not hold up others; a client that has ended its side still gets its response")
    func waiting() async throws {
        let server = try Self.server()
        server.users.response.withLock { $0 = nil }
        async let slow = server.talk { client in
            try client.send(Self.whole)
            client.halfClose()
            return try client.response().status
        }
        try await eventually("the call is in progress") { server.users.waiting == 1 }
        #expect(try await server.ask("GET", "/v1/status").status == 200)
        server.users.release(.failure(.loginInProgress))
        #expect(try await slow == 409)
    }

    @Test(
        "beyond the budget the connection that has waited longest for a request is closed, and no call in progress is")
    func budget() async throws {
        let server = try Self.server { $0.connections.connectionsMax = 4 }
        server.users.response.withLock { $0 = nil }
        async let slow = server.talk { client in
            try client.send(Self.whole)
            return try client.response().status
        }
        try await eventually("the call is in progress") { server.users.waiting == 1 }
        let endpoint = server.endpoint
        let idle = try (0..<6).map { _ in try RawClient(endpoint) }
        #expect(try await server.ask("GET", "/v1/status").status == 200)
        let closed = try idle.prefix(3).map { try $0.readToEnd() }
        #expect(closed == [[], [], []])
        server.users.release(.success(.user(PlayedUsers.bob, isStored: true)))
        #expect(try await slow == 200)
        for client in idle { client.close() }
    }

    @Test(
        "calls that wait for the service leave places free: beyond their limit they are told to retry, others continue")
    func waitingCalls() async throws {
        let server = try Self.server { ($0.connections.connectionsMax, $0.waitingCallsMax) = (4, 2) }
        server.users.response.withLock { $0 = nil }
        let clients = (0..<2).map { _ in Task { try await server.ask("POST", "/v1/users/bob/login").status } }
        try await eventually("the calls are in progress") { server.users.waiting == 2 }
        for path in ["login", "refresh"] {
            let response = try await server.ask("POST", "/v1/users/bob/\(path)")
            #expect(response.status == 503 && response["Retry-After"] == "1")
            #expect(try AdminServer.problem(response) == "overloaded")
            #expect(try response.json["retryable"].bool == true)
        }
        #expect(try await server.ask("GET", "/v1/status").status == 200)
        async let logout = server.ask("POST", "/v1/users/bob/logout").status
        try await eventually("the logout is in progress") { server.users.waiting == 3 }
        server.users.release(.success(.user(PlayedUsers.bob, isStored: true)))
        #expect(try await logout == 200)
        for client in clients { #expect(try await client.value == 200) }
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        for _ in 0..<5 { #expect(try await server.ask("POST", "/v1/users/bob/login").status == 200) }
    }

    @Test("calls that wait for one identity leave a third of the places to the others")
    func shares() async throws {
        let server = try Self.server { $0.waitingCallsMax = 3 }
        server.users.response.withLock { $0 = nil }
        let clients = (0..<2).map { _ in Task { try await server.ask("POST", "/v1/users/bob/login").status } }
        try await eventually("the calls are in progress") { server.users.waiting == 2 }
        #expect(try await server.ask("POST", "/v1/users/bob/login").status == 503)
        let other = Task {
            try await server.ask(
                "POST", "/v1/identities/other/email-password/send-reset-email", #"{"email":"a@example.com"}"#
            ).status
        }
        try await eventually("the other identity's call is in progress") { server.users.waiting == 3 }
        let response = try await server.ask("POST", "/v1/identities/third/email-password/confirm")
        #expect(try AdminServer.problem(response) == "overloaded")
        server.users.release(.success(.user(PlayedUsers.bob, isStored: true)))
        for client in clients { #expect(try await client.value == 200) }
        _ = try await other.value
    }

    @Test("a client that left while its call waits holds that call's place, and no more, until the call ends")
    func waitingCallsOfTheGone() async throws {
        let server = try Self.server { $0.waitingCallsMax = 1 }
        server.users.response.withLock { $0 = nil }
        try await server.talk { client in try client.send(Self.whole) }
        try await eventually("the call is in progress") { server.users.waiting == 1 }
        #expect(try await server.ask("POST", "/v1/users/bob/login").status == 503)
        server.users.replies(.success(.user(PlayedUsers.bob, isStored: true)))
        server.users.release(.failure(.loginInProgress))
        #expect(try await server.ask("POST", "/v1/users/bob/login").status == 200)
    }

    @Test(
        "with a call in progress on every connection the next client is told so, whatever it sends, and the log says it once"
    )
    func full() async throws {
        let server = try Self.server { $0.connections.connectionsMax = 3 }
        server.users.response.withLock { $0 = nil }
        let clients = (0..<3).map { _ in Task { try await server.ask("POST", "/v1/users/bob/logout").status } }
        try await eventually("the calls are in progress") { server.users.waiting == 3 }
        for _ in 0..<5 {
            let response = try await server.talk { client in
                try client.send(Self.whole)
                let response = try client.response()
                return (response, try client.readToEnd())
            }
            #expect(response.0.status == 503 && response.0["Retry-After"] == "1" && response.0["Connection"] == "close")
            #expect(try AdminServer.problem(response.0) == "overloaded")
            #expect(response.1 == [])
        }
        #expect(server.log.lines("admin.overloaded").count == 1)
        // More than are told at once: no call is left waiting, and no other client is harmed.
        let endpoint = server.endpoint
        let crowd = try (0..<40).map { _ in try RawClient(endpoint) }
        let said = crowd.map { client in (try? client.readToEnd()).map { $0.count } ?? 0 }
        #expect(said.count { $0 > 0 } >= 16)
        for client in crowd { client.close() }
        server.users.release(.success(.user(PlayedUsers.bob, isStored: true)))
        for client in clients { #expect(try await client.value == 200) }
        #expect(try await server.ask("GET", "/v1/status").status == 200)
    }

    @Test("a response that the client does not take at once goes out in parts")
    func slowReader() async throws {
        let server = try Self.server()
        // A response that is larger than the socket's buffers.
        let count = 5000
        server.users.otherUsers.withLock { $0 = count }
        let (taken, response, next) = try await server.talk { client in
            try client.send(String(repeating: "GET /v1/users HTTP/1.1\r\nHost: x\r\n\r\n", count: 2))
            try blockUntil("the response has begun") { client.waitingBytes > 0 }
            // The listener has written what the socket takes, and waits for this client.
            server.settle()
            return (client.waitingBytes, try client.response(), try client.response())
        }
        #expect(response.status == 200 && response.body.count > 2 * taken, "\(taken) of \(response.body.count) bytes")
        #expect(try response.json["users"].array.count == 3 + count)
        #expect(next.status == 200 && next.body == response.body)
    }

    @Test("a client that takes nothing is let go")
    func deadReader() async throws {
        let server = try Self.server { $0.connections.writeTimeout = .milliseconds(200) }
        let isEnded = try await server.talk { client in
            let requests = String(repeating: "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n", count: 20_000)
            return (try? client.socket.send(requests.utf8)) == nil
        }
        #expect(isEnded)
        #expect(try await server.ask("GET", "/v1/status").status == 200)
    }
}
