import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Changed files of an upstream's TLS are used under load: authorities, client certificate and key.
@Suite(.enabled(if: PythonProcess.isInstalled, "needs Python"))
struct UpstreamTLSReloadTests {
    /// Ten clients: every fifth connects for each request, the others keep their connection.
    private static let load = """
        import collections, http.client, os, sys, threading, time
        folder, host = sys.argv[1:3]
        results, served, stop = collections.Counter(), [0] * 10, threading.Event()
        def serve(index):
            keeps = index % 5 > 0
            client = http.client.HTTPConnection(host, timeout=30)
            while not stop.is_set():
                try:
                    client.request("GET", "/certificate")
                    response = client.getresponse()
                    results[(response.status, response.read().decode() if response.status == 200 else "")] += 1
                    if response.status == 200: served[index] += 1
                except Exception as error:
                    results[(repr(error), "")] += 1
                    client.close()
                if not keeps: client.close()
                time.sleep(0.02)
        def each_is_served():
            before = list(served)
            while min(now - then for now, then in zip(served, before)) < 2: time.sleep(0.02)
        threads = [threading.Thread(target=serve, args=[index], daemon=True) for index in range(10)]
        for thread in threads: thread.start()
        each_is_served()
        open(folder + "/serving", "w").close()
        while not os.path.exists(folder + "/reloaded"): time.sleep(0.02)
        each_is_served()
        stop.set()
        for thread in threads: thread.join()
        print(len({serial for _, serial in results if serial}),
            {key: count for key, count in results.items() if key[0] != 200})
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
        let lanyard = try await LanyardProcess.start(
            before: upstream.url,
            route: """
                tls: {ca_file: \(folder.file("ca.pem")), certificate_file: \(folder.file("client.pem")), \
                key_file: \(folder.file("client.key"))}
                """)
        let old = try await lanyard.get("/certificate").bodyText
        async let output = PythonProcess.run(
            ["-c", Self.load, folder.path, "\(lanyard.data)"])
        try await eventually("every client is served") {
            FileManager.default.fileExists(atPath: folder.file("serving"))
        }
        let next = authority.issue(purpose: "clientAuth")
        try Self.replace("client.pem", by: next.certificate, in: folder)
        try Self.replace("client.key", by: next.key, in: folder)
        _ = try await lanyard.process.event("upstream.tls.reloaded")
        try await eventually("the upstream is shown the new certificate") {
            try await lanyard.get("/certificate").bodyText != old
        }
        // Another authority before the first one: the upstream's is still trusted.
        try Self.replace("ca.pem", by: TestAuthority("Another authority").pem + authority.pem, in: folder)
        try await eventually("the second reload") {
            lanyard.process.lines.count { $0.event == "upstream.tls.reloaded" } == 2
        }
        try folder.write("reloaded", "")
        #expect(try await output == "2 {}\n")
        #expect(!lanyard.process.log.contains("upstream.tls.reload_failed"))
        #expect(!lanyard.process.log.contains("upstream.tls.failed"))
    }

    @Test("a connection whose handshake began before other authorities were read carries no request")
    func handshakeUnderWay() async throws {
        let upstream = try await TLSUpstream.start()
        try upstream.folder.write("hold", "")
        let lanyard = try await LanyardProcess.start(
            before: upstream.url, route: "timeouts: {connect: 60s, connect_all: 60s}, \(upstream.trust)")
        async let response = lanyard.get("/")
        try await eventually("the handshake has begun") { upstream.process.output.contains("held") }
        try Self.replace("ca.pem", by: TestAuthority("Another authority").pem, in: upstream.folder)
        _ = try await lanyard.process.event("upstream.tls.reloaded")
        unlink(upstream.folder.file("hold"))
        #expect(try await response.status == 502)
        #expect(upstream.requests == [])
        _ = try await lanyard.process.event("upstream.tls.failed") { $0["reason"].string == "unknown_authority" }
    }

    @Test("a certificate without its key, and a half-written one: logged, and the old pair goes on until both fit")
    func mismatch() async throws {
        let authority = TLSUpstream.authority
        let upstream = try await TLSUpstream.start(mode: "demand late")
        let folder = upstream.folder
        let (own, next) = (authority.issue(purpose: "clientAuth"), authority.issue(purpose: "clientAuth"))
        try folder.write("client.pem", own.certificate)
        try folder.write("client.key", own.key)
        let lanyard = try await LanyardProcess.start(
            before: upstream.url,
            route: """
                tls: {ca_file: \(folder.file("ca.pem")), certificate_file: \(folder.file("client.pem")), \
                key_file: \(folder.file("client.key"))}
                """)
        let old = try await lanyard.get("/certificate").bodyText
        for (name, text, words) in [
            ("client.key", next.key, "does not belong"),
            ("client.pem", String(next.certificate.prefix(200)), "damaged"),
        ] {
            try Self.replace(name, by: text, in: folder)
            _ = try await lanyard.process.event("upstream.tls.reload_failed") {
                $0["reason"].string?.contains(words) == true && $0["reason"].string?.contains("route all") == true
            }
            #expect(try await lanyard.get("/certificate").bodyText == old)
        }
        try Self.replace("client.pem", by: next.certificate, in: folder)
        _ = try await lanyard.process.event("upstream.tls.reloaded")
        try await eventually("the upstream is shown the new certificate") {
            let response = try await lanyard.get("/certificate")
            return response.status == 200 && response.bodyText != old
        }
    }
}
