import CLinux
import Dispatch
import Foundation
import Glibc
import IdentityTestSupport
import LanyardFoundations
import TestSupport
import Testing

@testable import LanyardIdentity
@testable import LanyardSessionInterface
@testable import LanyardSettings

@Suite("Identity calls over a bad network")
struct CurlTransportTests {
    private static let good = IdentityBench.json(201, #"{"access_token":"\#(Tokens.access())"}"#)

    private static var hasty: CurlLimits {
        var limits = CurlLimits()
        limits.connectTimeout = .seconds(2)
        limits.totalTimeout = .seconds(2)
        return limits
    }

    /// A service whose location is healthy and whose session call does this.
    private func bench(limits: CurlLimits = CurlLimits(), _ response: RawResponse) throws -> IdentityBench {
        try IdentityBench(limits: limits) { request, _ in request.method == "GET" ? nil : response }
    }

    @Test(
        "a response that is lost after the refresh was sent leaves its outcome unknown",
        arguments: [
            RawResponse.close, .reset, good.torn(after: 20), good.torn(after: 90), good.torn(after: 90, by: .reset),
        ])
    func lost(response: RawResponse) async throws {
        let bench = try bench(response)
        #expect(await bench.refresh().failure?.verdict == .unknownOutcome)
        #expect(await bench.login().failure?.verdict == .transient(retryAfter: nil))
        #expect(await bench.revoke().failure?.verdict == .transient(retryAfter: nil))
    }

    // MARK: Codings and marks

    /// - Parameter times: how often it is compressed.
    private static func gzip(_ text: String, times: Int = 1) throws -> [UInt8] {
        let folder = try TemporaryFolder()
        try folder.write("text", text)
        for _ in 0..<times {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/usr/bin/gzip")
            process.arguments = ["-9", "-f", "-S", ".gz", folder.file("text")]
            try process.run()
            process.waitUntilExit()
            try FileManager.default.moveItem(atPath: folder.file("text.gz"), toPath: folder.file("text"))
        }
        return [UInt8](try Data(contentsOf: URL(fileURLWithPath: folder.file("text"))))
    }

    private static func coded(_ bytes: [UInt8], _ lines: [String]) -> RawResponse {
        let head = (["HTTP/1.1 200 OK", "Content-Type: application/json"] + lines).joined(separator: "\r\n")
        return RawResponse([.send(Array("\(head)\r\n\r\n".utf8) + bytes), .close])
    }

    private static let tokens = #"{"access_token":"\#(Tokens.access())"}"#

    @Test(
        "a coding that was not asked for is decoded: gateways compress what comes",
        arguments: [
            "Content-Encoding: gzip", "content-encoding:GZIP", "Content-Encoding: x-gzip",
            "Content-Encoding: identity, gzip",
        ])
    func coding(_ line: String) async throws {
        let bench = try bench(Self.coded(try Self.gzip(Self.tokens), [line]))
        #expect(Tokens.text(try await bench.refresh().get().accessToken) == Tokens.access())
        #expect(bench.server.requests.allSatisfy { $0.values("Accept-Encoding") == ["identity"] })
    }

    @Test(
        "a name that is no coding changes nothing: the body is read as it is, as other clients read it",
        arguments: [
            ["Content-Encoding: none"], ["Content-Encoding: None, identity"], ["Content-Encoding:"],
            ["Content-Encoding: , ,"], ["Content-Encoding: utf-8"], ["content-encoding: UTF8"],
            ["Content-Encoding: ISO-8859-1"], ["Content-Encoding: utf-8, us-ascii"], ["Content-Encoding: binary"],
            ["Content-Encoding: 8bit", "Content-Encoding: identity"], ["Content-Encoding: application/json"],
            ["Content-Encoding: chunked"], ["Content-Encoding: x"], ["Content-Encoding: \"utf-8\""],
            ["Content-Encoding: utf-8", "Transfer-Encoding: identity"],
        ])
    func noCoding(_ lines: [String]) async throws {
        let bench = try bench(Self.coded(Array(Self.tokens.utf8), lines))
        #expect(Tokens.text(try await bench.refresh().get().accessToken) == Tokens.access())
    }

    @Test("a name that is no coding makes no text of bytes, and one of an interim response counts for that one alone")
    func misnamedCoding() async throws {
        let compressed = try Self.gzip(Self.tokens)
        let misnamed = try bench(Self.coded(compressed, ["Content-Encoding: utf-8"]))
        #expect(await misnamed.refresh().failure != nil)
        let hints = Array("HTTP/1.1 103 Early\r\nContent-Encoding: utf-8\r\n\r\n".utf8)
        let head = Array("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n".utf8)
        let interim = try bench(RawResponse([.send(hints + head + compressed), .close]))
        #expect(Tokens.text(try await interim.refresh().get().accessToken) == Tokens.access())
        let large = try bench(
            Self.coded(Array(repeating: 0x20, count: (1 << 20) + 1), ["Content-Encoding: utf-8"]))
        let error = await large.refresh().failure
        #expect(error?.message.contains("its body larger than 1 MiB") == true, "\(error?.message ?? "")")
    }

    @Test(
        "a chain of codings, and one that is not decoded, is refused, whatever the body is",
        arguments: [
            ["Content-Encoding: gzip, gzip"], ["Content-Encoding: gzip", "Content-Encoding: gzip"],
            ["Content-Encoding: gzip, deflate"], ["Content-Encoding: br"], ["Content-Encoding: zstd"],
            ["Content-Encoding: compress"], ["Transfer-Encoding: gzip", "Content-Encoding: gzip"],
            ["Content-Encoding: utf-8, gzip"], ["Content-Encoding: gzip", "Content-Encoding: utf-8"],
            ["Content-Encoding: identity, br"], ["Transfer-Encoding: utf-8"], ["Transfer-Encoding: x, identity"],
        ])
    func chain(_ lines: [String]) async throws {
        let bench = try bench(Self.coded(try Self.gzip(Self.tokens, times: 2), lines))
        let error = await bench.refresh().failure
        #expect(error?.message.contains("has a coding, or several") == true, "\(error?.message ?? "")")
        #expect(error?.verdict == .unknownOutcome)
    }

    @Test("the limit of a body is that of the decoded bytes")
    func bomb() async throws {
        let bytes = try Self.gzip(String(repeating: " ", count: 4 << 20))
        #expect(bytes.count < 64 << 10)
        let bench = try bench(Self.coded(bytes, ["Content-Encoding: gzip"]))
        let error = await bench.refresh().failure
        #expect(error?.message.contains("its body larger than 1 MiB") == true, "\(error?.message ?? "")")
    }

    @Test("a damaged coding is no response, and neither is one whose list of codings is longer than any")
    func damagedCoding() async throws {
        let list = "Content-Encoding: gzip" + String(repeating: ", identity", count: 300)
        for response in [
            Self.coded(Array(Self.tokens.utf8), ["Content-Encoding: gzip"]),
            Self.coded(try Self.gzip(Self.tokens), [list]),
        ] {
            let bench = try bench(response)
            #expect(await bench.refresh().failure?.verdict == .unknownOutcome)
        }
    }

    @Test("a byte order mark before JSON is skipped, in a coding as well")
    func byteOrderMark() async throws {
        let marked = "\u{FEFF}" + Self.tokens
        for response in [
            Self.coded(Array(marked.utf8), []), Self.coded(try Self.gzip(marked), ["Content-Encoding: gzip"]),
        ] {
            let bench = try bench(response)
            #expect(Tokens.text(try await bench.refresh().get().accessToken) == Tokens.access())
        }
    }

    // libcurl reads a clock of its own, so its time limits are waited for.

    @Test("a service that takes the refresh and stays silent leaves its outcome unknown, at the time limit")
    func silent() async throws {
        let bench = try bench(limits: Self.hasty, RawResponse([]))
        async let login = bench.login().failure?.verdict
        #expect(await bench.refresh().failure?.verdict == .unknownOutcome)
        #expect(await login == .transient(retryAfter: nil))
    }

    @Test("a body that never ends is cut off at the time limit")
    func dripping() async throws {
        let head = Array("HTTP/1.1 200 OK\r\n\r\n{".utf8)
        let drops = DispatchSemaphore(value: 0)
        let drip: [RawResponse.Step] = (0..<100_000).flatMap { _ in [.perform { drops.wait() }, .send([0x20])] }
        let bench = try bench(limits: Self.hasty, RawResponse([.send(head)] + drip))
        let calls = Calls()
        calls.refresh(1, by: bench)
        try await eventually("the call is cut off") {
            drops.signal()
            return !calls.list.isEmpty
        }
        #expect(calls.list.first?.failure?.verdict == .unknownOutcome)
        bench.server.stop()
        drops.signal()
    }

    @Test(
        "a response in many small pieces is read whole",
        arguments: [
            Array("HTTP/1.1 201 C\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"acc\r\n".utf8)
                + Array(
                    "\(String(13 + Tokens.access().utf8.count, radix: 16))\r\ness_token\":\"\(Tokens.access())\"\r\n1\r\n}\r\n0\r\n\r\n"
                        .utf8),
            Array("HTTP/1.0 200 OK\r\n\r\n{\"access_token\":\"\(Tokens.access())\"}".utf8),
            Array(
                """
                HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nRetry-After: 9\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\
                {\"access_token\":\"\(Tokens.access())\"}
                """
                .utf8),
        ])
    func pieces(bytes: [UInt8]) async throws {
        let loop = Guarded<EventLoop?>(nil)
        // The loop has handled each byte before the next one is sent.
        let steps = bytes.flatMap { byte -> [RawResponse.Step] in
            [.send([byte]), .perform { loop.withLock { $0 }?.settle() }]
        }
        let bench = try bench(RawResponse(steps + [.close]))
        loop.withLock { $0 = bench.loop }
        #expect(Tokens.text(try await bench.refresh().get().accessToken) == Tokens.access())
    }

    @Test(
        "a response beyond the limits is refused",
        arguments: [
            RawResponse.large((1 << 20) + 1),
            RawResponse([
                .send(Array("HTTP/1.1 200 OK\r\n\r\n".utf8)),
                .repeated([UInt8](repeating: 0x20, count: 65536), times: 17), .close,
            ]),
            RawResponse([
                .send(Array("HTTP/1.1 200 OK\r\n".utf8)),
                .repeated(Array("X-Filler: \(String(repeating: "x", count: 1000))\r\n".utf8), times: 80), .close,
            ]),
        ])
    func oversized(response: RawResponse) async throws {
        let bench = try bench(response)
        let error = await bench.refresh().failure
        #expect(error?.verdict == .transient(retryAfter: nil))
        #expect(error?.message.contains("too large") == true)
    }

    @Test("interim responses without end are no response: the outcome of the refresh is unknown")
    func interim() async throws {
        let bench = try bench(
            RawResponse([.repeated(Array("HTTP/1.1 102 Processing\r\n\r\n".utf8), times: 5000), .close]))
        let error = await bench.refresh().failure
        #expect(error?.verdict == .unknownOutcome)
        #expect(error?.message.contains("too large") == true)
        #expect(await bench.login().failure?.verdict == .transient(retryAfter: nil))
    }

    @Test("a body of exactly 1 MiB is read")
    func largest() async throws {
        let frame = #"{"access_token":"\#(Tokens.access())"}"#
        let padding = String(repeating: " ", count: (1 << 20) - frame.utf8.count)
        let bench = try bench(IdentityBench.json(200, frame + padding))
        #expect(await bench.refresh().success != nil)
    }

    @Test(
        "bytes that are not HTTP/1 are no response",
        arguments: [
            "garbage\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\u{15}\u{3}\u{1}\u{0}\u{2}\u{2}", "HTTP/9.9 200 OK\r\n\r\n",
            "{}",
        ])
    func garbage(text: String) async throws {
        let bench = try bench(RawResponse.text(text).closing)
        let verdict = await bench.refresh().failure?.verdict
        #expect(verdict == .unknownOutcome)
    }

    @Test("no listener, no such name: transient, said at once, nothing was sent")
    func unreachable() async throws {
        for url in ["http://127.0.0.1:1", "http://[::1]:1", "http://name.invalid"] {
            let bench = try IdentityBench(baseURL: url)
            let error = await bench.refresh().failure
            #expect(error?.verdict == .transient(retryAfter: nil) && error?.status == nil)
        }
    }

    @Test("an address that swallows connections ends at the connection's time limit, with nothing sent")
    func swallowed() async throws {
        // A full backlog: the kernel drops further SYNs.
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = bind(listener, $0, length)
                _ = listen(listener, 0)
                _ = getsockname(listener, $0, &length)
            }
        }
        let port = UInt16(bigEndian: address.sin_port)
        let filler = try RawClient(.tcp(port))
        var limits = CurlLimits()
        limits.connectTimeout = .milliseconds(300)
        let bench = try IdentityBench(baseURL: "http://127.0.0.1:\(port)", limits: limits)
        // More than there are places: none is kept for a thread that is not lost.
        let calls = Calls()
        calls.refresh(IdentityCallKind.session.inFlightMax + 1, by: bench)
        try await eventually("all have ended") { calls.list.count == IdentityCallKind.session.inFlightMax + 1 }
        #expect(calls.list.allSatisfy { $0.failure?.verdict == .transient(retryAfter: nil) })
        filler.close()
    }

    @Test("eight calls run at once, the rest wait in order, and a call that waits too long fails without being sent")
    func bound() async throws {
        let isFree = Milestone()
        defer { isFree.set() }
        var limits = CurlLimits()
        limits.totalTimeout = .seconds(3600)
        let bench = try IdentityBench(limits: limits) { request, _ in
            guard request.method != "GET" else { return nil }
            isFree.wait(for: "the calls that wait have failed")
            return Self.good
        }
        let outcomes = Calls()
        outcomes.refresh(12, by: bench)
        try await eventually("eight are sent") { bench.server.requests.count { $0.method == "POST" } == 8 }
        #expect(outcomes.list.isEmpty)
        bench.loop.pass(limits.totalTimeout - limits.totalLeftMin - .seconds(600))
        #expect(outcomes.list.isEmpty)
        bench.loop.pass(.seconds(600))
        #expect(outcomes.list.map { $0.failure?.verdict } == Array(repeating: .transient(retryAfter: nil), count: 4))
        isFree.set()
        try await eventually("all have ended") { outcomes.list.count == 12 }
        #expect(outcomes.list.count { $0.success != nil } == 8)
        #expect(bench.server.requests.count { $0.method == "POST" } == 8)
    }

    /// Refreshes that begin in order, and how they have ended.
    private final class Calls: Sendable {
        private let results = Guarded<[Result<Grant, IdentityError>]>([])
        var list: [Result<Grant, IdentityError>] { results.withLock { $0 } }

        /// When this returns, each is sent or waits for a place.
        func refresh(_ count: Int, by bench: IdentityBench) {
            for _ in 0..<count {
                bench.identity.refresh(Tokens.secret(Tokens.refresh)) { [self] result in
                    results.withLock { $0.append(result) }
                }
            }
            bench.loop.settle()
        }
    }

    @Test("calls beyond the bound get through as places come free")
    func queued() async throws {
        let isFree = Milestone()
        defer { isFree.set() }
        let bench = try bench(Self.good.after(isFree, "the calls beyond the bound wait"))
        let calls = Calls()
        calls.refresh(60, by: bench)
        isFree.set()
        try await eventually("all have ended") { calls.list.count == 60 }
        #expect(calls.list.allSatisfy { $0.success != nil })
    }

    @Test("a call's request starts when it gets its place")
    func requestStart() async throws {
        let (isFree, time) = (Milestone(), Duration.seconds(5))
        defer { isFree.set() }
        let bench = try IdentityBench { request, _ in
            guard request.method != "GET" else { return nil }
            isFree.wait(for: "the last call has waited")
            return Self.good
        }
        let calls = Calls()
        calls.refresh(IdentityCallKind.session.inFlightMax + 1, by: bench)
        try await eventually("all places are taken") {
            bench.server.requests.count { $0.method == "POST" } == IdentityCallKind.session.inFlightMax
        }
        bench.loop.pass(time)
        isFree.set()
        try await eventually("all have ended") { calls.list.count == IdentityCallKind.session.inFlightMax + 1 }
        let starts = calls.list.compactMap { $0.success?.requestStartedAt?.instant }.sorted()
        try #require(starts.count == IdentityCallKind.session.inFlightMax + 1)
        #expect(starts[IdentityCallKind.session.inFlightMax] - starts[0] >= time)
    }

    @Test("logins that hang leave places for refreshes and logouts, which go before every login that waits")
    func hangingLogins() async throws {
        let bench = try IdentityBench { _, path in path.hasSuffix("/login") ? RawResponse([]) : nil }
        async let stuck = withTaskGroup(of: IdentityError.Verdict?.self) { group in
            for _ in 0..<12 { group.addTask { await bench.login().failure?.verdict } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        func logins() -> Int { bench.server.requests.count { $0.target.hasSuffix("/login") } }
        try await eventually("the places of logins are taken") { logins() == 5 }
        // The very moment at which one after the other needs a place.
        for _ in 0..<6 {
            #expect(await bench.refresh().success != nil)
            #expect(await bench.revoke().failure?.verdict != .transient(retryAfter: nil))
        }
        #expect(logins() == 5)
        bench.identity.stop()
        #expect(await stuck.count == 12)
    }

    @Test("with every place taken by refreshes a later refresh goes before an earlier login")
    func refreshFirst() async throws {
        let isFree = Milestone()
        defer { isFree.set() }
        let bench = try IdentityBench { request, path in
            guard !path.hasSuffix("/login"), request.method != "GET" else { return nil }
            isFree.wait(for: "the second round waits")
            return Self.good
        }
        #expect(await bench.login().success != nil)
        @Sendable func sessionCalls() -> Int { bench.server.requests.count { $0.target == IdentityBench.sessionPath } }
        let (first, second) = (Calls(), Calls())
        first.refresh(8, by: bench)
        try await eventually("all places are taken") { sessionCalls() == 8 }
        let login = Guarded<(isGranted: Bool, refreshes: Int)?>(nil)
        bench.identity.login(.configured(.anonymous), guarded: nil) { result in
            login.withLock { $0 = (result.success != nil, sessionCalls()) }
        }
        bench.loop.settle()
        second.refresh(16, by: bench)
        isFree.set()
        try await eventually("all have ended") { second.list.count == 16 && login.withLock { $0 != nil } }
        let ended = try #require(login.withLock { $0 })
        // All refreshes began before it; the latest seven may still have been on their way.
        #expect(ended.isGranted && ended.refreshes > 16)
        #expect((first.list + second.list).allSatisfy { $0.success != nil })
    }

    @Test("a slow identity delays no other one on the same loop")
    func neighbours() async throws {
        let slow = try bench(RawResponse([]))
        let stuck = Calls()
        stuck.refresh(20, by: slow)
        try await eventually("eight calls are stuck") { slow.server.requests.count { $0.method == "POST" } == 8 }
        let app = IdentitySettings.AppServices(appID: "demo-abcde", baseURL: "http://127.0.0.1:1")
        let settings = IdentitySettings(name: "other", kind: .appServices(app))
        let quick = AppServicesIdentity(settings, app: app, version: "1", on: slow.loop)
        let error = await withCheckedContinuation { done in
            quick.refresh(Tokens.secret(Tokens.refresh)) { done.resume(returning: $0.failure) }
        }
        #expect(error?.verdict == .transient(retryAfter: nil))
        #expect(stuck.list.isEmpty)
        slow.identity.stop()
        try await eventually("all have ended") { stuck.list.count == 20 }
    }

    @Test("stopping answers what is in progress, what waits, and what comes later, each once")
    func stop() async throws {
        let bench = try bench(RawResponse([]))
        async let outcomes = withTaskGroup(of: IdentityError.Verdict?.self) { group in
            for _ in 0..<20 { group.addTask { await bench.refresh().failure?.verdict } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        try await eventually("eight calls are in progress") { bench.server.requests.count { $0.method == "POST" } == 8 }
        bench.identity.stop()
        // The eight refreshes were sent.
        let verdicts = await outcomes
        #expect(verdicts.count { $0 == .unknownOutcome } == 8)
        #expect(verdicts.count { $0 == .transient(retryAfter: nil) } == 12)
        #expect(await bench.refresh().failure?.verdict == .transient(retryAfter: nil))
        try await eventually("all connections are closed") { bench.server.records.count { !$0.ended } <= 8 }
    }

    @Test("no connection is kept between calls")
    func closesConnections() async throws {
        let bench = try IdentityBench { request, _ in
            request.method == "POST" ? .response(201, "C", body: #"{"access_token":"\#(Tokens.access())"}"#) : nil
        }
        for _ in 0..<3 { _ = try await bench.refresh().get() }
        #expect(bench.server.connectionCount == 4)
        try await eventually("our side closes") { bench.server.openCount == 0 }
    }
}
