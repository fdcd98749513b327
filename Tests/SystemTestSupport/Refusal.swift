import TestSupport
import Testing

/// How a request is refused, and everything that follows from it (http-connections.md 19.1, 19.2, architecture-control.md 6.1).
struct Refusal: Sendable {
    let status: Int
    /// The problem's type, without `urn:lanyard:problem:`.
    let type: String
    /// The counter that grows by one; nil if the request itself was not at fault.
    var reason: String?
    /// `error` of `Proxy-Status`.
    var error = "http_request_error"
    /// `Connection: close`, and nothing behind it is read as HTTP.
    var closes = true
    /// The response has `Retry-After`.
    var hasRetryAfter = false

    /// 400 close.
    static let malformed = Refusal(status: 400, type: "malformed-request", reason: "malformed")
    /// 400 close for a TLS hello on a listener without TLS.
    static let tlsHello = Refusal(status: 400, type: "malformed-request", reason: "tls")
    /// 400, whose connection stays.
    static let malformedButFramed = Refusal(status: 400, type: "malformed-request", reason: "malformed", closes: false)
    static let ambiguous = Refusal(status: 400, type: "ambiguous-path", reason: "path", closes: false)
    static let notImplemented = Refusal(status: 501, type: "not-implemented", reason: "malformed")
    static let versionNotSupported = Refusal(status: 505, type: "version-not-supported", reason: "malformed")
    static let lineTooLong = Refusal(status: 414, type: "uri-too-long", reason: "limit")
    static let fieldsTooLarge = Refusal(status: 431, type: "fields-too-large", reason: "limit")
    static let contentTooLarge = Refusal(status: 413, type: "content-too-large", reason: "limit")
    static let timeout = Refusal(status: 408, type: "request-timeout", reason: "timeout")
    static let expectation = Refusal(status: 417, type: "expectation-failed", reason: "expect")
    static let host = denial(421, "host-not-allowed", "host")
    static let origin = denial(403, "origin-not-allowed", "origin")
    static let forwarded = denial(403, "forwarded-not-allowed", "forwarded")
    static let authorization = denial(403, "authorization-not-allowed", "authorization")
    static let denied = denial(403, "denied-by-route", "denied")
    static let noRoute = denial(404, "no-route", "path")
    static let method = denial(405, "method-not-allowed", "method")
    /// A response that cannot be trusted.
    static let upstreamInvalid = Refusal(
        status: 502, type: "upstream-invalid", error: "http_protocol_error", closes: false)
    static let upstreamIncomplete = Refusal(
        status: 502, type: "upstream-invalid", error: "http_response_incomplete", closes: false)
    static let upstreamTerminated = Refusal(
        status: 502, type: "upstream-unreachable", error: "connection_terminated", closes: false)
    static let upstreamHeadTooLarge = Refusal(
        status: 502, type: "upstream-invalid", error: "http_response_header_section_size", closes: false)
    static let upstreamTimeout = Refusal(
        status: 504, type: "upstream-timeout", error: "http_response_timeout", closes: false)

    static func denial(_ status: Int, _ type: String, _ reason: String) -> Refusal {
        Refusal(status: status, type: type, reason: reason, error: "http_request_denied", closes: false)
    }

    /// The same, and the connection ends.
    var closing: Refusal {
        Refusal(status: status, type: type, reason: reason, error: error, closes: true, hasRetryAfter: hasRetryAfter)
    }

    /// What is wrong with a response that should be this refusal; empty if nothing is.
    ///
    /// - Parameter method: of the request: the response to HEAD has no body.
    func faults(of response: RawMessage, to method: String = "GET", version: Int = 1) throws -> [String] {
        var faults: [String] = []
        func expect(_ what: String, _ got: String?, _ wanted: String?) {
            if got != wanted { faults.append("\(what): \(got ?? "none") instead of \(wanted ?? "none")") }
        }
        expect("status", "\(response.status)", "\(status)")
        expect("version", String(response.startLine.prefix(9)), "HTTP/1.1 ")
        expect("Content-Type", response["Content-Type"], "application/problem+json")
        expect("Cache-Control", response["Cache-Control"], "no-store")
        expect("Proxy-Status", response["Proxy-Status"], "lanyard; error=\(error)")
        expect("Connection", response["Connection"], closes ? "close" : version == 0 ? "keep-alive" : nil)
        expect("Date", response["Date"].map { String($0.suffix(4)) }, " GMT")
        if (response["Retry-After"] != nil) != hasRetryAfter {
            faults.append("Retry-After: \(response["Retry-After"] ?? "none")")
        }
        guard method != "HEAD" else {
            if Int(response["Content-Length"] ?? "") ?? 0 == 0 { faults.append("no Content-Length to HEAD") }
            return faults
        }
        expect("Content-Length", response["Content-Length"], "\(response.body.count)")
        let problem = try response.json
        expect("type", problem["type"].string, "urn:lanyard:problem:\(type)")
        expect("status in the body", "\(problem["status"].int ?? 0)", "\(status)")
        if problem["title"].string?.isEmpty != false { faults.append("no title") }
        if problem["detail"].string?.isEmpty != false { faults.append("no detail") }
        if problem["instance"].string?.count != 16 { faults.append("no instance") }
        return faults
    }
}

extension HTTPBench {
    /// Sends a request that must be refused, with another behind it, and looks at everything that a refusal means: one
    /// response with the right head and body, no byte upstream, one count by its reason, one line of log at debug level,
    /// and a connection that ends in order or continues with the request behind.
    ///
    /// - Parameters:
    ///   - text: the request.
    ///   - behind: a request is sent at once behind it; false sends one when the response has come, if the connection stays.
    ///   - ends: the client ends its direction behind all that.
    ///   - limit: the time that the clock passes before the response.
    @discardableResult
    func refuses(
        _ text: String, _ refusal: Refusal = .malformed, to method: String = "GET", version: Int = 1,
        behind: Bool = true, ends: Bool = false, after limit: Duration? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> RawMessage {
        try await startOver()
        let before = try await rejections()
        let next = Self.plain("\(prefix)/behind")
        let name = Comment(rawValue: String(text.prefix(200).debugDescription))
        let client = try await connect()
        try await client.send(text + (behind ? next : ""))
        if ends { client.halfClose() }
        try await pass(limit, sparing: client, sourceLocation: sourceLocation)
        let response = try await client.response(to: method)
        let faults = try refusal.faults(of: response, to: method, version: version)
        #expect(faults == [], name, sourceLocation: sourceLocation)
        if refusal.closes {
            let rest = try await client.rest()
            #expect(rest == ("", false), name, sourceLocation: sourceLocation)
        } else {
            if !behind { try await client.send(next) }
            #expect(try await client.response().status == 200, name, sourceLocation: sourceLocation)
        }
        client.close()
        try await fence()
        let expected = refusal.closes ? [] : [Self.forwarded("GET \(prefix)/behind")]
        // The fence is sent on the connection that the request behind has left in the pool.
        let seen = receivedWithoutFences
        #expect(seen == expected, name, sourceLocation: sourceLocation)
        try await counted(refusal, since: before, name, sourceLocation)
        try await startOver()
        return response
    }

    /// One count by its reason and one line at debug level.
    func counted(
        _ refusal: Refusal, since before: [String: Int], _ name: Comment, _ sourceLocation: SourceLocation
    ) async throws {
        let after = try await rejections()
        let grown = after.filter { before[$0.key, default: 0] != $0.value }
            .map { "\($0.key) +\($0.value - before[$0.key, default: 0])" }
        #expect(grown == (refusal.reason.map { ["\($0) +1"] } ?? []), name, sourceLocation: sourceLocation)
        func refused() -> [LogLine] { lines.filter { $0.event == "request.refused" } }
        if clock != nil { try await lanyard.process.settle() }
        try await eventually("the refusal is logged") { !refused().isEmpty }
        // Of many in one second the later ones are written at debug level.
        #expect(refused().map { $0.json["reason"].string } == [refusal.type], name, sourceLocation: sourceLocation)
        #expect(refused().allSatisfy { $0.json["status"].int == refusal.status }, name, sourceLocation: sourceLocation)
    }

    /// Lets the upstream respond to a request with what must not be trusted: the client gets 502 (or 504) and keeps its
    /// connection, the upstream connection ends and is not used again, another client notices nothing.
    ///
    /// - Parameter end: what the upstream does behind the response; without it, it waits.
    @discardableResult
    func drops(
        _ text: String, then end: [RawResponse.Step] = [], _ refusal: Refusal = .upstreamInvalid,
        request: String = plain("/drop"),
        to method: String = "GET", after limit: Duration? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> RawMessage {
        let name = Comment(rawValue: String(text.prefix(300).debugDescription))
        try await startOver()
        let other = try await connect()
        #expect(try await other.ask(Self.plain("/other")).status == 200, name, sourceLocation: sourceLocation)
        let before = try await rejections()
        let bad = RawResponse([.send(Wire.bytes(text))] + end)
        script { $0.message.target == "/drop" ? bad : .response() }
        let client = try await connect()
        try await client.send(request)
        try await pass(limit, sparing: client, sourceLocation: sourceLocation)
        let response = try await client.response(to: method)
        let faults = try refusal.faults(of: response, to: method)
        #expect(faults == [], name, sourceLocation: sourceLocation)
        try await dropped(name, sourceLocation)
        try await counted(refusal, since: before, name, sourceLocation)
        #expect(try await client.ask(Self.plain("/next")).bodyText == "ok", name, sourceLocation: sourceLocation)
        #expect(try await other.ask(Self.plain("/other")).bodyText == "ok", name, sourceLocation: sourceLocation)
        try await startOver()
        return response
    }

    /// The connection that carried `/drop` has ended.
    func dropped(_ name: Comment, _ sourceLocation: SourceLocation) async throws {
        try await eventually("the upstream connection is closed: \(name)") {
            upstream.records.allSatisfy { $0.ended || $0.requests.last?.target != "/drop" }
        }
        let last = upstream.records.compactMap(\.requests.last).count { $0.target == "/drop" }
        #expect(last > 0, name, sourceLocation: sourceLocation)
    }

    /// Sends a request for `/cut` whose body is cut short or at fault, perhaps with bytes behind it: the client gets
    /// one refusal and the end, and the upstream, which may have got the beginning, never a whole request.
    ///
    /// - Parameter end: what the client does behind the bytes.
    /// - Returns: what the upstream got, as `received`.
    @discardableResult
    func cuts(
        _ text: String, _ refusal: Refusal = .malformed, then end: (Wire) async throws -> Void = { _ in },
        after limit: Duration? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> String {
        try await startOver()
        let before = try await rejections()
        let name = Comment(rawValue: String(text.suffix(300).debugDescription))
        let client = try await connect()
        try await client.send(text)
        try await end(client)
        try await pass(limit, sparing: client, sourceLocation: sourceLocation)
        let response = try await client.response()
        let faults = try refusal.faults(of: response)
        #expect(faults == [], name, sourceLocation: sourceLocation)
        #expect(try await client.rest() == ("", false), name, sourceLocation: sourceLocation)
        client.close()
        let seen = try await neverWhole("/cut", name, sourceLocation)
        try await counted(refusal, since: before, name, sourceLocation)
        try await startOver()
        return seen
    }

    /// The connection that carried part of a request has ended before the request was whole.
    @discardableResult
    func neverWhole(_ target: String, _ name: Comment, _ sourceLocation: SourceLocation) async throws -> String {
        try await fence()
        let texts = receivedWithoutFences
        try await eventually("the upstream connection ends: \(name)") { hasEndedEach(with: target) }
        #expect(!upstream.requests.contains { $0.target == target }, name, sourceLocation: sourceLocation)
        #expect(texts.count <= 1, name, sourceLocation: sourceLocation)
        return texts.first ?? ""
    }

    /// Lets the upstream response by hand with a head and, when the client has that, with what is not whole or not in
    /// order: the client must see that its response was cut, the upstream connection ends, another client notices
    /// nothing.
    ///
    /// - Parameters:
    ///   - end: what the upstream does behind the bytes.
    ///   - isReset: the client's connection ends by a reset, as HTTP/1.0 and a body that lasts until the end demand.
    /// - Returns: what the client got behind the head.
    @discardableResult
    func aborts(
        _ head: String, _ rest: String, isReset: Bool? = nil, request: String = plain("/hand"),
        then end: (Wire) -> Void = { _ in }, after limit: Duration? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> String {
        try await startOver()
        let name = Comment(rawValue: String((head + rest).suffix(300).debugDescription))
        let other = try await connect()
        #expect(try await other.ask(Self.plain("/other")).status == 200, name, sourceLocation: sourceLocation)
        let client = try await connect()
        try await client.send(request)
        let peer = try await accept()
        _ = try await peer.request()
        try await peer.send(head)
        _ = try await client.head()
        // A request behind it must not be answered after a cut response.
        try await client.send(Self.plain("/behind"))
        if !rest.isEmpty { try await peer.send(rest) }
        end(peer)
        try await pass(limit, sparing: peer, sourceLocation: sourceLocation)
        let got = try await client.rest()
        if let isReset { #expect(got.wasReset == isReset, name, sourceLocation: sourceLocation) }
        #expect(!got.text.hasSuffix("0\r\n\r\n"), name, sourceLocation: sourceLocation)
        #expect(!got.text.contains("HTTP/1.1"), name, sourceLocation: sourceLocation)
        _ = try? await peer.rest()
        #expect(try await other.ask(Self.plain("/other")).bodyText == "ok", name, sourceLocation: sourceLocation)
        #expect(!received.joined().contains("/behind"), name, sourceLocation: sourceLocation)
        try await startOver()
        return got.text
    }
}
