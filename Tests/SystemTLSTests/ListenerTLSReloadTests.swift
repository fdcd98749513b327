import Foundation
import TestSupport
import Testing

@testable import SystemTestSupport

/// Changed files of a listener's TLS are used without a restart, and without a lost request.
@Suite(.enabled(if: PythonProcess.isInstalled, "needs /usr/bin/python3"))
struct ListenerTLSReloadTests {
    /// The serial number that a new connection is shown.
    private func serial(_ bench: ListenerTLSBench) async throws -> String {
        try await bench.python("with connect() as client: print(client.getpeercert()['serialNumber'])")
    }

    @Test("certificate, key and authority change under ten connections: no request fails, and new ones see the new")
    func load() async throws {
        let clock = try TestClock()
        let bench = try await ListenerTLSBench.start("client_ca_file: FOLDER/clients.pem", under: clock)
        try bench.writeClient("client.pem", names: "DNS:any")
        // Every fifth client connects for each request, the others keep their connection.
        let clients = try await bench.clients(
            """
            made, kept = context(certificate="client.pem"), [None] * 10
            def ask(index):
                if not kept[index]:
                    client = connect(made)
                    kept[index] = client, client.makefile("rb")
                client, file = kept[index]
                try:
                    client.sendall(request("/"))
                    status = response(file)[0]
                    if status != 200: raise ValueError(status)
                except Exception:
                    kept[index] = None
                    raise
                if index % 5 > 0: return None
                kept[index] = None
                serial = client.getpeercert()["serialNumber"]
                client.unwrap().close()
                return serial
            """)
        let (process, folder) = (bench.lanyard.process, bench.folder)
        func reloads() -> Int { process.lines.count { $0.event == "listener.tls.reloaded" } }
        try await clients.round()
        let next = ListenerTLSBench.authority.issue("DNS:localhost")
        try ListenerTLSBench.write(next, to: folder)
        try await clients.rounds(until: "the first reload", under: clock) { reloads() == 1 }
        // Another authority beside the first one: the clients of both are trusted.
        let other = TestAuthority("Another authority of clients")
        try ListenerTLSBench.replace("clients.pem", by: ListenerTLSBench.clientAuthority.pem + other.pem, in: folder)
        try await clients.rounds(until: "the second reload", under: clock) { reloads() == 2 }
        try bench.writeClient("second.pem", names: "DNS:any", authority: other)
        #expect(try await bench.python("print(ask('/', context(certificate='second.pem'))[0])") == "200\n")
        try await clients.round()
        #expect(try await clients.end() == "2 {}")
    }

    @Test("a reload of other keys after a certificate was renewed: sessions are still resumed")
    func laterReload() async throws {
        let clock = try TestClock()
        let bench = try await ListenerTLSBench.start(under: clock)
        try ListenerTLSBench.write(ListenerTLSBench.authority.issue("DNS:localhost"), to: bench.folder)
        try await clock.pass(LanyardProcess.fileDelay)
        _ = try await bench.lanyard.process.event("listener.tls.reloaded")
        let pipe = try Fifo(in: bench.folder, named: "reloaded")
        async let output = bench.python(
            """
            made = context()
            with connect(made) as client:
                client.sendall(request("/"))
                print(response(client.makefile("rb"))[0])
                session = client.session
            open(folder + "/reloaded").read()
            with connect(made, session=session) as client: print(client.session_reused)
            """)
        // The client has a session, and waits.
        let reloaded = try await pipe.opened()
        let folder = bench.lanyard.folder
        let text = try String(contentsOfFile: folder.file("lanyard.yaml"), encoding: .utf8)
        try folder.write("lanyard.yaml", text.replacing("log: {", with: "log: {level: debug, "))
        bench.lanyard.process.signal(SIGHUP)
        _ = try await bench.lanyard.process.event("reload.applied") { $0["keys"].string == "log.level" }
        try reloaded.close()
        #expect(try await output == "200\nTrue\n")
    }

    @Test(
        "a key without its certificate, a half-written file and a lost one: logged, and the old ones are used until all fit"
    )
    func mismatch() async throws {
        let clock = try TestClock()
        let bench = try await ListenerTLSBench.start(under: clock)
        let old = try await serial(bench)
        let next = ListenerTLSBench.authority.issue("DNS:localhost")
        try ListenerTLSBench.replace("key.pem", by: next.key, in: bench.folder)
        try await clock.pass(LanyardProcess.fileDelay)
        let failed = try await bench.lanyard.process.event("listener.tls.failed")
        #expect(failed["reason"].string?.contains("does not belong to the certificate") == true)
        #expect(try await serial(bench) == old)
        try ListenerTLSBench.replace("cert.pem", by: String(next.certificate.prefix(200)), in: bench.folder)
        try await clock.pass(LanyardProcess.fileDelay)
        _ = try await bench.lanyard.process.event("listener.tls.failed") {
            $0["reason"].string?.contains("damaged") == true
        }
        #expect(try await serial(bench) == old)
        unlink(bench.folder.file("cert.pem"))
        try await clock.pass(LanyardProcess.fileDelay)
        _ = try await bench.lanyard.process.event("listener.tls.failed") {
            $0["reason"].string?.contains("does not exist") == true
        }
        #expect(try await serial(bench) == old)
        try ListenerTLSBench.replace("cert.pem", by: next.certificate, in: bench.folder)
        try await clock.pass(LanyardProcess.fileDelay)
        _ = try await bench.lanyard.process.event("listener.tls.reloaded")
        #expect(try await serial(bench) != old)
        try await bench.lanyard.process.settle()
        #expect(bench.lanyard.process.lines.count { $0.event == "listener.tls.failed" } == 3)
    }
}
