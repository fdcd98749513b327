import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Changed files of an upstream's TLS are used under load: authorities, client certificate and key.
@Suite(.enabled(if: PythonProcess.isInstalled, "needs Python"))
struct UpstreamTLSReloadTests {
    /// Every fifth client connects for each request, the others keep their connection.
    private static let clients = """
        import http.client, sys
        folder, host = sys.argv[1:3]
        kept = [http.client.HTTPConnection(host) for _ in range(10)]
        def ask(index):
            client = kept[index]
            try:
                client.request("GET", "/certificate")
                response = client.getresponse()
                text = response.read().decode()
                if response.status != 200: raise ValueError(response.status)
            except Exception:
                client.close()
                raise
            if index % 5 == 0: client.close()
            return text
        """

    private static func replace(_ name: String, by text: String, in folder: TemporaryFolder) throws {
        try folder.write(name + ".new", text)
        guard rename(folder.file(name + ".new"), folder.file(name)) == 0 else { throw TestFailure("rename: \(errno)") }
    }

    @Test(
        "authorities, client certificate and key change under ten connections: no request fails, the upstream sees the new"
    )
    func load() async throws {
        let authority = TLSUpstream.authority
        let upstream = try await TLSUpstream.start(mode: "demand")
        let folder = upstream.folder
        let own = authority.issue(purpose: "clientAuth")
        try folder.write("client.pem", own.certificate)
        try folder.write("client.key", own.key)
        let clock = try TestClock()
        let lanyard = try await LanyardProcess.start(
            before: upstream.url,
            route: """
                tls: {ca_file: \(folder.file("ca.pem")), certificate_file: \(folder.file("client.pem")), \
                key_file: \(folder.file("client.key"))}
                """, under: clock)
        clock.stop()
        let old = try await lanyard.get("/certificate").bodyText
        let clients = try await PythonClients.start(Self.clients, in: folder, ["\(lanyard.data)"])
        func reloads() -> Int { lanyard.process.lines.count { $0.event == "upstream.tls.reloaded" } }
        try await clients.round()
        let next = authority.issue(purpose: "clientAuth")
        try Self.replace("client.pem", by: next.certificate, in: folder)
        try Self.replace("client.key", by: next.key, in: folder)
        try await clients.rounds(until: "the first reload", under: clock) { reloads() == 1 }
        try await clients.rounds(until: "the upstream is shown the new certificate", under: clock) {
            try await lanyard.get("/certificate").bodyText != old
        }
        // Another authority before the first one: the upstream's is still trusted.
        try Self.replace("ca.pem", by: TestAuthority("Another authority").pem + authority.pem, in: folder)
        try await clients.rounds(until: "the second reload", under: clock) { reloads() == 2 }
        try await clients.round()
        #expect(try await clients.end() == "2 {}")
        #expect(!lanyard.process.log.contains("upstream.tls.reload_failed"))
        #expect(!lanyard.process.log.contains("upstream.tls.failed"))
    }

    @Test("a connection whose handshake began before other authorities were read carries no request")
    func handshakeUnderWay() async throws {
        let upstream = try await TLSUpstream.start()
        try upstream.folder.write("hold", "")
        let clock = try TestClock()
        let lanyard = try await LanyardProcess.start(
            before: upstream.url, route: "timeouts: {connect: 1h, connect_all: 1h}, \(upstream.trust)", under: clock)
        clock.stop()
        async let response = lanyard.get("/")
        try await eventually("the handshake has begun") { upstream.process.output.contains("held") }
        try Self.replace("ca.pem", by: TestAuthority("Another authority").pem, in: upstream.folder)
        try await clock.pass(LanyardProcess.fileDelay)
        _ = try await lanyard.process.event("upstream.tls.reloaded")
        unlink(upstream.folder.file("hold"))
        #expect(try await response.status == 502)
        #expect(upstream.requests == [])
        _ = try await lanyard.process.event("upstream.tls.failed") { $0["reason"].string == "unknown_authority" }
    }

    @Test("a certificate without its key, and a half-written one: logged, and the old pair is used until both fit")
    func mismatch() async throws {
        let authority = TLSUpstream.authority
        let upstream = try await TLSUpstream.start(mode: "demand late")
        let folder = upstream.folder
        let (own, next) = (authority.issue(purpose: "clientAuth"), authority.issue(purpose: "clientAuth"))
        try folder.write("client.pem", own.certificate)
        try folder.write("client.key", own.key)
        let clock = try TestClock()
        let lanyard = try await LanyardProcess.start(
            before: upstream.url,
            route: """
                tls: {ca_file: \(folder.file("ca.pem")), certificate_file: \(folder.file("client.pem")), \
                key_file: \(folder.file("client.key"))}
                """, under: clock)
        clock.stop()
        let old = try await lanyard.get("/certificate").bodyText
        for (name, text, words) in [
            ("client.key", next.key, "does not belong"),
            ("client.pem", String(next.certificate.prefix(200)), "damaged"),
        ] {
            try Self.replace(name, by: text, in: folder)
            try await clock.pass(LanyardProcess.fileDelay)
            _ = try await lanyard.process.event("upstream.tls.reload_failed") {
                $0["reason"].string?.contains(words) == true && $0["reason"].string?.contains("route all") == true
            }
            #expect(try await lanyard.get("/certificate").bodyText == old)
        }
        try Self.replace("client.pem", by: next.certificate, in: folder)
        try await clock.pass(LanyardProcess.fileDelay)
        _ = try await lanyard.process.event("upstream.tls.reloaded")
        try await eventually("the upstream is shown the new certificate") {
            let response = try await lanyard.get("/certificate")
            return response.status == 200 && response.bodyText != old
        }
    }
}
